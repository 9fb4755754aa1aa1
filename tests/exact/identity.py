"""Whatever drafts, schedules and verifies, the text is plain decoding's: every combination of registered parts.

Temperature 0: token-identical in float64 at batch 1, 3 and 32, in float32 up to counted near ties (design section 4).
Temperature 1, batch-independent compositions: a seed is a text at every batch size. Drafters are untrained, so laws
are leaned on four tokens by a logit bias: drafts are accepted often enough for the commitment of whole prefixes, and
each test requires that they were. Within a request no decision address serves twice.

Run by `test_identity.py`, in a process without type checks.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from sparkit.confidences.head import ConfidenceHead
from sparkit.decisions import Purpose
from sparkit.engine import Parts, Request
from sparkit.protocols import CALIBRATORS, CONFIDENCES, SCHEDULERS, VERIFIERS, Drafter, Span, Target
from sparkit.rounds import Round
from sparkit.sampling import SamplingParams
from tests.drafting import (
    DRAFTING,
    GAMMA,
    GREEDY,
    LEANING,
    VOCAB_SIZE,
    WARM,
    Pausing,
    Recording,
    RecordingStep,
    decode_all,
    made,
    table_target,
)
from tests.parts import parts_of, random_tokens, shake, tiny_target

NEW, BATCHES = 6, (1, 3, 32)
RATES = tuple(1 / (60 + b) for b in range(1, 141))  # at batch 32 a third draft does not pay, at 3 and 1 it does
NEAR = 1e-3
LOSSLESS = [part.name for part in VERIFIERS.parts() if part.lossless]
LOSSY_VERIFIERS = {"lenient"}
each_drafter = pytest.mark.parametrize(("name", "head"), DRAFTING, ids=lambda value: value or "-")


@cache
def plain_text(kind: str, params: SamplingParams, number: int, dtype: torch.dtype = torch.float64) -> tuple[int, ...]:
    """What the target says alone, one request at a time."""
    target = table_target() if kind == "table" else tiny_target(vocab_size=VOCAB_SIZE, num_layers=2, dtype=dtype)
    return decode_all(parts_of(target, None), (request(number, params),), 1)[0][0]


def request(number: int, params: SamplingParams) -> Request:
    """Prompts of one to five tokens, texts of four to six."""
    prompt = tuple(random_tokens(1 + number % 5, seed=number, vocab_size=VOCAB_SIZE).tolist())
    return Request(prompt, seed=number, max_new_tokens=NEW - number % 3, params=params)


def numbers(batch: int) -> range:
    """The requests of a batch, short ones first where they are few."""
    return range(2, 2 + batch) if batch < 32 else range(batch)


def requests(batch: int, params: SamplingParams) -> tuple[Request, ...]:
    """As many as a batch holds."""
    return tuple(request(number, params) for number in numbers(batch))


@dataclass
class Seen:
    """What some combinations did, so that a test of nothing cannot pass."""

    accepted: int = 0
    cut: int = 0
    tokens: int = 0

    def add(self, rounds: Sequence[Round]) -> None:
        self.accepted += sum(one.accepted for one in rounds)
        self.cut += sum(one.verify_len < one.ceiling for one in rounds)
        self.tokens += sum(one.tau for one in rounds)


def test_the_lossless_verifiers_are_these() -> None:
    """Kills: a verifier that drops out of these tests because its flag changed."""
    assert set(VERIFIERS.names()) - set(LOSSLESS) == LOSSY_VERIFIERS
    assert len(LOSSLESS) == 3
    assert len(DRAFTING) == 10


# ------------------------------------------------------------------------------------------- temperature 0
@each_drafter
def test_greedy_text_is_the_targets_own(name: str, head: str | None) -> None:
    """Every scheduler x lossless verifier at batch 1, 3 and 32, float64; one of them drafts for a third of the rows.

    Kills: a correction drawn from another row than accepted, a cache that keeps a rejected draft (text differs from
    the second round on), a bonus from row gamma, requests exchanged in a ragged batch.
    """
    target, drafter = made(name, head)
    kind, seen = ("table" if name == "table" else ""), Seen()
    for scheduler in (*SCHEDULERS.names(), Pausing(SCHEDULERS.create("fixed"), share=3)):
        for verifier in LOSSLESS:
            parts = parts_of(target, drafter, scheduler=scheduler, verifier=verifier, rates=RATES)
            for batch in BATCHES:
                found, rounds = decode_all(parts, requests(batch, GREEDY), batch)
                expected = [plain_text(kind, GREEDY, number) for number in numbers(batch)]
                assert found == expected, (scheduler, verifier, batch)
                seen.add(rounds)
    assert seen.accepted > 50
    assert seen.cut > 0


def test_float32_differs_at_near_ties_only() -> None:
    """The first difference to plain decoding is a near tie (two best logits within 1e-3), under 0.2% of the tokens.

    Kills: a difference excused without looking at the logits (the control: a wrong text is no near tie).
    """
    ties, tokens, seen, found = 0, 0, Seen(), list[tuple[int, ...]]()
    for name, head in DRAFTING:
        if name == "table":  # its laws are float64 whatever is asked
            continue
        target, drafter = made(name, head, torch.float32)
        for verifier in LOSSLESS:
            for batch in (3, 32):
                parts = parts_of(target, drafter, scheduler="fixed", verifier=verifier)
                found, rounds = decode_all(parts, requests(batch, GREEDY), batch)
                seen.add(rounds)
                for number, text in zip(numbers(batch), found, strict=True):
                    ties += near_ties(target, number, text)
                    tokens += len(text)
    print(f"{ties} near ties in {tokens} tokens")
    assert ties <= 0.002 * tokens
    assert seen.accepted > 50
    text = found[0]
    with pytest.raises(AssertionError, match="no near tie"):
        near_ties(target, 0, (*text[:4], (text[4] + 1) % VOCAB_SIZE, *text[5:]))


def near_ties(target: Target, number: int, text: tuple[int, ...]) -> int:
    """0 for the plain text; 1 when it leaves that at a near tie; anything else fails."""
    plain = plain_text("", GREEDY, number, torch.float32)
    if text == plain:
        return 0
    at = next(i for i, (a, b) in enumerate(zip(text, plain, strict=True)) if a != b)
    context = [*request(number, GREEDY).prompt, *plain[:at]]
    logits = target.forward(torch.tensor(context), [Span(0, 0, len(context))], target.new_cache(1, 64)).logits[-1]
    for token, bias in LEANING:
        logits[token] += bias
    best, second = logits.topk(2).values.tolist()
    assert best - second < NEAR, f"no near tie: request {number}, token {at}, {best} against {second}"
    return 1


# ------------------------------------------------------------------------------------------- temperature 1
def independent(target: Target, drafter: Drafter) -> list[Parts]:
    """Every registered confidence, calibrator and scheduler that declares batch independence."""
    head = ConfidenceHead(target.hidden_size).double()
    shake(head, 2, 0.5)
    files: dict[str, dict[str, Any]] = {
        "identity": {},
        "sts": {"calibration_temperatures": (0.7, 1.5, 0.9)},
        "platt": {"slopes": (0.5, 1.0, 2.0), "biases": (0.3, 0.0, -0.2)},
        "isotonic": {"knots": (((-1.0, 0.2), (1.0, 0.9)),) * GAMMA},
        "online": {},
    }
    confidences = [head, *(CONFIDENCES.create(n) for n in ("max_prob", "position", "token_prob"))]
    chain = [
        (confidence, calibrator, scheduler)
        for confidence in confidences
        for calibrator in (CALIBRATORS.create(n, **files[n]) for n in CALIBRATORS.names())
        for scheduler in map(SCHEDULERS.create, SCHEDULERS.names())
        if confidence.batch_independent and calibrator.batch_independent and scheduler.batch_independent
    ]
    return [parts_of(target, drafter, confidence=a, calibrator=b, scheduler=c, rates=RATES) for a, b, c in chain]


def test_batch_independent_compositions() -> None:
    """Same seed, same text at batch 1, 3 and 32, for every chain of batch-independent parts.

    Kills: a draw addressed by row, a confidence that looks across the batch and declares itself independent.
    """
    target, drafter = made("dspark", "none")
    compositions, seen = independent(target, drafter), Seen()
    assert len(compositions) >= 16
    for parts in compositions:
        assert parts.is_batch_independent
        assert_one_text_a_seed(parts, seen)
    assert seen.accepted > 50
    assert seen.cut > 0


@each_drafter
@pytest.mark.parametrize("verifier", LOSSLESS)
def test_every_drafter_is_batch_independent(name: str, head: str | None, verifier: str) -> None:
    """The same with every drafter under `fixed`. Kills: keys, features or chains of a neighbour's slot."""
    target, drafter = made(name, head)
    seen = Seen()
    assert_one_text_a_seed(parts_of(target, drafter, confidence="max_prob", verifier=verifier), seen)
    assert seen.accepted > 0


def assert_one_text_a_seed(parts: Parts, seen: Seen) -> None:
    whole, rounds = decode_all(parts, requests(32, WARM), 32)
    seen.add(rounds)
    for batch in (1, 3):
        found, rounds = decode_all(parts, requests(batch, WARM), batch)
        seen.add(rounds)
        assert found == [whole[number] for number in numbers(batch)], batch


@each_drafter
def test_coupled_text_is_the_seeds_plain_text(name: str, head: str | None) -> None:
    """At temperature 1, under every scheduler, lookahead too. Kills: coupled noise addressed by the anchor."""
    target, drafter = made(name, head)
    plain = decode_all(parts_of(target, None, verifier="coupled"), requests(32, WARM), 32)[0]
    for scheduler in SCHEDULERS.names():
        parts = parts_of(target, drafter, scheduler=scheduler, verifier="coupled", rates=RATES)
        found, _ = decode_all(parts, requests(3, WARM), 3)
        assert found == [plain[number] for number in numbers(3)], scheduler


# ------------------------------------------------------------------------------------------- addresses
def recorded(parts: Parts, recording: Recording, share: int = 1) -> Counter[tuple[int, int, int, int]]:
    """Addresses of a run with probes, pauses, four requests in three slots, of which one in `share` drafts."""
    parts.verifier.source = recording
    calibrator = CALIBRATORS.create("online", probe_every=3, refit_every=100)
    decode_all(
        replace(parts, calibrator=calibrator, scheduler=Pausing(parts.scheduler, (True, True, False), share)),
        requests(4, WARM),
        3,
    )
    return recording.asked


@each_drafter
@pytest.mark.parametrize("verifier", [name for name in LOSSLESS if name != "coupled"])
def test_no_address_is_asked_for_twice(name: str, head: str | None, verifier: str) -> None:
    """Kills: an undrafted step or a prefill at an address of the next round, a probe's coin at a draft's address.

    Coupled noise belongs to positions and is asked again by design (design section 2).
    """
    target, drafter = made(name, head)
    for scheduler, share in (("fixed", 1), ("greedy", 1), ("fixed", 2)):
        parts = parts_of(target, drafter, scheduler=scheduler, verifier=verifier, rates=RATES)
        asked = recorded(parts, Recording(parts.verifier.source), share)
        assert {address[2] for address in asked} >= {Purpose.ACCEPT, Purpose.NEXT, Purpose.PLAIN, Purpose.PROBE}
        assert [address for address, count in asked.items() if count > 1] == [], scheduler


class Coarse(Recording):
    """Planted: anchors rounded down, so that two rounds meet."""

    def at(self, seeds: Tensor, anchors: Tensor) -> RecordingStep:
        return Recording.at(self, seeds, anchors // 4)


def test_the_recorder_sees_a_shared_address() -> None:
    """The control of the test above."""
    target, drafter = made("dflash", None)
    parts = parts_of(target, drafter)
    assert max(recorded(parts, Coarse(parts.verifier.source)).values()) > 1

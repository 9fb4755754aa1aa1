"""The engine between rounds: snapshots, prefill in chunks, cancelling, stops, replaced parts, many requests.

What a single round commits is `identity.py`; random sequences of all of this are `tests/cases/engine_machine.py`.
Run by `test_engine.py`, in a process without type checks.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from sparkit.engine import Engine, Parts, Request, restore, snapshot
from sparkit.protocols import CALIBRATORS, SCHEDULERS, Drafter
from sparkit.rounds import Limits, Round, Seconds
from sparkit.sampling import SamplingParams
from tests.drafting import (
    DRAFTING,
    GAMMA,
    GREEDY,
    LEANING,
    ONE_OF_A_KIND,
    VOCAB_SIZE,
    WARM,
    Pausing,
    decode_all,
    made,
)
from tests.parts import parts_of, random_tokens, tiny_target

each_drafter = pytest.mark.parametrize(("name", "head"), DRAFTING, ids=lambda value: value or "-")
one_of_a_kind = pytest.mark.parametrize(("name", "head"), ONE_OF_A_KIND, ids=lambda value: value or "-")
RATES = (1.0, 0.98, 0.96, 0.95, 0.5)


def prompt(number: int, length: int) -> tuple[int, ...]:
    return tuple(random_tokens(length, seed=number, vocab_size=VOCAB_SIZE).tolist())


def some_requests(params: SamplingParams, num: int = 5, **options: Any) -> list[Request]:
    options = {"max_new_tokens": 9, **options}
    return [Request(prompt(n, 1 + 2 * n), seed=n, params=params, **options) for n in range(num)]


def timeless(rounds: Sequence[Round]) -> list[Round]:
    return [replace(one, seconds=Seconds()) for one in rounds]


def texts_of(engine: Engine) -> list[tuple[int, ...]]:
    return [tuple(done.token_ids) for done in engine.results()]


def drafter_lengths(drafter: Drafter) -> list[int]:
    """Positions in each slot of a drafter that has a cache."""
    cache = getattr(drafter, "cache", None) or drafter.state.cache
    return list(cache.lengths)


# ------------------------------------------------------------------------------------------- snapshots
@each_drafter
def test_a_restored_run_goes_on_identically(name: str, head: str | None) -> None:
    """Rounds and texts after a restore, twice, and in a fresh engine, are those of the run that was never stopped.

    Kills: a snapshot that shares lists, caches or waiting features with the run; memories left out; ids given twice.
    """

    def engine_of() -> Engine:
        target, drafter = made(name, head)
        parts = parts_of(target, drafter, scheduler="delayed", calibrator="online", rates=RATES)
        return Engine(parts, gamma=GAMMA, num_slots=3, prefill_chunk=4)

    engine = engine_of()
    for one in some_requests(WARM):
        engine.add(one)
    for _ in range(4):
        engine.step()
    saved = snapshot(engine)
    late = Request(prompt(9, 4), 9, 5, WARM)
    engine.add(late)
    rest, texts = timeless(list(engine.stream())), texts_of(engine)
    for other in (engine, engine, engine_of()):
        restore(other, saved)
        assert other.add(late) == 5
        assert timeless(list(other.stream())) == rest
        assert texts_of(other) == texts


def test_a_snapshot_of_another_size_is_refused() -> None:
    """Kills: an index error in the middle of the next step."""
    engine, other = (Engine(parts_of(tiny_target(), None), gamma=1, num_slots=n) for n in (2, 3))
    with pytest.raises(ValueError, match=r"the snapshot has 2 slots and this engine 3; restore into"):
        restore(other, snapshot(engine))


# ------------------------------------------------------------------------------------------- prefill
@each_drafter
def test_the_prefill_chunk_changes_nothing(name: str, head: str | None) -> None:
    """Texts, drafts and their laws are the same for chunks of 1, 3 and 256 tokens.

    Kills: a chunk's last row taken for the prompt's, features of a chunk lost, a draw in every chunk.
    """
    target, drafter = made(name, head)
    parts = parts_of(target, drafter, confidence="max_prob")

    def run(chunk: int) -> tuple[list[tuple[int, ...]], dict[Any, tuple[Any, ...]]]:
        texts, rounds = decode_all(parts, some_requests(WARM, max_new_tokens=6), 3, prefill_chunk=chunk)
        drafted = [one for one in rounds if one.kind == "drafted"]
        return texts, {(one.request, one.anchor_position): (one.drafted, one.p_draft) for one in drafted}

    texts, drafts = run(256)
    for chunk in (1, 3):
        other_texts, others = run(chunk)
        assert other_texts == texts
        assert others.keys() == drafts.keys()
        for key, (tokens, laws) in others.items():
            assert tokens == drafts[key][0]
            assert laws == pytest.approx(drafts[key][1], abs=1e-12)


def test_a_chunk_is_shared_oldest_first() -> None:
    """Kills: a chunk a request, so that a step has no bound; the youngest prompt served first."""
    engine = Engine(parts_of(tiny_target(), None), gamma=1, num_slots=3, prefill_chunk=4)
    for length in (6, 3, 2):
        engine.add(Request(tuple(range(length)), 0, 2))
    seen = []
    while engine.has_work:
        engine.step()
        seen.append([s.id for s in engine.decoding()])
        assert sum(max(0, n) for n in engine.cache.lengths) <= 4 * engine.num_steps + engine.num_steps * 3
    assert seen[:3] == [[], [0], [1, 2]]


# ------------------------------------------------------------------------------------------- cancelling
@one_of_a_kind
def test_cancelling_frees_slot_and_caches(name: str, head: str | None) -> None:
    """Decoding, prefilling and waiting requests; the others, and whoever gets the slots, say what they say alone.

    Kills: a slot that keeps length, keys, pending features or an owed token of the request before.
    """
    target, drafter = made(name, head)
    parts = parts_of(target, drafter, confidence="max_prob")
    asked = [
        Request(prompt(0, 3), 0, 12, WARM),
        Request(prompt(1, 4), 1, 12, WARM),
        Request(prompt(2, 30), 2, 12, WARM),
        Request(prompt(3, 5), 3, 12, WARM),
        Request(prompt(4, 6), 4, 12, WARM),
    ]
    solo = [decode_all(parts, [one], 1)[0][0] for one in asked]
    engine = Engine(parts, gamma=GAMMA, num_slots=3, prefill_chunk=8)
    for one in asked:
        engine.add(one)
    for _ in range(3):
        engine.step()
    for number in (1, 2, 3):  # decoding, in the middle of its prompt, waiting
        engine.cancel(number)
    assert engine.free_slots == [1, 2]
    assert engine.cache.lengths[1:] == [0, 0]
    assert engine.inbox.absorbed.keys() | engine.inbox.features.keys() <= {0}
    if name != "ngram":
        assert drafter_lengths(drafter)[1:] == [0, 0]
    list(engine.stream())
    assert [done.stop_reason for done in engine.results()] == [
        "length",
        "cancelled",
        "cancelled",
        "cancelled",
        "length",
    ]
    found = texts_of(engine)
    assert (found[0], found[4]) == (solo[0], solo[4])
    assert 0 < len(found[1]) < 12
    assert found[1] == solo[1][: len(found[1])]
    assert found[2:4] == [(), ()]


def test_cancelling_nobody_is_refused() -> None:
    """Kills: a silent success for an id that never was or has ended."""
    engine = Engine(parts_of(tiny_target(), None), gamma=1, num_slots=1)
    engine.add(Request((1,), 0, 1))
    list(engine.stream())
    for number in (0, 7):
        with pytest.raises(LookupError, match=rf"cancel\({number}\): no such request is waiting or running"):
            engine.cancel(number)


# ------------------------------------------------------------------------------------------- sampling in a block
SHAPES = {
    "repetition": {"repetition_penalty": 1.7},
    "presence": {"presence_penalty": 1.5},
    "frequency": {"frequency_penalty": 0.8},
    "banned": {"banned": (2, 5)},
    "min_p": {"min_p": 0.2},
    "top_k": {"top_k": 2},
    "top_p": {"top_p": 0.7},
    "all": {"repetition_penalty": 1.3, "frequency_penalty": 0.5, "banned": (7,), "top_k": 6, "min_p": 0.05},
}


@one_of_a_kind
@pytest.mark.parametrize(("verifier", "temperature"), [("rejection", 0.0), ("block", 0.0), ("coupled", 0.8)])
def test_shaped_laws_inside_a_block(name: str, head: str | None, verifier: str, temperature: float) -> None:
    """All shapes in one batch, each request as in plain decoding.

    Kills: penalties that count the committed text only, one row's parameters for the whole step, a ban that holds for
    the bonus row alone.
    """
    target, drafter = made(name, head)
    asked = [
        Request(prompt(n, 3), n, 10, SamplingParams(temperature, logit_bias=LEANING, **options))
        for n, options in enumerate(SHAPES.values())
    ]
    plain = decode_all(parts_of(target, None, verifier=verifier), asked, 4)[0]
    found, rounds = decode_all(parts_of(target, drafter, verifier=verifier), asked, len(asked))
    assert dict(zip(SHAPES, found, strict=True)) == dict(zip(SHAPES, plain, strict=True))
    assert any(one.accepted for one in rounds)
    assert len(set(plain)) > 3


# ------------------------------------------------------------------------------------------- stops
def spell(ids: Sequence[int]) -> str:
    """Two bytes a token, so that a two-byte character may lie across tokens."""
    return b"".join(bytes([0xC3, 0xA0 + i]) if i % 2 else bytes([0x41 + i]) for i in ids).decode(errors="replace")


@one_of_a_kind
def test_stops_wherever_rounds_fall(name: str, head: str | None) -> None:
    """Every pair and triple of a text as a stop string, every token of it as a stop token, in one batch.

    Kills: a search within a round, a stop looked for in the prompt, tokens after the stop left in the text.
    """
    target, drafter = made(name, head)
    whole = decode_all(parts_of(target, None), some_requests(GREEDY, 1, max_new_tokens=12), 1)[0][0]
    text = spell(whole)
    stops = sorted({text[i : i + size] for size in (2, 3) for i in range(len(text) - size)})
    strings = [Request(prompt(0, 1), 0, 12, GREEDY, stop_strings=(stop,)) for stop in stops]
    tokens = [Request(prompt(0, 1), 0, 12, GREEDY, stop_tokens=frozenset({token})) for token in sorted(set(whole))]
    found, rounds = decode_all(parts_of(target, drafter), [*strings, *tokens], 6, decode=spell)
    for one, ids in zip([*strings, *tokens], found, strict=True):
        stop = one.stop_strings[0] if one.stop_strings else spell(list(one.stop_tokens))
        end = next(n for n in range(1, 13) if stop in spell(whole[:n]))
        assert ids == whole[:end], stop
    assert {one.stop_reason for one in rounds} == {None, "stop"}


def test_stop_strings_without_a_tokenizer_are_refused_at_the_door() -> None:
    """Kills: an error in the middle of a step, after which everybody else's text is lost."""
    engine = Engine(parts_of(tiny_target(), None), gamma=1, num_slots=2)
    engine.add(Request((1, 2), 0, 3))
    with pytest.raises(ValueError, match="stop strings need a tokenizer"):
        engine.add(Request((1, 2), 0, 3, stop_strings=("x",)))
    list(engine.stream())
    assert [len(done.text) for done in engine.results()] == [3]


@one_of_a_kind
def test_limits_inside_a_block(name: str, head: str | None) -> None:
    """Limits 0 to 9 in one batch: prefixes of one text. Kills: a limit checked once a round, a ceiling of gamma."""
    target, drafter = made(name, head)
    parts = parts_of(target, drafter, verifier="coupled")  # with rejection a cut moves the last token's address
    found, rounds = decode_all(parts, [Request(prompt(0, 3), 4, limit, WARM) for limit in range(10)], 4)
    assert found == [found[-1][:limit] for limit in range(10)]
    assert len(found[-1]) == 9
    assert all(one.verify_len <= one.ceiling <= GAMMA for one in rounds)


# ------------------------------------------------------------------------------------------- changes in the middle
@one_of_a_kind
@pytest.mark.parametrize(("verifier", "params"), [("rejection", GREEDY), ("coupled", WARM)])
def test_parts_replaced_in_the_middle(name: str, head: str | None, verifier: str, params: SamplingParams) -> None:
    """Every scheduler, calibrator and confidence in turn: the text stays the plain text.

    Kills: a memory of the old scheduler handed to the new one, a replaced part that goes on deciding.
    """
    target, drafter = made(name, head)
    asked = some_requests(params, max_new_tokens=12)
    plain = decode_all(parts_of(target, None, verifier=verifier), asked, 5)[0]
    engine = Engine(parts_of(target, drafter, verifier=verifier, rates=RATES), gamma=GAMMA, num_slots=3)
    for one in asked:
        engine.add(one)
    turn = 0
    while engine.has_work:
        engine.step()
        turn += 1
        parts = parts_of(
            target, drafter, verifier=verifier, rates=RATES,
            scheduler=SCHEDULERS.names()[turn % len(SCHEDULERS.names())],
            calibrator=("identity", "online")[turn % 2], confidence=("position", "max_prob")[turn % 2],
        )  # fmt: skip
        engine.replace(parts)
        assert engine.memories == type(engine.memories).start(parts)
    assert texts_of(engine) == plain


def test_target_and_drafter_cannot_be_replaced() -> None:
    """Kills: a new drafter that drafts on empty slots."""
    target, drafter = made("dflash")
    parts = parts_of(target, drafter)
    engine = Engine(parts, gamma=GAMMA, num_slots=1)
    for other in (replace(parts, drafter=None), replace(parts, target=tiny_target())):
        with pytest.raises(ValueError, match="target and drafter hold the running texts"):
            engine.replace(other)


@each_drafter
@pytest.mark.parametrize(("verifier", "params"), [("block", GREEDY), ("coupled", WARM)])
def test_speculation_off_and_on(name: str, head: str | None, verifier: str, params: SamplingParams) -> None:
    """Pauses of one and of three steps: the plain text, and nothing is pending after a drafted step.

    Kills: features of undrafted steps dropped (drafter and text part ways), or absorbed twice.
    """
    target, drafter = made(name, head)
    asked = some_requests(params, max_new_tokens=14)
    plain = decode_all(parts_of(target, None, verifier=verifier), asked, 5)[0]
    pausing = Pausing(SCHEDULERS.create("fixed"), (True, False, True, False, False, False, True))
    engine = Engine(parts_of(target, drafter, scheduler=pausing, verifier=verifier), gamma=GAMMA, num_slots=3)
    for one in asked:
        engine.add(one)
    kinds = set()
    while engine.has_work:
        rounds = engine.step()
        kinds |= {one.kind for one in rounds}
        for s in engine.decoding():
            assert engine.inbox.absorbed.get(s.slot, 0) + engine.inbox.pending(s.slot) == len(s.tokens) - 1
    assert kinds == {"prefill", "drafted", "undrafted"}
    assert texts_of(engine) == plain


class Watching(Pausing):
    """Keeps the limits that it is asked with."""

    def __init__(self, inner: Any, share: int) -> None:
        super().__init__(inner, share=share)
        self.asked: list[Limits] = []

    def plan(self, survival: Any, capacity: Any, limits: Limits, memory: Any) -> Any:
        self.asked.append(limits)
        return self.inner.plan(survival, capacity, limits, memory)


def test_limits_of_a_step_count_those_who_rest() -> None:
    """Kills: limits of all rows for those that draft, resting rows forgotten (they cost and they count)."""
    target, drafter = made("dspark", "markov")
    watching = Watching(SCHEDULERS.create("greedy"), share=3)
    engine = Engine(parts_of(target, drafter, scheduler=watching, rates=RATES), gamma=GAMMA, num_slots=5)
    for n in range(5):
        engine.add(Request(prompt(n, 3), n, 12 + n, WARM))
    while engine.has_work:
        watching.asked = []
        seen = [one for one in engine.step() if one.kind != "prefill"]
        drafted = [one for one in seen if one.kind == "drafted"]
        assert len(watching.asked) == bool(drafted)
        for limits in watching.asked:
            assert len(limits.ceiling) == len(drafted)
            assert limits.num_resting == len(seen) - len(drafted)
            assert limits.base_tokens == len(seen)
            assert limits.ceiling.tolist() == [one.ceiling for one in drafted]


# ------------------------------------------------------------------------------------------- many
def test_256_requests_through_8_slots() -> None:
    """Nothing lost, nothing mixed: every text is its own seed's, streams are the results, and all slots are free.

    Kills: a slot given to two requests, a result under another id, a round of a retired request.
    """
    target, drafter = made("dspark", "markov")
    lengths = torch.randint(1, 9, (256, 2), generator=torch.Generator().manual_seed(0)).tolist()
    asked = [Request(prompt(n, a), 1000 + n, b, WARM, label=str(n)) for n, (a, b) in enumerate(lengths)]
    plain = decode_all(parts_of(target, None, verifier="coupled"), asked, 256, prefill_chunk=2048)[0]
    parts: Parts = parts_of(target, drafter, scheduler="greedy", verifier="coupled", rates=RATES)
    engine = Engine(parts, gamma=GAMMA, num_slots=8, prefill_chunk=16)
    numbers = [engine.add(one) for one in asked]
    streams: dict[int, list[int]] = {number: [] for number in numbers}
    for one in engine.stream():
        assert one.num_requests <= 8
        streams[one.request] += [token.id for token in one.tokens]
    assert texts_of(engine) == plain
    assert [tuple(streams[number]) for number in numbers] == plain
    assert [done.request.label for done in engine.results()] == [str(n) for n in range(256)]
    assert [len(text) for text in plain] == [b for _, b in lengths]
    assert engine.free_slots == list(range(8))
    assert set(engine.cache.lengths) == set(drafter_lengths(drafter)) == {0}
    assert not engine.inbox.absorbed
    assert not engine.inbox.features


def test_online_memories_are_values() -> None:
    """Kills: a calibrator that writes into the memory it was given: a snapshot would change behind its back."""
    target, drafter = made("dflash")
    parts = parts_of(target, drafter, calibrator=CALIBRATORS.create("online", refit_every=4), scheduler="foresight")
    engine = Engine(parts, gamma=GAMMA, num_slots=3)
    for one in some_requests(WARM):
        engine.add(one)
    for _ in range(4):
        engine.step()
    memories = engine.memories
    records = memories.calibrator.records
    before = [getattr(records, field).clone() for field in records.__slots__]
    list(engine.stream())
    assert memories is not engine.memories
    for field, old in zip(records.__slots__, before, strict=True):
        assert torch.equal(getattr(records, field).nan_to_num(), old.nan_to_num())

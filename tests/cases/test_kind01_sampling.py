"""Kind 1, lossy rejection sampling: the draft law handed to the verifier is the law the token was drawn from.

The cure of the kind: `p_draft` is computed once and both drawn from and judged by (checked on every drafter with a
net), one function shapes every law, and degenerate rows are named. Statistics are 3 sigma with fixed seeds; every band
has a path made to miss it.
"""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from sparkit.decisions import Addressed, AddressedSource, Purpose
from sparkit.engine import Engine, Request
from sparkit.protocols import DRAFTERS, VERIFIERS
from sparkit.rounds import Draft, Plan, Verdict
from sparkit.sampling import SamplingParams, draw, probs
from tests.parts import parts_of, shake, tiny_target
from tests.statistics import FAILURE_RATE, goodness_of_fit

JUDGES = ("rejection", "block")  # coupled never looks at p_draft


def decisions(num: int, seed: int = 0, first: int = 0) -> Addressed:
    return AddressedSource().at(torch.arange(first, first + num) + (seed << 32), torch.zeros(num, dtype=torch.int64))


def rounds(judge: str | Any, q: Tensor, p: Tensor, num: int, drawn_from: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Committed tokens and accept flags of `num` rounds of one draft, drawn from q (or from another law).

    Some thousands at a time: the uniforms of a million rows at once are gigabytes, and the machine waits for memory.
    """
    part = 5000
    assert num % part == 0
    verifier = VERIFIERS.create(judge) if isinstance(judge, str) else judge
    told = [some_rounds(verifier, q, p, decisions(part, first=one), part, drawn_from) for one in range(0, num, part)]
    return torch.cat([tokens for tokens, _ in told]), torch.cat([kept for _, kept in told])


def some_rounds(
    verifier: Any, q: Tensor, p: Tensor, noise: Addressed, num: int, drawn_from: Tensor | None
) -> tuple[Tensor, Tensor]:
    tokens = noise.draw((q if drawn_from is None else drawn_from).expand(num, -1), Purpose.DRAFT, 1)
    drafted = Draft(tokens[:, None], q.expand(num, 1, -1))
    verdict = verifier.verify(drafted, Plan(torch.ones_like(tokens)), p.repeat(2 * num, 1), noise)
    is_kept = verdict.accepted > 0
    return torch.where(is_kept, tokens, verdict.next_token), is_kept


def shares(tokens: Tensor, vocab_size: int) -> Tensor:
    return torch.bincount(tokens, minlength=vocab_size) / len(tokens)


def law(*values: float) -> Tensor:
    return torch.tensor([values], dtype=torch.float64)


def is_within(found: Tensor, expected: list[float], num: int) -> bool:
    """Every share within 3 sigma; a share of 0 must be 0."""
    want = torch.tensor(expected, dtype=torch.float64)
    return bool(((found - want).abs() <= 3 * (want * (1 - want) / num).sqrt()).all())


# ---------------------------------------------------------------------------------------------------------- B01
BF16 = torch.tensor([[10.0, 9.9375]], dtype=torch.bfloat16)
WARM = SamplingParams(temperature=0.7)
NATIVE = torch.softmax((BF16 / 0.7).double(), -1)  # scaled in bf16, as the faulty path does


def test_b01_half_precision_logits_are_promoted_before_anything_is_computed() -> None:
    """Kills: the temperature applied in bf16 (0.53125 in place of 0.52231)."""
    q = probs(BF16, WARM)
    assert q.dtype == torch.float32
    assert float(q[0, 0]) == pytest.approx(0.52231, abs=1e-5)
    assert float(NATIVE[0, 0]) == pytest.approx(0.53125, abs=1e-4)
    drawn = {}
    for name, each in (("right", q), ("native", NATIVE)):
        drawn[name] = float(shares(decisions(200_000).draw(each.expand(200_000, -1), Purpose.DRAFT, 1), 2)[0])
    assert drawn["right"] == pytest.approx(0.5223, abs=0.0034)
    assert abs(drawn["native"] - 0.5223) > 0.0034  # control


def test_b01_output_keeps_the_targets_law() -> None:
    """Kills: drawing from the bf16 law and judging by the fp32 one; the control does exactly that and is caught."""
    p, q = torch.tensor([[0.3, 0.7]]), probs(BF16, WARM)
    out, _ = rounds("rejection", q, p, 1_000_000)
    assert float(shares(out, 2)[0]) == pytest.approx(0.3, abs=0.0014)
    broken, _ = rounds("rejection", q, p, 1_000_000, drawn_from=NATIVE)
    assert float(shares(broken, 2)[0]) == pytest.approx(0.3051, abs=0.0014)


def test_b01_a_law_that_was_not_drawn_from_fails_the_fit() -> None:
    """The chi-square check itself can fail."""
    tokens = decisions(200_000).draw(NATIVE.expand(200_000, -1), Purpose.DRAFT, 1)
    assert goodness_of_fit(torch.bincount(tokens).tolist(), probs(BF16, WARM)[0].tolist()) < FAILURE_RATE


# ---------------------------------------------------------------------------------------------------------- B02
@pytest.mark.parametrize("name", JUDGES)
def test_b02a_filtered_draft(name: str) -> None:
    """Kills: the raw law handed over beside a token from the filtered one."""
    raw, p = law(0.5, 0.3, 0.2), law(0.0, 0.625, 0.375)
    kept = probs(raw.log(), SamplingParams(top_k=2))
    torch.testing.assert_close(kept, law(0.625, 0.375, 0.0))
    num = 200_000
    out, accepted = rounds(name, kept, p, num)
    assert is_within(shares(out, 3), [0, 0.625, 0.375], num)
    assert is_within(accepted.double().mean()[None], [0.375], num)
    broken, accepted = rounds(name, raw, p, num, drawn_from=kept)
    assert is_within(shares(broken, 3), [0, 0.78125, 0.21875], num)
    assert not is_within(shares(broken, 3), [0, 0.625, 0.375], num)
    assert is_within(accepted.double().mean()[None], [0.375], num)  # acceptance shows nothing


@pytest.mark.parametrize("name", JUDGES)
def test_b02b_greedy_draft(name: str) -> None:
    """Kills: the soft law handed over beside an argmax token; it even looks better, 0.8 against 0.4."""
    soft, p, num = law(0.5, 0.3, 0.2), law(0.4, 0.35, 0.25), 200_000
    greedy = probs(soft.log(), SamplingParams(temperature=0.0))
    assert greedy.tolist() == [[1, 0, 0]]
    out, accepted = rounds(name, greedy, p, num)
    assert is_within(shares(out, 3), [0.4, 0.35, 0.25], num)
    assert is_within(accepted.double().mean()[None], [0.4], num)
    broken, accepted = rounds(name, soft, p, num, drawn_from=greedy)
    assert is_within(shares(broken, 3), [0.8, 0.1, 0.1], num)
    assert not is_within(shares(broken, 3), [0.4, 0.35, 0.25], num)
    assert is_within(accepted.double().mean()[None], [0.8], num)


class DrawAndCompare:
    """Draws the target with its own noise and keeps the draft where they agree: exact, merely slower."""

    def verify(self, draft: Draft, plan: Plan, p_target: Tensor, noise: Addressed) -> Verdict:
        token = noise.draw(p_target[plan.first_row], Purpose.NEXT, 1)
        agrees = token == draft.tokens[:, 0]
        after = noise.draw(p_target[plan.first_row + 1], Purpose.NEXT, 2)
        return Verdict(agrees.long(), torch.where(agrees, after, token), agrees)


def test_b02c_drawing_the_target_and_comparing() -> None:
    """Exact with independent noise: acceptance sum(p q) = 0.54, against sum(min(p, q)) = 0.90 of rejection."""
    p, q, num = law(0.7, 0.3), law(0.6, 0.4), 200_000
    first, accepted = rounds(DrawAndCompare(), q, p, num)
    assert is_within(shares(first, 2), [0.7, 0.3], num)
    assert is_within(accepted.double().mean()[None], [0.54], num)
    out, accepted = rounds("rejection", q, p, num)
    assert is_within(shares(out, 2), [0.7, 0.3], num)
    assert is_within(accepted.double().mean()[None], [0.9], num)


class Recorded:
    """A source that notes every law a draft token was drawn from."""

    def __init__(self) -> None:
        self.laws: list[Tensor] = []

    def at(self, seeds: Tensor, anchors: Tensor) -> Any:
        inner, laws = AddressedSource().at(seeds, anchors), self.laws

        class Noise:
            coins = staticmethod(inner.coins)

            def draw(self, p: Tensor, purpose: Purpose, offset: Any) -> Tensor:
                if purpose == Purpose.DRAFT:
                    laws.append(p.clone())
                return inner.draw(p, purpose, offset)

        return Noise()


@pytest.mark.parametrize("name", ["dflash", "dspark", "eagle3", "mtp"])
@pytest.mark.parametrize(
    "params", [SamplingParams(0.7, top_k=5), SamplingParams(0.0), SamplingParams(1.3, top_p=0.8, min_p=0.05)], ids=str
)
def test_b02_every_drafter_hands_over_the_law_it_drew_from(name: str, params: SamplingParams) -> None:
    """Kills: a second softmax, a filter after the draw, argmax drafting with a soft law, in any drafter."""
    target = tiny_target()
    drafter = DRAFTERS.create(name, target=target, gamma=3)
    shake(drafter.net, 1, 0.3)
    source, drafts = Recorded(), []
    propose = drafter.propose
    drafter.propose = lambda *a: drafts.append(propose(*a)) or drafts[-1]
    verifier = VERIFIERS.create("rejection")
    verifier.source = source
    engine = Engine(
        parts_of(target.with_taps(drafter.feature_layers), drafter, verifier=verifier), gamma=3, num_slots=2
    )
    for seed in range(2):
        engine.add(Request((1, 2, 3 + seed), seed, 8, params))
    list(engine.stream())
    drawn = iter(source.laws)
    assert drafts
    for one in drafts:
        for k in range(3):
            assert torch.equal(next(drawn), one.p_draft[:, k])
        torch.testing.assert_close(one.p_draft.sum(-1), torch.ones_like(one.p_draft[..., 0]))


# ---------------------------------------------------------------------------------------------------------- B04
class Constant:
    """Decisions whose every uniform is u."""

    def __init__(self, u: float) -> None:
        self.u = u

    def draw(self, p: Tensor, purpose: object, offset: object) -> Tensor:
        return draw(p, torch.full_like(p[:, 0], self.u, dtype=torch.float64))

    def coins(self, prob: Tensor, purpose: object, until: object = "all") -> Tensor:
        return self.u < prob


class Forced(Constant):
    """Rejects whatever the ratio."""

    def coins(self, prob: Tensor, purpose: object, until: object = "all") -> Tensor:
        return torch.zeros_like(prob, dtype=torch.bool)


def judged(name: str, token: int, q: Tensor, p: Tensor, noise: object, num: int = 1) -> Verdict:
    """One draft each of `num` requests, p at both rows."""
    drafted = Draft(torch.full((num, 1), token), q.expand(num, 1, -1))
    plan = Plan(torch.ones(num, dtype=torch.int64))
    return VERIFIERS.create(name).verify(drafted, plan, p.repeat(2 * num, 1), noise)


@pytest.mark.parametrize("name", JUDGES)
def test_b04_equal_laws_are_always_accepted(name: str) -> None:
    """Kills: `u <= ratio - eps`, a ratio that is nan where both laws are equal."""
    half = law(0.5, 0.5)
    for u in (0.0, 0.5, 1 - 2.0**-24):
        assert judged(name, 0, half, half, Constant(u)).accepted.tolist() == [1]
    assert int((judged(name, 1, half, half, decisions(10_000), 10_000).accepted == 0).sum()) == 0


@pytest.mark.parametrize("name", JUDGES)
def test_b04_a_token_without_target_mass_is_never_accepted(name: str) -> None:
    """Kills: u <= ratio, which lets u = 0 accept anything."""
    p, q = law(0.0, 1.0), law(1.0, 0.0)
    found = judged(name, 0, q, p, Constant(0.0), 10_000)
    assert int(found.accepted.sum()) == 0
    assert set(found.next_token.tolist()) == {1}


@pytest.mark.parametrize("name", JUDGES)
def test_b04_a_nan_draft_law_is_named(name: str) -> None:
    """Kills: a comparison with nan that falls through to a token, or to an id past the vocabulary."""
    with pytest.raises(ValueError, match=r"p_draft of row 0 at block position 1 is no law: it gives nan to token 1"):
        judged(name, 1, law(*[float("nan")] * 3), law(0.2, 0.3, 0.5), Constant(0.5))
    found = judged("coupled", 1, law(*[float("nan")] * 3), law(0.2, 0.3, 0.5), decisions(1))
    assert 0 <= int(found.next_token) < 3


def test_b04_a_nan_target_row_names_request_and_row() -> None:
    """Kills: an argmax over nan committed as a token."""
    target = tiny_target()
    forward, calls = target.forward, []

    def poisoned(tokens: Tensor, spans: Any, cache: Any, rows: Any = None) -> Any:
        out = forward(tokens, spans, cache, rows)
        calls.append(1)
        if len(calls) == 2:  # the first drafted step: rows 0..2 of request 0, then request 1
            out.logits[3 + 1] = torch.nan
        return out

    target.forward = poisoned
    from tests.parts import ScriptedDrafter

    engine = Engine(parts_of(target, ScriptedDrafter(lambda c, n: [1] * n, 32)), gamma=2, num_slots=2)
    for seed in range(2):
        engine.add(Request((1, 2), seed, 9))
    with pytest.raises(ValueError, match=r"request 1: the target's logits at row 1 of 3 are nan"):
        list(engine.stream())


@pytest.mark.parametrize("name", JUDGES)
def test_b04_small_probabilities_have_no_floor(name: str) -> None:
    """Kills: a floor of 1e-8 under p_draft, which would accept a tenth of what it must."""
    p, q = law(1e-9, 1 - 1e-9), law(1e-10, 1 - 1e-10)
    assert judged(name, 0, q, p, Constant(1 - 2.0**-24)).accepted.tolist() == [1]
    control = float(p[0, 0] / q[0, 0].clamp(min=1e-8))
    assert control == pytest.approx(0.1)


@pytest.mark.parametrize("name", JUDGES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_b04_no_residual_is_no_division(name: str, dtype: torch.dtype) -> None:
    """Kills: 0 / 0 where the laws agree to rounding and a rejection happens all the same."""
    p = torch.full((1, 4), 0.25, dtype=dtype)
    q = p.clone()
    q[0, 0] = torch.nextafter(q[0, 0], q.new_ones(()))
    for draft_law in (p, q):
        tokens = [int(judged(name, 0, draft_law, p, Forced(u)).next_token) for u in (0.1, 0.3, 0.6, 0.9)]
        assert tokens == [0, 1, 2, 3]


def test_b04_one_hot_laws() -> None:
    """Greedy on both sides: one comparison of ids, whatever u is."""
    eye = F.one_hot(torch.tensor([0]), 3).double(), F.one_hot(torch.tensor([2]), 3).double()
    for name in (*JUDGES, "coupled"):
        for noise in (decisions(1), decisions(1, 5)):
            assert judged(name, 0, eye[0], eye[0], noise).accepted.tolist() == [1]
            other = judged(name, 0, eye[0], eye[1], noise)
            assert (other.accepted.tolist(), other.next_token.tolist()) == ([0], [2])

"""Faults that real systems have had, planted; each must be killed by an exact law."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor

from sparkit.acceptance import likelihood_ratio
from sparkit.decisions import AddressedSource, Decisions, Purpose, Until
from sparkit.engine import Request
from sparkit.proofs.batching import explore_batched
from sparkit.proofs.choice import chosen
from sparkit.proofs.enumeration import Enumerated
from sparkit.proofs.examples import Example
from sparkit.proofs.exploration import explore
from sparkit.proofs.paths import POSITION_ONLY
from sparkit.proofs.problem import Law, Problem, total_variation
from sparkit.proofs.real import parts_of
from sparkit.proofs.search import EXACT, plain_law
from sparkit.proofs.twins import Tables, TwinDrafter
from sparkit.recipe import Recipe
from sparkit.rounds import Draft, Plan, Verdict
from sparkit.sampling import residual
from sparkit.targets.cache import SlotCache
from tests.exact.worlds import AlwaysAll, composition, skewed

pytestmark = pytest.mark.mutation
WORLD = Example(skewed(), (1.0, 0.5, 0.45), horizon=2, spare=1)


def law_of(parts: Any, source: Enumerated | None = None, world: Example = WORLD) -> tuple[Law, float]:
    problem = world.problem(parts)
    law = explore_batched(problem, source)
    return law, total_variation(law.probability, plain_law(problem))


class Planted:
    """Rejection, with one step of it replaced."""

    lossless, schedule_invariant, source = True, False, AddressedSource()

    def coins(self, ratio: Tensor, decisions: Decisions) -> Tensor:
        return decisions.coins(ratio, Purpose.ACCEPT, until="first_false")

    def correction(self, law: Tensor, p_draft: Tensor) -> Tensor:
        return residual(law, p_draft)

    def row(self, plan: Plan, accepted: Tensor) -> Tensor:
        return plan.first_row + accepted

    def judged(self, p_target: Tensor) -> Tensor:
        return p_target

    def verify(self, draft: Draft, plan: Plan, p_target: Tensor, decisions: Decisions) -> Verdict:
        p_target = self.judged(p_target)
        coins = self.coins(likelihood_ratio(draft, plan, p_target), decisions)
        accepted = coins.long().cumprod(-1).sum(-1)
        is_bonus = accepted == plan.verify_len
        law = p_target[self.row(plan, accepted)]
        rows = torch.arange(len(accepted))
        corrected = self.correction(law, draft.p_draft[rows, accepted.clamp(max=draft.tokens.shape[1] - 1)])
        law = torch.where(is_bonus[:, None], law, corrected)
        return Verdict(accepted, decisions.draw(law, Purpose.NEXT, accepted + 1), is_bonus)


class NotRenormalised(Planted):
    """Inverts the cumulative sums of the raw excess: what is missing to one falls to the last token."""

    def correction(self, law: Tensor, p_draft: Tensor) -> Tensor:
        excess = (law - p_draft).clamp(min=0)
        excess[:, -1] += 1 - excess.sum(-1)
        return excess


class WrongRow(Planted):
    """Draws the next token from the row before the right one."""

    def row(self, plan: Plan, accepted: Tensor) -> Tensor:
        return plan.first_row + (accepted - 1).clamp(min=0)


class DraftsStream(Planted):
    """Throws the accept coins with the draft's uniforms."""

    def coins(self, ratio: Tensor, decisions: Decisions) -> Tensor:
        return decisions.coins(ratio, Purpose.DRAFT, until="first_false")


class InFloat32(Planted):
    """Computes acceptance in float32."""

    def coins(self, ratio: Tensor, decisions: Decisions) -> Tensor:
        return decisions.coins(ratio.float(), Purpose.ACCEPT, until="first_false")


class InBfloat16(Planted):
    """Rounds the target's law to bf16 and normalises again."""

    def judged(self, p_target: Tensor) -> Tensor:
        rounded = p_target.bfloat16().double()
        return rounded / rounded.sum(-1, keepdim=True)


def test_the_unplanted_verifier_is_exact() -> None:
    """Kills: a suite in which everything is caught, the healthy one too."""
    law, off = law_of(composition(WORLD, "fixed", Planted()))
    assert off < EXACT
    assert law.faults == ()


@pytest.mark.parametrize("mutant", [NotRenormalised, WrongRow, DraftsStream, InFloat32, InBfloat16])
def test_a_planted_verifier_is_killed(mutant: type[Planted]) -> None:
    """Kills: each of the named faults."""
    _, off = law_of(composition(WORLD, "fixed", mutant()))
    assert off > EXACT


def test_accept_drawn_from_the_drafts_stream_is_also_reported() -> None:
    """Kills: silence about an address with two purposes."""
    law, _ = law_of(composition(WORLD, "fixed", DraftsStream()))
    assert any("two decisions ask for the uniform" in fault for fault in law.faults)


class AnotherTemperature:
    """Reports the law at temperature 0.7 of tokens drawn at temperature 1."""

    kind, lossless, feature_layers = "autoregressive", True, ()

    def __init__(self, inner: TwinDrafter) -> None:
        self.inner, self.gamma = inner, inner.gamma

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def prepare(self, num_slots: int, max_len: int) -> None: ...
    def absorb(self, features: Any, tokens: Any, spans: Any) -> None: ...
    def forget(self, slot: int) -> None: ...
    def save(self) -> None: ...
    def load(self, state: None) -> None: ...

    def propose(self, anchors: Any, decisions: Decisions) -> Draft:
        draft = self.inner.propose(anchors, decisions)
        return replace(draft, p_draft=torch.softmax(draft.p_draft.log() / 0.7, -1))


@pytest.mark.parametrize("verifier", ["rejection", "block"])
def test_a_draft_law_recomputed_at_another_temperature_is_killed(verifier: str) -> None:
    """Kills: p_draft that is not the law the token was drawn from."""
    drafter = AnotherTemperature(TwinDrafter(WORLD.tables))
    _, off = law_of(composition(WORLD, "fixed", verifier, drafter=drafter))
    assert off > 1e-3


def remembering_world() -> Example:
    """c_4 tells x_3; delayed admits four drafts two rounds later if it was 0, none if it was 1."""
    half = (Fraction(1, 2),) * 2
    target, sure = (Fraction(7, 10), Fraction(3, 10)), (Fraction(4, 5),) * 2
    confidence = (sure, sure, sure, (Fraction(1), Fraction(0)))
    tables = Tables((target, target), ((half, half),) * 4, confidence)
    taus = (1.0, 1.8, 2.44, 2.952, 3.464)
    rates = tuple(theta / tau for theta, tau in zip((1.0, 0.9, 0.9, 0.9, 1.1), taus, strict=True))
    return Example(tables, rates, horizon=3, spare=2)


def test_noise_by_position_alone_is_killed_under_delayed() -> None:
    """Kills: the anchor left out of an address. Two rounds later the same positions are drafted with the noise that
    the admit limit was computed from: 0.70 / 0.30 comes out as 0.85 / 0.15 at the third token after the anchor."""
    world = remembering_world()
    parts = composition(world, "delayed:cold_confidence=0.0,undrafted_probe_every=1")
    _, off = law_of(parts, world=world)
    assert off < EXACT
    law, off = law_of(parts, Enumerated(POSITION_ONLY), world)
    third = sum(float(p) for (text,), p in law.probability.items() if text[3] == 0)
    assert third == pytest.approx(0.85, abs=1e-12)
    assert off == pytest.approx(0.15, abs=1e-12)


def test_noise_by_position_alone_is_killed_under_block_verification() -> None:
    """Kills: the same fault where only the verifier remembers the earlier draft."""
    _, off = law_of(composition(WORLD, "fixed", "block"), Enumerated(POSITION_ONLY))
    assert off > 1e-3


class LaterTies(AlwaysAll):
    """Admits one draft of the batch; ties of the first survival are broken by the second."""

    def plan(self, survival: Tensor, capacity: Any, limits: Any, memory: Any) -> tuple[Plan, None]:
        ranked = sorted(range(len(survival)), key=lambda r: (-float(survival[r, 0]), -float(survival[r, 1]), r))
        wished = torch.zeros(len(survival), dtype=torch.int64)
        wished[ranked[0]] = 1
        return Plan(torch.minimum(wished, limits.ceiling)), None


def test_ties_broken_by_later_confidences_are_killed() -> None:
    """Kills: an unstable or greedy tie rule; the joint law of two requests shows it."""
    world = replace(WORLD, requests=2, horizon=1)
    _, off = law_of(composition(world, LaterTies()), world=world)
    assert off > 1e-3


def test_rollback_one_short_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: a rejected draft left in the target's cache (real attention, so what stays is seen)."""
    parts = chosen(Recipe(drafter="dspark", scheduler="fixed"))
    with torch.inference_mode():
        made = parts_of(Recipe(), parts, 0, 2)
        problem = Problem(made, (Request((0, 1), seed=0, max_new_tokens=4),), 2, 2)
        plain = explore(replace(problem, parts=replace(made, drafter=None)))
        assert total_variation(explore(problem).probability, plain.probability) < EXACT

        def one_short(self: SlotCache, slot: int, length: int) -> None:
            self.lengths[slot] = min(length + 1, self.lengths[slot]) if length else 0

        monkeypatch.setattr(SlotCache, "truncate", one_short)
        assert total_variation(explore(problem).probability, plain.probability) > 1e-6


def test_stray_decisions_are_no_decisions() -> None:
    """Kills: an enumeration whose coins ignore `until` (it would branch on what nobody looks at)."""
    untils: list[Until] = ["all", "first_false", "last_true"]
    counts = []
    for until in untils:
        source, scripts, num = Enumerated(), [()], 0
        while scripts:
            path = source.begin(scripts.pop(), {}, {})
            rows = source.at(torch.tensor([1]), torch.tensor([4]))
            rows.coins(torch.tensor([[0.5, 0.5, 0.5]], dtype=torch.float64), Purpose.ACCEPT, until)
            scripts += path.alternatives()
            num += 1
        counts.append(num)
    assert counts == [8, 4, 4]

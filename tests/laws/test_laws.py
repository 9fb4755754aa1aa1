"""Every registered part keeps the laws of its kind; every law is broken by a part made to break it."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from sparkit.decisions import AddressedSource, Purpose
from sparkit.proofs import neural
from sparkit.proofs.checking import check
from sparkit.proofs.laws import (
    check_calibrator,
    check_confidence,
    check_drafter,
    check_head,
    check_scheduler,
    check_verifier,
)
from sparkit.proofs.laws.calibrator import learned, random_rounds
from sparkit.proofs.laws.drafter import Bench
from sparkit.protocols import CALIBRATORS, CONFIDENCES, DRAFTERS, HEADS, SCHEDULERS, VERIFIERS
from sparkit.rounds import Plan, Verdict
from tests.exact.test_schedulers import literal_greedy
from tests.exact.worlds import AlwaysAll

FAMILIES = {
    "calibrator": CALIBRATORS,
    "confidence": CONFIDENCES,
    "drafter": DRAFTERS,
    "head": HEADS,
    "scheduler": SCHEDULERS,
    "verifier": VERIFIERS,
}
LOSSY = {
    ("scheduler", "lookahead"): "the whole plan does not look past its cut",
    ("confidence", "token_prob"): "c_k ignores x_k and everything after it",
    ("verifier", "lenient"): "the committed tokens follow the target",
}
BUILT_IN = [(kind, name) for kind, registry in FAMILIES.items() for name in registry.names()]


@pytest.mark.parametrize(("kind", "name"), [part for part in BUILT_IN if part not in LOSSY])
def test_a_lossless_part_keeps_every_law(kind: str, name: str) -> None:
    """Kills: whatever the laws name, in any part that ships."""
    report = check(kind, name)
    report.require()
    assert report.declared_lossless
    assert len(report.kept) >= 4


@pytest.mark.parametrize(("kind", "name"), list(LOSSY))
def test_a_lossy_part_breaks_the_law_it_is_there_to_break(kind: str, name: str) -> None:
    """Kills: a law that nothing can break."""
    report = check(kind, name)
    assert LOSSY[kind, name] in [one.law for one in report.broken]
    assert not report.declared_lossless


def broken(report: Any) -> set[str]:
    return {one.law for one in report.broken}


class OverBudget(AlwaysAll):
    def plan(self, survival, capacity, limits, memory):
        return Plan(limits.ceiling + 1), None


class Forgetful(AlwaysAll):
    """Counts its own calls."""

    calls = 0

    def plan(self, survival, capacity, limits, memory):
        self.calls += 1
        return Plan(torch.minimum(limits.ceiling, torch.full_like(limits.ceiling, self.calls % 2))), None


class OneAnswer(AlwaysAll):
    """Answers once for everybody."""

    def participants(self, memory: Any, requests: Any, limits: Any, capacity: Any) -> tuple[bool, ...]:
        return (True,)


class NoBlock(AlwaysAll):
    """Wants no token at all."""

    def block_lens(self, memory: Any, requests: Any, limits: Any, capacity: Any, gamma: int) -> tuple[int, ...]:
        return (0,) * len(requests)


class LastWins(AlwaysAll):
    """Verifies only the last request."""

    def plan(self, survival, capacity, limits, memory):
        plan = torch.zeros_like(limits.ceiling)
        plan[-1] = limits.ceiling[-1]
        return Plan(plan), None

    def drafts(self, memory, limits, capacity):
        return 1


@pytest.mark.parametrize(
    ("part", "law"),
    [
        (OverBudget(), "verify_len lies in floor..ceiling"),
        (AlwaysAll(), "the token budget is kept"),
        (Forgetful(), "planning is pure"),
        (LastWins(), "the order of requests does not matter"),
        (LastWins(), "drafts answers yes or no"),
        (OneAnswer(), "participants answers for every request"),
        (NoBlock(), "block_lens lie in 1..gamma"),
    ],
)
def test_a_bad_scheduler_breaks_its_law(part: AlwaysAll, law: str) -> None:
    """Kills: a scheduler law that is never broken."""
    assert law in broken(check_scheduler(part))


def test_a_scheduler_is_held_against_its_literal_twin() -> None:
    """Kills: a vectorised scheduler that parts from its loops; a law that compares a plan with itself."""
    law = "it equals its slow literal twin"
    assert law in check_scheduler(SCHEDULERS.create("greedy"), twin=literal_greedy).kept
    assert law in broken(check_scheduler(SCHEDULERS.create("fixed"), twin=literal_greedy))


class BadCalibrator:
    """Falls with its logit, leaves [0, 1], learns from what was never verified."""

    lossless = batch_independent = True

    def start(self) -> float:
        return 0.0

    def calibrate(self, logits, memory):
        return (1.5 - torch.sigmoid(logits) + memory).float()

    def floor(self, memory, anchors, decisions):
        return -torch.ones(1, dtype=torch.int64)

    def observe(self, memory, rounds):
        return memory + float(rounds.confidence.sum()) / 1000


def test_a_bad_calibrator_breaks_all_but_purity() -> None:
    """Kills: a calibrator law that is never broken."""
    report = check_calibrator(BadCalibrator())
    assert report.kept == ("asking and learning are pure",)


def test_the_online_calibrator_had_learned_something_when_it_was_checked() -> None:
    """Kills: a law about learning asked of a calibrator that has not learned yet."""
    generator = torch.Generator().manual_seed(0)
    part = CALIBRATORS.create("online", refit_every=1, probe_every=2)
    memory = learned(part, [random_rounds(generator, number, 3, 2) for number in range(60)])
    assert bool((part.temperatures(memory, 2) != 1).any())


class BadConfidence:
    """Reads the whole block."""

    lossless = batch_independent = True

    def start(self) -> None: ...

    def logits(self, draft, memory):
        return draft.tokens.float().sum(-1, keepdim=True).expand(draft.tokens.shape)

    def observe(self, memory, rounds) -> None: ...


def test_a_bad_confidence_breaks_its_laws() -> None:
    """Kills: a confidence law that is never broken."""
    assert broken(check_confidence(BadConfidence())) == {
        "c_k ignores x_k and everything after it",
        "float64 stays float64",
    }


class BadHead:
    """Its teacher-forced form reads the next token, and rows see each other."""

    rank = 0

    def start(self, anchor):
        return None

    def step(self, state, previous_token, hidden):
        return (hidden.mean(0, keepdim=True) + previous_token[:, None]).float(), None

    def block(self, previous_tokens, hidden):
        return hidden.double() + previous_tokens.roll(-1, 1)[..., None]

    def previous_embedding(self, previous_tokens):
        return None


def test_a_bad_head_breaks_every_law() -> None:
    """Kills: a head law that is never broken."""
    assert check_head(BadHead(), 2, neural.HIDDEN).kept == ()


def worn(spec: str, **faults: Any) -> Any:
    """A real drafter with a fault planted in `propose`."""

    class Worn:
        kind, lossless, feature_layers = "parallel", True, ()

        def __init__(self, inner: Any) -> None:
            self.inner, self.gamma, self.count = inner, inner.gamma, 0

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def propose(self, anchors, decisions):
            draft = self.inner.propose(anchors, decisions)
            self.count += 1
            sharper = torch.softmax(draft.p_draft.log() / (0.7 + 0.1 * self.count), -1)
            if faults.get("stream"):
                decisions.draw(draft.p_draft[:, 0], Purpose.ACCEPT, 1)
            return replace(draft, p_draft=sharper.float() if faults.get("float32") else sharper)

    def prepared() -> Bench:
        bench = neural.prepared(spec)
        return replace(bench, drafter=Worn(bench.drafter))

    return prepared


@pytest.mark.parametrize(
    ("faults", "law"),
    [
        ({}, "p_draft is the law each token was drawn from"),
        ({"stream": True}, "p_draft is the law each token was drawn from"),
        ({"float32": True}, "p_draft is a law in float64"),
        ({}, "save and load bring the same draft back"),
        ({}, "a rejected block leaves no trace"),
    ],
)
def test_a_bad_drafter_breaks_its_law(faults: dict[str, bool], law: str) -> None:
    """Kills: a drafter law that is never broken."""
    assert law in broken(check_drafter(worn("dspark", **faults), neural.drafter("dspark")))


class BadVerifier:
    """Accepts everything, always calls it a bonus, and lets requests share a coin."""

    lossless, schedule_invariant, source = True, False, AddressedSource()

    def verify(self, draft, plan, p_target, decisions):
        coin = decisions.coins(torch.full((len(plan.verify_len), 1), 0.5), Purpose.DRAFT)[:1, 0]
        accepted = torch.where(coin, plan.verify_len, 0)
        token = p_target[plan.first_row + accepted].argmin(-1)
        return Verdict(accepted, token, torch.ones_like(accepted, dtype=torch.bool))


def test_a_bad_verifier_breaks_every_law() -> None:
    """Kills: a verifier law that is never broken."""
    assert check_verifier(BadVerifier(), num_trees=4).kept == ()

"""Small compositions that the exact tests share."""

from fractions import Fraction
from typing import Any

import torch

from sparkit.engine import Parts, Request
from sparkit.proofs.choice import create
from sparkit.proofs.examples import Example, paper
from sparkit.proofs.problem import Problem
from sparkit.proofs.twins import Tables, TwinConfidence, TwinDrafter, TwinTarget
from sparkit.protocols import CALIBRATORS, SCHEDULERS, VERIFIERS
from sparkit.rounds import Plan


def composition(
    example: Example,
    scheduler: Any = "greedy",
    verifier: Any = "rejection",
    calibrator: Any = "identity",
    **others: Any,
) -> Parts:
    """Parts of a toy world by name or as objects."""
    tables = example.tables
    made = {"target": TwinTarget(tables), "drafter": TwinDrafter(tables), "confidence": TwinConfidence(tables)} | others
    return Parts(
        **made,
        calibrator=create(CALIBRATORS, calibrator) if isinstance(calibrator, str) else calibrator,
        scheduler=create(SCHEDULERS, scheduler) if isinstance(scheduler, str) else scheduler,
        verifier=create(VERIFIERS, verifier) if isinstance(verifier, str) else verifier,
        capacity=example.capacity,
    )


def paper_problem(horizon: int = 2, requests: int = 1, spare: int = 2, **parts: Any) -> Problem:
    """Appendix A, extended."""
    example = paper()
    length = horizon + 1 + spare
    asked = tuple(Request((r % 2,), seed=r, max_new_tokens=length) for r in range(requests))
    return Problem(composition(example, **parts), asked, example.gamma, horizon)


def skewed() -> Tables:
    """Two tokens, laws that differ with the token before, c_2 that differs with x_1."""
    f = Fraction
    return Tables(
        target=((f(7, 10), f(3, 10)), (f(1, 5), f(4, 5))),
        draft=(((f(1, 2), f(1, 2)), (f(2, 3), f(1, 3))), ((f(3, 5), f(2, 5)), (f(1, 4), f(3, 4)))),
        confidence=((f(4, 5), f(4, 5)), (f(9, 10), f(0))),
    )


class AlwaysAll:
    """Verifies everything it may."""

    lossless = batch_independent = True

    def start(self) -> None: ...

    def drafts(self, memory: Any, limits: Any, capacity: Any) -> bool:
        return True

    def plan(self, survival: Any, capacity: Any, limits: Any, memory: Any) -> tuple[Plan, None]:
        return Plan(limits.ceiling), None

    def observe(self, memory: Any, rounds: Any) -> None: ...

    def observe_undrafted(self, memory: Any, num_tokens: int, num_requests: int, seconds: float) -> None: ...


class CrossLooking(AlwaysAll):
    """Planted: each of two requests admits its first draft by the other's second confidence."""

    def plan(self, survival: Any, capacity: Any, limits: Any, memory: Any) -> tuple[Plan, None]:
        second = survival[:, 1] > 0.5 * survival[:, 0]
        wished = torch.where(second.flip(0) if len(second) == 2 else torch.zeros_like(second), 1, 0)
        return Plan(torch.minimum(wished, limits.ceiling)), None


class TakingTurns(AlwaysAll):
    """One after the other drafts while the rest take a plain token, then everybody, then nobody."""

    def start(self) -> int:  # type: ignore[override]
        return 0

    def participants(self, memory: int, requests: Any, limits: Any, capacity: Any) -> tuple[bool, ...]:
        turn = memory % (len(requests) + 2)
        return tuple(turn in (row, len(requests)) for row in range(len(requests)))

    def plan(self, survival: Any, capacity: Any, limits: Any, memory: int) -> tuple[Plan, int]:  # type: ignore[override]
        return Plan(limits.ceiling), memory

    def observe(self, memory: int, rounds: Any) -> int:  # type: ignore[override]
        assert len(rounds.resting) == rounds.limits.num_resting
        return memory + 1

    def observe_undrafted(self, memory: int, num_tokens: int, num_requests: int, seconds: float) -> int:  # type: ignore[override]
        return memory + 1

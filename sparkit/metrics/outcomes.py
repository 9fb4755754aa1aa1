"""Acceptance by position, of the rounds that verified that position."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sparkit.rounds import Round

MIN_ROUNDS = 30  # below that a rate is no rate


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Drafted rounds as columns; position k is column k - 1."""

    survival: Float[Tensor, "N gamma"]
    accepted: Int[Tensor, " N"]
    verify_len: Int[Tensor, " N"]

    @classmethod
    def of(cls, rounds: Sequence[Round], gamma: int) -> "Outcomes":
        """Rounds that verified at least one draft."""
        kept = [one for one in rounds if one.verify_len > 0]
        survival = torch.tensor([one.survival for one in kept], dtype=torch.float64).view(len(kept), gamma)
        accepted = torch.tensor([one.accepted for one in kept], dtype=torch.int64)
        return cls(survival, accepted, torch.tensor([one.verify_len for one in kept], dtype=torch.int64))

    @property
    def gamma(self) -> int:
        """Draft positions."""
        return self.survival.shape[1]

    def at(self, position: int) -> tuple[Float[Tensor, " n"], Bool[Tensor, " n"]]:
        """Survival and "prefix accepted" at a 1-based position, of the rounds that verified it."""
        rows = self.verify_len >= position
        return self.survival[rows, position - 1], self.accepted[rows] >= position

    def num_at(self, position: int) -> int:
        """Rounds that verified a position."""
        return int((self.verify_len >= position).sum())

    def over_positions(self, score: Callable[[Tensor, Tensor], float | None]) -> float | None:
        """The count-weighted mean of a score over the positions that have one."""
        found = [(self.num_at(k), score(*self.at(k))) for k in range(1, self.gamma + 1)]
        known = [(num, value) for num, value in found if value is not None and num]
        return sum(num * value for num, value in known) / sum(num for num, _ in known) if known else None


def prefix_acceptance(outcomes: Outcomes) -> tuple[float | None, ...]:
    """Share of rounds whose first k drafts were accepted, among those that verified k."""
    return tuple(_rate(outcomes, k, given=0) for k in range(1, outcomes.gamma + 1))


def conditional_acceptance(outcomes: Outcomes) -> tuple[float | None, ...]:
    """The same among rounds whose first k - 1 drafts were accepted."""
    return tuple(_rate(outcomes, k, given=k - 1) for k in range(1, outcomes.gamma + 1))


def _rate(outcomes: Outcomes, position: int, given: int) -> float | None:
    rows = outcomes.verify_len >= position
    trials = int((rows & (outcomes.accepted >= given)).sum())
    if int(rows.sum()) < MIN_ROUNDS or not trials:
        return None
    return int((rows & (outcomes.accepted >= position)).sum()) / trials

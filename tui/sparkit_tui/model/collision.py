"""Multi-modal collision: "of course" / "no problem", drafted by marginals and by conditionals of the same table.

A parallel drafter gives every position its marginal over all predecessors, so "of problem" gets mass that the table
does not have; a semi-autoregressive drafter conditions on the token just drawn and reproduces the table [DSpark 3.2].
Everything is computed from the table handed in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Pair = tuple[str, str]
JointLaw = Mapping[Pair, float]


@dataclass(frozen=True, slots=True)
class Collision:
    """Three laws of the same two words, and what verification makes of the two drafters."""

    firsts: tuple[str, ...]
    seconds: tuple[str, ...]
    target: JointLaw
    parallel: JointLaw
    semi: JointLaw
    parallel_acceptance: tuple[float, float]  # conditional, at positions 1 and 2
    semi_acceptance: tuple[float, float]

    @property
    def impossible(self) -> float:
        """Mass that the parallel drafter puts on pairs the target never says."""
        return sum(p for pair, p in self.parallel.items() if self.target[pair] <= 0)


def collision_of(table: JointLaw) -> Collision:
    """The marginals, the conditionals, and their acceptance, from one joint table (its weights need not sum to 1)."""
    total = sum(table.values())
    if not total > 0 or min(table.values()) < 0:
        raise ValueError(f"a joint table needs weights >= 0 with a positive sum, not {dict(table)!r}")
    firsts, seconds = (tuple(dict.fromkeys(pair[i] for pair in table)) for i in (0, 1))
    target = {(a, b): table.get((a, b), 0.0) / total for a in firsts for b in seconds}
    first = {a: sum(target[a, b] for b in seconds) for a in firsts}
    second = {b: sum(target[a, b] for a in firsts) for b in seconds}
    parallel = {(a, b): first[a] * second[b] for a in firsts for b in seconds}
    overlap = sum(
        first[a] * sum(min(second[b], target[a, b] / first[a]) for b in seconds) for a in firsts if first[a] > 0
    )
    return Collision(firsts, seconds, target, parallel, dict(target), (1.0, overlap), (1.0, 1.0))


def rows(collision: Collision, law: JointLaw) -> list[tuple[Pair, float, bool]]:
    """Pairs of a law with their mass, and whether the target ever says them."""
    return [((a, b), law[a, b], collision.target[a, b] > 0) for a in collision.firsts for b in collision.seconds]


def acceptance_lines(collision: Collision) -> Sequence[tuple[str, tuple[float, float]]]:
    """The two drafters with their conditional acceptance."""
    return (("parallel", collision.parallel_acceptance), ("semi-autoregressive", collision.semi_acceptance))

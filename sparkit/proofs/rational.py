"""The laws of a table model as fractions, decision by decision: no rounding, so that 17/20 is 17/20.

The engine runs as always; each time it draws, the oracle says what the law ought to be, from the tables alone:
    draft k     p_draft^k(. | x_{k-1})                       plain  p_target(. | last token)
    accept k    min(1, p_target / p_draft) at x_k            next   residual after x_accepted, or p_target for a bonus
(and block verification's weights, method section 6). The branch is weighed with the fraction, and an engine law that
is more than 1e-14 off is a fault. Temperature 1, no filters.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from sparkit.decisions import Purpose
from sparkit.proofs.enumeration import Enumerated
from sparkit.proofs.exploration import explore
from sparkit.proofs.problem import Law, Problem
from sparkit.proofs.twins import Row, Tables
from sparkit.rounds import Plan

Rule = Literal["rejection", "block", "lenient"]
ZERO, ONE = Fraction(0), Fraction(1)


def normalised(row: Sequence[Fraction], otherwise: Row) -> Row:
    """A law proportional to `row`; `otherwise` where there is nothing to normalise."""
    total = sum(row, ZERO)
    return tuple(v / total for v in row) if total > 0 else otherwise


def excess(p_target: Row, p_draft: Row, weight: Fraction = ONE) -> Row:
    """max(weight * p_target - p_draft, 0), the unnormalised residual."""
    return tuple(max(weight * t - d, ZERO) for t, d in zip(p_target, p_draft, strict=True))


@dataclass(slots=True)
class TableOracle:
    """Follows the engine's control flow with the tables in hand."""

    tables: Tables
    rule: Rule
    texts: dict[int, list[int]] = field(default_factory=dict)  # by seed
    drafts: dict[int, list[int]] = field(default_factory=dict)
    verify_len: dict[int, int] = field(default_factory=dict)

    def begin(self, texts: dict[int, list[int]]) -> None:
        """Starts a step."""
        self.texts, self.drafts, self.verify_len = texts, {seed: [] for seed in texts}, {}

    def judging(self, seeds: Sequence[int], plan: Plan) -> None:
        """Learns the plan."""
        self.verify_len = dict(zip(seeds, plan.verify_len.tolist(), strict=True))

    def drew(self, seed: int, anchor: int, purpose: int, offset: int, answer: int) -> None:
        """Learns a draft token."""
        if purpose == Purpose.DRAFT:
            self.drafts[seed].append(answer)

    def law(self, seed: int, anchor: int, purpose: int, offset: int) -> Row:
        """See `Oracle`."""
        if purpose == Purpose.PLAIN:
            return self.tables.target[self.texts[seed][-1]]
        if purpose == Purpose.DRAFT:
            return self._p_draft(seed, offset)
        if purpose == Purpose.ACCEPT:
            chance = self._accept(seed, offset)
            return chance, 1 - chance
        return self._next(seed, offset - 1)

    def _previous(self, seed: int, k: int) -> int:
        return self.texts[seed][-1] if k == 1 else self.drafts[seed][k - 2]

    def _p_draft(self, seed: int, k: int) -> Row:
        return self.tables.draft[k - 1][self._previous(seed, k)]

    def _p_target(self, seed: int, k: int) -> Row:
        return self.tables.target[self._previous(seed, k)]

    def _ratio(self, seed: int, k: int) -> Fraction:
        token = self.drafts[seed][k - 1]
        return self._p_target(seed, k)[token] / self._p_draft(seed, k)[token]

    def _accept(self, seed: int, k: int) -> Fraction:
        limit = self.verify_len[seed]
        if k > limit:
            return ZERO
        if self.rule == "block":
            weight = self._weight(seed, k)
            if k == limit:
                return weight
            slack = sum(excess(self._p_target(seed, k + 1), self._p_draft(seed, k + 1), weight), ZERO)
            return slack / (slack + 1 - weight) if slack + 1 - weight > 0 else ZERO
        return min(ONE, self._ratio(seed, k) * (2 if self.rule == "lenient" else 1))

    def _weight(self, seed: int, k: int) -> Fraction:
        weight = ONE
        for i in range(1, k + 1):
            weight = min(ONE, weight * self._ratio(seed, i))
        return weight

    def _next(self, seed: int, accepted: int) -> Row:
        p_target = self._p_target(seed, accepted + 1)
        if accepted == self.verify_len[seed]:
            return p_target
        weight = self._weight(seed, accepted) if self.rule == "block" else ONE
        return normalised(excess(p_target, self._p_draft(seed, accepted + 1), weight), p_target)


def explore_rational(problem: Problem, tables: Tables, rule: Rule) -> Law:
    """The exact joint law in fractions; every decision of the engine is held against them."""
    return explore(problem, Enumerated(oracle=TableOracle(tables, rule)))

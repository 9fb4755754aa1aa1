"""Searches toy worlds for one in which a composition's law is not its target's, and makes that world small.

measure(example, build).total_variation     exact, by enumeration of the real engine
search(build, limits, num_examples)         the largest over a deterministic row of worlds
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from sparkit.engine import Parts
from sparkit.proofs.batching import explore_batched
from sparkit.proofs.examples import Example, Limits, examples
from sparkit.proofs.paths import Number
from sparkit.proofs.problem import Law, Outcome, Problem, product, total_variation
from sparkit.proofs.shrinking import is_allowed, smaller

EXACT = 1e-12
"""A law this near to the target's is the target's: what is left is the rounding of float64."""
Build = Callable[[Example], Parts]


@dataclass(frozen=True, slots=True)
class Measured:
    """One world's answer."""

    example: Example
    law: Law
    expected: dict[Outcome, Number]

    @property
    def total_variation(self) -> float:
        """Between the composition's joint law and the product of the target's laws."""
        return total_variation(self.law.probability, self.expected)

    @property
    def is_exact(self) -> bool:
        """Whether nothing is wrong."""
        return self.total_variation < EXACT and not self.law.faults


@dataclass(frozen=True, slots=True)
class Finding:
    """What a search saw."""

    num_examples: int
    num_paths: int
    max_total_variation: float
    worst: Measured | None  # the smallest counterexample found; None: every world was exact


def plain_law(problem: Problem) -> dict[Outcome, Number]:
    """The product of the target's own laws: each request decoded plainly and alone."""
    laws = []
    for request in problem.requests:
        parts = replace(problem.parts, drafter=None)
        alone = replace(problem, parts=parts, requests=(request,), token_budget=None)
        laws.append(explore_batched(alone).marginal(0))
    return product(laws)


def measure(example: Example, build: Build) -> Measured:
    """The exact joint law of a composition in one world, beside the target's."""
    problem = example.problem(build(example))
    return Measured(example, explore_batched(problem), plain_law(problem))


def search(
    build: Build, limits: Limits, num_examples: int, *, seed: int = 0, tell: Callable[[int], None] | None = None
) -> Finding:
    """Tries worlds until one is lossy or enough were exact; a lossy one is made small.

    Args:
        build: the composition for a world.
        limits: what stays fixed.
        num_examples: worlds to try.
        seed: of the row of worlds.
        tell: called after every world with the number tried.
    """
    worst, tried, paths = 0.0, 0, 0
    for example in examples(seed, limits):
        if tried == num_examples:
            break
        found = measure(example, build)
        tried, paths, worst = tried + 1, paths + found.law.num_paths, max(worst, found.total_variation)
        if tell is not None:
            tell(tried)
        if not found.is_exact:
            small = shrink(found, build, limits)
            return Finding(tried, paths, max(worst, small.total_variation), small)
    return Finding(tried, paths, worst, None)


def shrink(found: Measured, build: Build, limits: Limits, max_tries: int = 120) -> Measured:
    """The simplest world reached by steps that keep the composition visibly lossy in it."""
    tries = 0
    is_shrinking = True
    while is_shrinking and tries < max_tries:
        is_shrinking = False
        for candidate in smaller(found.example):
            tries += 1
            if is_allowed(candidate, limits):
                smaller_one = measure(candidate, build)
                if smaller_one.total_variation > 1e-3:
                    found, is_shrinking = smaller_one, True
                    break
    return found

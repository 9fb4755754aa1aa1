"""The real classes with tiny seeded float64 weights, their confidence head scaled so that cuts really happen."""

from dataclasses import dataclass

from sparkit.proofs.choice import Chosen
from sparkit.proofs.examples import Limits
from sparkit.proofs.search import Finding as Searched
from sparkit.recipe import Recipe


@dataclass(frozen=True, slots=True)
class Finding:
    """What the real classes' laws were."""

    num_examples: int
    max_total_variation: float
    faults: tuple[str, ...]
    classes_run: tuple[str, ...]


def examine(recipe: Recipe, parts: Chosen, limits: Limits, found: Searched) -> Finding | None:
    """The exact law of the real drafter, head and confidence over a few seeds."""
    return None

"""The full matrix of compositions, and small sets of it that still try every pair of parts together.

Two products: every drafter and head x scheduler x verifier (real modules, the other parts at their defaults), and
scheduler x confidence x calibrator x verifier on table drafters. `covering` thins a product to rows in which every two
choices of different kinds meet at least once.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparkit.proofs.examples import Limits
from sparkit.proofs.prove import Verdict, prove
from sparkit.protocols import CALIBRATORS, CONFIDENCES, DRAFTERS, HEADS, SCHEDULERS, VERIFIERS
from sparkit.recipe import Recipe

WITH_HEADS = ("dspark",)
"""Drafters that take a serial head."""
MATRIX_LIMITS = Limits(max_size=300)


@dataclass(frozen=True, slots=True)
class Claim:
    """One composition of the matrix."""

    recipe: Recipe

    def judge(self, num_examples: int) -> Verdict:
        """Its verdict over some small worlds."""
        return prove(self.recipe, MATRIX_LIMITS, num_examples)


def drafters() -> list[tuple[str, str | None]]:
    """Drafter and head names that differ in code path."""
    plain: list[tuple[str, str | None]] = [(name, None) for name in DRAFTERS.names() if name not in WITH_HEADS]
    return plain + [(name, head) for name in WITH_HEADS for head in HEADS.names() if head != "none"]


def confidences() -> list[str | None]:
    """Confidences that run on a table drafter; None: the trained head's stand-in."""
    return [None, *(name for name in CONFIDENCES.names() if name not in ("head", "table"))]


def everything() -> list[Claim]:
    """Every composition of the two products."""
    modules = [
        Claim(Recipe(drafter=drafter, head=head, scheduler=scheduler, verifier=verifier))
        for (drafter, head), scheduler, verifier in itertools.product(drafters(), SCHEDULERS.names(), VERIFIERS.names())
    ]
    tables = [
        Claim(
            Recipe(
                drafter="table", scheduler=scheduler, confidence=confidence, calibrator=calibrator, verifier=verifier
            )
        )
        for scheduler, confidence, calibrator, verifier in itertools.product(
            SCHEDULERS.names(), confidences(), CALIBRATORS.names(), VERIFIERS.names()
        )
    ]
    return modules + tables


def covering(axes: Mapping[str, Sequence[object]]) -> list[dict[str, object]]:
    """Rows such that any two values of two different axes stand together in one of them (greedy, deterministic)."""
    names = list(axes)
    missing = {
        (a, x, b, y)
        for a, b in itertools.combinations(names, 2)
        for x in range(len(axes[a]))
        for y in range(len(axes[b]))
    }
    rows: list[dict[str, object]] = []
    while missing:
        a, x, b, y = min(missing)
        chosen = {a: x, b: y}
        for name in names:
            if name not in chosen:
                chosen[name] = max(range(len(axes[name])), key=lambda v: (_gain(chosen, name, v, missing, names), -v))
        missing -= {(a, chosen[a], b, chosen[b]) for a, b in itertools.combinations(names, 2)}
        rows.append({name: axes[name][chosen[name]] for name in names})
    return rows


def _gain(
    chosen: dict[str, int], name: str, value: int, missing: set[tuple[str, int, str, int]], names: list[str]
) -> int:
    """Missing pairs that a value would bring together with what the row holds already."""
    pairs = []
    for other, held in chosen.items():
        first, second = sorted(((names.index(name), value), (names.index(other), held)))
        pairs.append((names[first[0]], first[1], names[second[0]], second[1]))
    return sum(pair in missing for pair in pairs)

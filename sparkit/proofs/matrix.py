"""The full matrix of compositions, and small sets of it that still try every pair of parts together.

The matrix is the product of drafters (with their heads), confidences, calibrators, schedulers and verifiers; it comes
in groups that differ in nothing but the drafter, since a search on table twins is the same for all of them. `covering`
thins a product to rows in which every two choices of different kinds meet at least once.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparkit.protocols import CALIBRATORS, CONFIDENCES, DRAFTERS, HEADS, SCHEDULERS, VERIFIERS
from sparkit.recipe import Recipe
from sparkit.registry import parse_spec

WITH_HEADS = ("dspark",)
"""Drafters that take a serial head."""
KINDS = ("drafter", "head", "confidence", "calibrator", "scheduler", "verifier")


@dataclass(frozen=True, slots=True)
class Group:
    """Compositions that differ in drafter and head alone."""

    recipes: tuple[Recipe, ...]


def drafters() -> list[tuple[str, str | None]]:
    """Drafter and head names that differ in code path."""
    plain: list[tuple[str, str | None]] = [(name, None) for name in DRAFTERS.names() if name not in WITH_HEADS]
    return plain + [(name, head) for name in WITH_HEADS for head in HEADS.names() if head != "none"]


def confidences() -> list[str | None]:
    """Confidences that run on a table drafter; None: the trained head, or its stand-in."""
    return [None, *(name for name in CONFIDENCES.names() if name not in ("head", "table"))]


def everything(kept: Mapping[str, str] | None = None) -> list[Group]:
    """The full product, the default confidence and calibrator first.

    Args:
        kept: kind -> the one part of that kind to try (a specification, with options if need be).
    """
    fixed = kept or {}
    calibrators = sorted(CALIBRATORS.names(), key=lambda name: name != "identity")
    axes: dict[str, Sequence[str | None]] = {
        "confidence": confidences(),
        "calibrator": calibrators,
        "scheduler": SCHEDULERS.names(),
        "verifier": VERIFIERS.names(),
    }
    axes |= {kind: [spec] for kind, spec in fixed.items() if kind in axes}
    product = (dict(zip(axes, names, strict=True)) for names in itertools.product(*axes.values()))
    pairs = _pairs(fixed)
    return [Group(tuple(Recipe(target="table", drafter=d, head=h, **rest) for d, h in pairs)) for rest in product]  # type: ignore[arg-type]


def _pairs(fixed: Mapping[str, str]) -> list[tuple[str, str | None]]:
    drafter, head = fixed.get("drafter"), fixed.get("head")
    pairs = [(d, h) for d, h in drafters() if head in (None, h)]
    if drafter is None:
        return pairs
    name = parse_spec(drafter)[0]
    return [(drafter, h) for d, h in pairs if d == name] or [(drafter, head)]


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

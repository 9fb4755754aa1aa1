"""Names of a recipe become the parts a proof can run; parts that need a fit get odd numbers of their own.

Target, drafter and a trained confidence head are stood in for by tables (`sparkit.proofs.twins`) or by tiny seeded
networks (`sparkit.proofs.neural`); everything else is the class that ships.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparkit.protocols import (
    CALIBRATORS,
    CONFIDENCES,
    DRAFTERS,
    SCHEDULERS,
    VERIFIERS,
    Calibrator,
    Confidence,
    Scheduler,
    Verifier,
)
from sparkit.recipe import Recipe
from sparkit.registry import Registry, parse_spec

TRAINED = ("head", "recurrent", "table")
"""Confidences that a table stands in for."""
FITTED: Mapping[str, Mapping[str, object]] = {
    "sts": {"calibration_temperatures": (0.5, 2.0, 1.5, 0.7)},
    "platt": {"slopes": (0.5, 2.0, 1.0, 0.0), "biases": (0.3, -0.2, 0.0, 0.5)},
    "online": {"refit_every": 1, "probe_every": 2},  # so that it learns and probes within a few rounds
    "isotonic": {"knots": (((-1.0, 0.2), (0.5, 0.2), (2.0, 0.9)),) * 2 + ((), ())},
}
"""What a calibrator is given when the recipe names no fit; nothing about losslessness depends on the numbers."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The parts that a recipe names, without target and drafter."""

    confidence: Confidence | None  # None: a trained head
    calibrator: Calibrator
    scheduler: Scheduler
    verifier: Verifier
    drafter_lossless: bool = True

    @property
    def is_lossless(self) -> bool:
        """As declared: every part, or a verifier that is exact under any schedule."""
        if not self.verifier.lossless or not self.drafter_lossless:
            return False
        chain: list[Any] = [self.calibrator, self.scheduler, *([] if self.confidence is None else [self.confidence])]
        return self.verifier.schedule_invariant or all(part.lossless for part in chain)


def chosen(recipe: Recipe) -> Chosen:
    """The parts of a recipe.

    Raises:
        LookupError: for an unknown name, with the closest ones.
        ValueError: for a parameter a part does not take.
    """
    confidence = None if recipe.confidence is None else parse_spec(recipe.confidence)
    return Chosen(
        None if confidence is None or confidence[0] in TRAINED else create(CONFIDENCES, recipe.confidence or ""),
        create(CALIBRATORS, recipe.calibrator or "identity"),
        create(SCHEDULERS, recipe.scheduler),
        create(VERIFIERS, recipe.verifier),
        DRAFTERS.part(parse_spec(recipe.drafter)[0]).lossless,
    )


def create(registry: Registry[Any], spec: str) -> Any:
    """A part by its specification, with a fit of our own where it needs one and none is named."""
    name, params = parse_spec(spec)
    part = registry.part(name)
    if not params and registry is CALIBRATORS and name in FITTED:
        return part.factory(**FITTED[name])
    return part.create(**params)

"""A composition goes in, a verdict comes out: its exact law over a search of toy worlds, beside what it declares.

Search first on table twins, where target, draft, confidences and the capacity curve are chosen freely; then the real
drafter, head and confidence with seeded float64 weights (`sparkit.proofs.neural`). The verdict is what was measured:
anything at temperature 0, or `lookahead` on a flat curve, is exact by law though lossy by declaration.

>>> prove(Recipe(scheduler="lookahead")).is_lossless
False
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, cast

from sparkit.engine import Parts
from sparkit.proofs import neural
from sparkit.proofs.choice import Chosen, chosen
from sparkit.proofs.examples import Example, Limits
from sparkit.proofs.search import EXACT, Finding, Measured, search
from sparkit.proofs.twins import TwinConfidence, TwinDrafter, TwinTarget
from sparkit.protocols import Drafter
from sparkit.recipe import Recipe
from sparkit.sampling import SamplingParams

SCHEMA = "sparkit.prove/1"
NUM_EXAMPLES = 60


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was measured of one composition."""

    recipe: Recipe
    declared_lossless: bool
    finding: Finding
    neural: "neural.Finding | None"  # None: no neural class took part
    classes_run: tuple[str, ...]

    @property
    def max_total_variation(self) -> float:
        """The largest seen anywhere."""
        found = 0.0 if self.neural is None else self.neural.max_total_variation
        return max(self.finding.max_total_variation, found)

    @property
    def faults(self) -> tuple[str, ...]:
        """Addresses asked twice, and the like."""
        worst = () if self.finding.worst is None else self.finding.worst.law.faults
        return (*worst, *(() if self.neural is None else self.neural.faults))

    @property
    def is_lossless(self) -> bool:
        """Measured: exact in every world."""
        return self.max_total_variation < EXACT and not self.faults

    @property
    def num_examples(self) -> int:
        """Worlds tried."""
        return self.finding.num_examples + (0 if self.neural is None else self.neural.num_examples)

    def document(self) -> dict[str, Any]:
        """The JSON document `sparkit.prove/1`."""
        worst = self.finding.worst
        return {
            "schema": SCHEMA,
            "recipe": asdict(self.recipe),
            "lossless": self.is_lossless,
            "declared_lossless": self.declared_lossless,
            "max_total_variation": self.max_total_variation,
            "num_examples": self.num_examples,
            "classes_run": list(self.classes_run),
            "counterexample": None if worst is None else counterexample(worst),
        }


def prove(
    recipe: Recipe,
    limits: Limits | None = None,
    num_examples: int = NUM_EXAMPLES,
    tell: Callable[[int], None] | None = None,
) -> Verdict:
    """The verdict on a composition.

    Args:
        recipe: names of the parts; target and sizes are those of toy worlds.
        limits: what the search keeps fixed.
        num_examples: worlds to try.
        tell: called with the number of worlds tried.

    Raises:
        LookupError: for a name that no part has.
        ValueError: for sizes that cannot be enumerated; `PartError` names a part that raised.
    """
    parts = chosen(recipe)
    limits = _within(limits or Limits(), parts)
    finding = search(lambda example: twin_parts(parts, example), limits, num_examples, tell=tell)
    real = neural.examine(recipe, parts, limits, finding)
    names = [
        parts.scheduler,
        parts.calibrator,
        parts.verifier,
        *([] if parts.confidence is None else [parts.confidence]),
    ]
    classes = ["TwinTarget", "TwinDrafter", *(["TwinConfidence"] if parts.confidence is None else [])]
    classes += [type(part).__name__ for part in names] + list(() if real is None else real.classes_run)
    return Verdict(recipe, parts.is_lossless, finding, real, tuple(dict.fromkeys(classes)))


def _within(limits: Limits, parts: Chosen) -> Limits:
    """Coupled noise can be enumerated over two tokens (`sparkit.proofs.enumeration`)."""
    if not parts.verifier.schedule_invariant:
        return limits
    return Limits(**{**asdict_shallow(limits), "vocab_size": 2})


def asdict_shallow(limits: Limits) -> dict[str, Any]:
    """The fields as they are."""
    return {name: getattr(limits, name) for name in limits.__dataclass_fields__}


def twin_parts(parts: Chosen, example: Example) -> Parts:
    """The composition in a toy world: tables for target and drafter, and for a trained confidence head."""
    tables = example.tables
    return Parts(
        TwinTarget(tables),
        cast("Drafter", TwinDrafter(tables)),  # a literal field is narrower than the protocol's
        TwinConfidence(tables) if parts.confidence is None else parts.confidence,
        parts.calibrator,
        parts.scheduler,
        parts.verifier,
        example.capacity,
    )


def counterexample(found: Measured) -> dict[str, Any]:
    """A world and the two laws side by side, for JSON and for people."""
    example, tables = found.example, found.example.tables
    texts = sorted(found.expected.keys() | found.law.probability.keys())
    return {
        "requests": example.requests,
        "gamma": example.gamma,
        "horizon": example.horizon,
        "max_new_tokens": example.horizon + 1 + example.spare,
        "token_budget": example.token_budget,
        "sampling": {name: getattr(example.params, name) for name in ("temperature", "top_k", "top_p")},
        "target": _rows(tables.target),
        "draft": [_rows(rows) for rows in tables.draft],
        "confidence": _rows(tables.confidence),
        "rounds_per_second": list(example.rates),
        "total_variation": found.total_variation,
        "faults": list(found.law.faults),
        "laws": [
            {
                "tokens": [list(one) for one in text],
                "target": float(found.expected.get(text, 0)),
                "measured": float(found.law.probability.get(text, 0)),
            }
            for text in texts
        ],
    }


def _rows(rows: tuple[tuple[Fraction, ...], ...]) -> list[list[str]]:
    return [[str(value) for value in row] for row in rows]


def sampling_of(temperature: float | None, top_k: int | None, top_p: float | None) -> SamplingParams | None:
    """Filters that a person fixed; None: the search chooses."""
    if temperature is None and top_k is None and top_p is None:
        return None
    default = SamplingParams()
    return SamplingParams(
        temperature=default.temperature if temperature is None else temperature,
        top_k=default.top_k if top_k is None else top_k,
        top_p=default.top_p if top_p is None else top_p,
    )

"""A composition goes in, a verdict comes out: its exact law over a search of toy worlds, beside what it declares.

Search first on table twins, where target, draft, confidences and the capacity curve are chosen freely; then the real
drafter, head and confidence with seeded float64 weights (`sparkit.proofs.real`). A target that is a file of tables is
the only world: no search, its numbers are the question. The verdict is what was measured:
anything at temperature 0, or `lookahead` on a flat curve, is exact by law though lossy by declaration.

>>> prove(Recipe(scheduler="lookahead")).is_lossless
False
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

from sparkit.engine import Parts
from sparkit.proofs import real
from sparkit.proofs.choice import Chosen, chosen
from sparkit.proofs.counterexample import counterexample_of
from sparkit.proofs.examples import Example, Limits
from sparkit.proofs.search import EXACT, Finding, search
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
    finding: Finding  # of the search on table twins
    real: real.Finding
    classes_run: tuple[str, ...]

    @property
    def max_total_variation(self) -> float:
        """The largest seen anywhere."""
        return max(self.finding.max_total_variation, self.real.max_total_variation)

    @property
    def faults(self) -> tuple[str, ...]:
        """Addresses asked twice, and the like."""
        worst = () if self.finding.worst is None else self.finding.worst.law.faults
        return (*worst, *self.real.faults)

    @property
    def is_lossless(self) -> bool:
        """Measured: exact in every world."""
        return self.max_total_variation < EXACT and not self.faults

    @property
    def num_examples(self) -> int:
        """Worlds tried."""
        return self.finding.num_examples + self.real.num_examples

    @property
    def num_paths(self) -> int:
        """Branches run through the engine."""
        return self.finding.num_paths + self.real.num_paths

    @property
    def counterexample(self) -> dict[str, Any] | None:
        """The smallest world found in which it is lossy; None: none was."""
        worst = self.finding.worst or self.real.worst
        return None if worst is None else counterexample_of(worst)

    def document(self) -> dict[str, Any]:
        """The JSON document `sparkit.prove/1`."""
        return {
            "schema": SCHEMA,
            "recipe": asdict(self.recipe),
            "lossless": self.is_lossless,
            "declared_lossless": self.declared_lossless,
            "max_total_variation": self.max_total_variation,
            "num_examples": self.num_examples,
            "classes_run": list(self.classes_run),
            "counterexample": self.counterexample,
        }


def prove(
    recipe: Recipe,
    limits: Limits | None = None,
    num_examples: int = NUM_EXAMPLES,
    tell: Callable[[int], None] | None = None,
) -> Verdict:
    """The verdict on a composition.

    Args:
        recipe: names of the parts; a target `table:...` is the one world to prove in, sizes are those of toy worlds.
        limits: what the search keeps fixed.
        num_examples: worlds to try.
        tell: called with the number of worlds tried.

    Raises:
        LookupError: for a name that no part has.
        ValueError: for sizes that cannot be enumerated; `PartError` names a part that raised.
    """
    parts, limits = chosen(recipe), limits or Limits()
    if real.given_tables(recipe.target) is not None:
        none = Finding(0, 0, 0.0, None)
        return joined(recipe, parts, none, real.examine(recipe, parts, limits, none))
    limits = within(limits, parts)
    found = search(lambda example: twin_parts(parts, example), limits, num_examples, tell=tell)
    return joined(recipe, parts, found, real.examine(recipe, parts, limits, found))


def joined(recipe: Recipe, parts: Chosen, found: Finding, seen: real.Finding) -> Verdict:
    """One verdict from what the search and the real classes showed."""
    twins = ("TwinTarget", "TwinDrafter", *(("TwinConfidence",) if parts.confidence is None else ()))
    named = [parts.scheduler, parts.calibrator, parts.verifier]
    named += [] if parts.confidence is None else [parts.confidence]
    ran = (*(twins if found.num_examples else ()), *(type(part).__name__ for part in named), *seen.classes_run)
    return Verdict(recipe, parts.is_lossless, found, seen, tuple(dict.fromkeys(ran)))


def within(limits: Limits, parts: Chosen) -> Limits:
    """Coupled noise can be enumerated over two tokens (`sparkit.proofs.paths`)."""
    return replace(limits, vocab_size=2) if parts.verifier.schedule_invariant else limits


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

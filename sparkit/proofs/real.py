"""The exact law of the classes that ship: real drafter, head and confidence over a tiny seeded target, or given tables.

The confidence head shows the pattern that the search on tables found, on that world's curve (`sparkit.proofs.pattern`);
where it cannot, the curve is a cliff built from the very confidences that are there. With `--target table:...` the
world is the one that its file describes, curve included.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from sparkit.capacity import from_rates
from sparkit.confidences.head import ConfidenceHead
from sparkit.confidences.table import TableConfidence
from sparkit.engine import Parts, Request
from sparkit.proofs import neural
from sparkit.proofs.choice import Chosen, create
from sparkit.proofs.examples import MOST, Example, Limits
from sparkit.proofs.exploration import explore
from sparkit.proofs.paths import Number
from sparkit.proofs.pattern import bend, pattern_of
from sparkit.proofs.problem import Law, Outcome, Problem, num_branches, product, total_variation
from sparkit.proofs.search import EXACT
from sparkit.proofs.search import Finding as Searched
from sparkit.protocols import CONFIDENCES, Confidence
from sparkit.recipe import Recipe
from sparkit.registry import parse_spec
from sparkit.rounds import Draft
from sparkit.sampling import SamplingParams
from sparkit.targets.table import APPENDIX_A, TableTarget, load_table

OVER_TABLES = ("table", "ngram", "small_lm")
"""Drafters that need nothing of a target but its vocabulary."""
PROMPT = (0, 1)
FIRST_BLOCKS = tuple((*PROMPT, anchor) for anchor in range(neural.VOCAB))
"""Everything that may stand before the first draft of `problem_of`."""
Make = Callable[..., Parts]


@dataclass(frozen=True, slots=True)
class Lossy:
    """One seed whose law was not its target's."""

    seed: int
    problem: Problem
    law: Law
    expected: dict[Outcome, Number]

    @property
    def total_variation(self) -> float:
        """Between the two."""
        return total_variation(self.law.probability, self.expected)


@dataclass(frozen=True, slots=True)
class Finding:
    """What the real classes' laws were."""

    num_examples: int
    num_paths: int
    max_total_variation: float
    faults: tuple[str, ...]
    classes_run: tuple[str, ...]
    worst: Lossy | None = None  # None: every law was its target's


def given_tables(spec: str) -> TableTarget | None:
    """The tables that a target names (`table:appendix-a`, `table:PATH`, `PATH.json`); None: any world will do."""
    if spec.endswith(".json") and not spec.startswith("table:"):
        return load_table(spec)
    name, params = parse_spec(spec)
    return load_table(str(params["source"])) if name == "table" and "source" in params else None


def cliff(drafts: Sequence[Draft], chosen: Confidence, gamma: int) -> tuple[float, ...]:
    """A curve on which one draft never pays and two pay after the more promising first token."""
    confidences = torch.sigmoid(torch.cat([chosen.logits(draft, chosen.start()) for draft in drafts]))
    tau, survival, rates = 1.0, 1.0, [1.0]
    for k in range(gamma):
        survival *= float(confidences[:, k].max())
        tau += survival
        rates.append((0.9 if k == 0 else 1.05) / tau)
    return tuple(max(rate, 1e-3) for rate in rates)


def parts_of(
    recipe: Recipe, parts: Chosen, seed: int, gamma: int, *, is_flat: bool = False, found: Example | None = None
) -> Parts:
    """The composition of real classes; `found`: the world whose pattern the head is to show (None: the paper's)."""
    tables = _tables(recipe)
    if tables is not None:
        return _table_parts(tables, recipe, parts, seed, gamma, is_flat)
    base = neural.target(seed)
    part = neural.drafter_over(base, recipe.drafter, seed, gamma, recipe.head)
    base = neural.with_taps(base, part)
    bench = neural.prepared(recipe.drafter, seed, gamma, recipe.head, FIRST_BLOCKS)
    drafts = neural.every_draft(bench.drafter, bench.anchors, gamma)
    trained, pattern = _confidence_for(recipe, parts, drafts[0], seed), pattern_of(found, gamma)
    anchors = [context[-1] for context in FIRST_BLOCKS]
    is_shown = isinstance(trained, ConfidenceHead) and bend(trained, [(one, anchors) for one in drafts], pattern)
    rates = (1.0,) if is_flat else pattern.rates if is_shown else cliff(drafts, trained, gamma)
    return Parts(base, part, trained, parts.calibrator, parts.scheduler, parts.verifier, from_rates(rates))


def _tables(recipe: Recipe) -> TableTarget | None:
    """A table drafter comes with tables: those of the target, else the paper's."""
    given = given_tables(recipe.target)
    name, params = parse_spec(recipe.drafter)
    if given is not None and name not in OVER_TABLES:
        raise ValueError(f"--drafter {name} over tables: expected one of {', '.join(OVER_TABLES)}; or leave it out")
    return load_table(str(params.get("source", APPENDIX_A))) if given is None and name == "table" else given


def _table_parts(base: TableTarget, recipe: Recipe, parts: Chosen, seed: int, gamma: int, is_flat: bool) -> Parts:
    """The shipped table classes, with the confidences and the curve that came with the tables."""
    part = neural.drafter_over(base, recipe.drafter, seed, gamma)
    trained = TableConfidence(base.tables) if parts.confidence is None else parts.confidence
    capacity = from_rates((1.0,)) if is_flat else base.tables.capacity
    return Parts(base, part, trained, parts.calibrator, parts.scheduler, parts.verifier, capacity)


def _confidence_for(recipe: Recipe, parts: Chosen, draft: Draft, seed: int) -> Confidence:
    """The one named, else a trained one with random weights, else (a drafter without hidden states) max_prob."""
    if parts.confidence is not None:
        return parts.confidence
    if draft.hidden is None:
        return create(CONFIDENCES, "max_prob")  # type: ignore[no-any-return]
    size, rank = draft.hidden.shape[-1], 0 if draft.previous_embedding is None else draft.previous_embedding.shape[-1]
    if parse_spec(recipe.confidence or "head")[0] == "recurrent":
        return neural.recurrent_confidence(size, rank, seed, draft.p_draft.shape[-1])
    return neural.confidence_head(size, rank, seed)


def problem_of(parts: Parts, limits: Limits, gamma: int) -> Problem:
    """One request over two tokens; over given tables as many as asked, and no more tokens than can be enumerated."""
    is_given = isinstance(parts.target, TableTarget)
    V, num = parts.target.vocab_size, (limits.requests or 1) if is_given else 1
    horizon = limits.horizon if limits.horizon is not None and is_given else min(limits.horizon or 2, 2)
    if limits.horizon is None and num_branches(V, gamma, num, horizon) > MOST:
        horizon = 1
    params = limits.params or SamplingParams()
    prompts = [(r % V,) if is_given else PROMPT for r in range(num)]
    requests = tuple(
        Request(prompt, seed=r, max_new_tokens=horizon + 1 + gamma, params=params) for r, prompt in enumerate(prompts)
    )
    return Problem(parts, requests, gamma, horizon, limits.token_budget)


def measured(problem: Problem, seed: int = 0) -> Lossy:
    """The law beside plain decoding by the same target, request by request."""
    plain = replace(problem.parts, drafter=None)
    alone = [replace(problem, parts=plain, requests=(one,), token_budget=None) for one in problem.requests]
    return Lossy(seed, problem, explore(problem), product([explore(one).marginal(0) for one in alone]))


def examine(
    recipe: Recipe,
    parts: Chosen,
    limits: Limits,
    found: Searched,
    make: Make = parts_of,
    num_seeds: int | None = None,
) -> Finding:
    """The exact law of the real drafter, head and confidence over a few seeds.

    Args:
        recipe: names of target, drafter and head.
        parts: the rest.
        limits: what the person fixed.
        found: what the search on tables saw: a lossy one is looked for over more seeds.
        make: builds the composition; for tests that plant a fault.
        num_seeds: of the weights; None: 2, or 6 where the search found something (tables have one).
    """
    tables = _tables(recipe)
    gamma = min(limits.gamma or 2, 2) if tables is None else limits.gamma or len(tables.tables.draft)
    seeds, pattern = (
        num_seeds or (2 if found.worst is None else 6),
        None if found.worst is None else found.worst.example,
    )
    paths, worst, faults, laws = 0, 0.0, list[str](), list[Lossy]()
    with torch.inference_mode():
        for seed in range(seeds if tables is None else 1):
            made = make(recipe, parts, seed, gamma, is_flat=limits.is_flat, found=pattern)
            laws.append(measured(problem_of(made, limits, gamma), seed))
            paths, worst = paths + laws[-1].law.num_paths, max(worst, laws[-1].total_variation)
            faults += laws[-1].law.faults
            if laws[-1].total_variation > EXACT or laws[-1].law.faults:
                break
    lossy = laws[-1] if worst > EXACT or faults else None
    return Finding(len(laws), paths, worst, tuple(dict.fromkeys(faults)), classes_of(laws[-1].problem.parts), lossy)


def classes_of(parts: Parts) -> tuple[str, ...]:
    """The classes that ran."""
    members: list[Any] = [parts.target, parts.drafter, parts.confidence]
    net = getattr(parts.drafter, "net", None)
    members += [getattr(net, "head", None), getattr(net, "link", None)]
    return tuple(type(member).__name__ for member in members if member is not None)

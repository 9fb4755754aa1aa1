"""The real classes with tiny seeded float64 weights: what a table twin stands in for is run itself.

A three-layer transformer over two tokens, the drafter with random weights instead of trained ones, and a confidence
head scaled so that c_2 differs strongly with x_1; the capacity curve is a cliff built from those very confidences, the
pattern that a search on tables finds. Exactness must not depend on training, so random weights are as good as any.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from sparkit.capacity import Capacity, from_rates
from sparkit.confidences.head import ConfidenceHead
from sparkit.confidences.table import TableConfidence
from sparkit.decisions import AddressedSource
from sparkit.drafters.small_lm import SmallLmDrafter
from sparkit.drafters.table import TableDrafter
from sparkit.engine import Parts, Request
from sparkit.proofs.choice import Chosen, create
from sparkit.proofs.examples import Limits
from sparkit.proofs.exploration import explore
from sparkit.proofs.laws.drafter import Bench
from sparkit.proofs.problem import Problem, product, total_variation
from sparkit.proofs.search import EXACT
from sparkit.proofs.search import Finding as Searched
from sparkit.protocols import CONFIDENCES, DRAFTERS, HEADS, Anchors, Confidence, Drafter, SerialHead, Span, Target
from sparkit.recipe import Recipe
from sparkit.registry import parse_spec
from sparkit.rounds import Draft
from sparkit.sampling import SamplingParams
from sparkit.targets.model import TransformerTarget
from sparkit.targets.table import APPENDIX_A, load_table
from sparkit.targets.transformer import Transformer, TransformerConfig

VOCAB, HIDDEN, RANK, GAMMA = 2, 8, 3, 3
SPREAD = 0.7
"""Standard deviation of the weights: laws far from uniform, and from one-hot."""
CONTEXTS = ((0, 1, 0, 0), (1, 1))


@dataclass(frozen=True, slots=True)
class Finding:
    """What the real classes' laws were."""

    num_examples: int
    max_total_variation: float
    faults: tuple[str, ...]
    classes_run: tuple[str, ...]


def seeded(module: torch.nn.Module, seed: int, spread: float = SPREAD) -> torch.nn.Module:
    """Random float64 weights; norms stay near one."""
    generator = torch.Generator().manual_seed(seed)
    module.double().requires_grad_(False)
    for name, weight in module.named_parameters():
        noise = torch.randn(weight.shape, generator=generator, dtype=torch.float64) * spread
        weight.copy_(1 + noise / 4 if "norm" in name and weight.ndim == 1 else noise)
    return module


def target(seed: int = 0, vocab_size: int = VOCAB) -> Target:
    """A tiny language model that really attends to its whole context."""
    config = TransformerConfig(vocab_size, HIDDEN, 12, num_layers=3, num_heads=2, num_kv_heads=1, max_positions=64)
    model = Transformer(config)
    seeded(model, seed)
    return TransformerTarget(model, name="tiny")


def drafter(spec: str, seed: int = 0, gamma: int = GAMMA, head: str | None = None, vocab_size: int = VOCAB) -> Drafter:
    """A drafter by name over the tiny target."""
    return drafter_over(target(seed, vocab_size), spec, seed, gamma, head)


def drafter_over(base: Target, spec: str, seed: int, gamma: int, head: str | None = None) -> Drafter:
    """A drafter by name over a target, with random weights where it has any."""
    name, params = parse_spec(spec)
    part = DRAFTERS.part(name)
    if name == "table":
        base = load_table(str(params.get("source", APPENDIX_A)))
        return part.factory(target=base)  # type: ignore[no-any-return]
    if name == "small_lm":
        return SmallLmDrafter(target(seed + 5), base, gamma)
    offered = {"target": base, "gamma": gamma, "rank": 0 if head == "none" else RANK, "num_layers": 1, "seed": seed}
    offered |= {"head": head} if head is not None else {}
    accepted = inspect.signature(part.factory).parameters
    made = part.factory(**{**{key: value for key, value in offered.items() if key in accepted}, **params})
    net = getattr(made, "net", None)
    if isinstance(net, torch.nn.Module):
        seeded(net, seed + 1)
    return made  # type: ignore[no-any-return]


def head(spec: str, seed: int = 0) -> SerialHead:
    """A serial head by name."""
    name, _ = parse_spec(spec)
    made = HEADS.create(name, vocab_size=VOCAB, rank=0 if name == "none" else RANK, hidden_size=HIDDEN)
    if isinstance(made, torch.nn.Module):
        seeded(made, seed)
    return made  # type: ignore[no-any-return]


def confidence(spec: str, seed: int = 0) -> Confidence:
    """A confidence by name; a trained head becomes a random one."""
    name, params = parse_spec(spec)
    if name == "head":
        return confidence_head(HIDDEN, RANK, seed)
    if name == "table":
        return TableConfidence(load_table(str(params.get("source", APPENDIX_A))).tables)
    return create(CONFIDENCES, spec)  # type: ignore[no-any-return]


def confidence_head(hidden_size: int, rank: int, seed: int, scale: float = 3.0) -> ConfidenceHead:
    """A head whose answers spread over nearly all of (0, 1)."""
    made = ConfidenceHead(hidden_size, rank)
    seeded(made, seed + 2, scale / (hidden_size + rank) ** 0.5)
    return made


def with_taps(base: Target, part: Drafter) -> Target:
    """The target that returns the features its drafter reads."""
    taps = getattr(base, "with_taps", None)
    return base if taps is None else taps(part.feature_layers)


def prepared(spec: str, seed: int = 0, gamma: int = GAMMA, head: str | None = None) -> Bench:
    """A drafter that has absorbed two contexts, the anchors that follow, and a way to go on from there."""
    part = drafter(spec, seed, gamma, head)
    base = with_taps(load_table() if isinstance(part, TableDrafter) else target(seed), part)
    part.prepare(len(CONTEXTS), 32)
    cache = base.new_cache(len(CONTEXTS), 32)
    texts = [list(context) for context in CONTEXTS]

    def feed(counts: list[int]) -> None:
        spans = [Span(slot, cache.lengths[slot], count) for slot, count in enumerate(counts)]
        new = [token for span in spans for token in texts[span.slot][span.start : span.start + span.count]]
        tokens = torch.tensor(new)
        part.absorb(base.forward(tokens, spans, cache).features, tokens, spans)

    def follow() -> Anchors:
        for text in texts:
            text.append(1)
        feed([1] * len(texts))
        return _anchors(texts, gamma)

    feed([len(text) - 1 for text in texts])
    return Bench(part, _anchors(texts, gamma), follow)


def _anchors(texts: list[list[int]], gamma: int) -> Anchors:
    ends = [len(text) - 1 for text in texts]
    return Anchors(
        tokens=torch.tensor([text[-1] for text in texts]),
        positions=torch.tensor(ends),
        spans=tuple(Span(slot, end, gamma) for slot, end in enumerate(ends)),
        params=(SamplingParams(),) * len(texts),
        contexts=tuple(tuple(text) for text in texts),
    )


def sample_draft(part: Drafter, anchors: Anchors, seed: int) -> Draft:
    """A draft by hashed decisions."""
    seeds = torch.arange(len(anchors.spans)) + 101 * seed
    return part.propose(anchors, AddressedSource().at(seeds, anchors.positions))


def cliff(part: Drafter, anchors: Anchors, chosen: Confidence, gamma: int) -> Capacity:
    """A curve on which one draft never pays and two pay after the more promising first token."""
    logits = [chosen.logits(sample_draft(part, anchors, seed), chosen.start()) for seed in range(12)]
    confidences = torch.sigmoid(torch.cat(logits))
    tau, survival, rates = 1.0, 1.0, [1.0]
    for k in range(gamma):
        survival *= float(confidences[:, k].max())
        tau += survival
        rates.append((0.9 if k == 0 else 1.05) / tau)
    return from_rates([max(rate, 1e-3) for rate in rates])


def parts_of(recipe: Recipe, parts: Chosen, seed: int, gamma: int, *, is_flat: bool = False) -> Parts:
    """The composition of real classes."""
    base = target(seed)
    part = drafter_over(base, recipe.drafter, seed, gamma, recipe.head)
    base = with_taps(base, part)
    if isinstance(part, TableDrafter):
        return _table_parts(recipe, parts, is_flat)
    bench = prepared(recipe.drafter, seed, gamma, recipe.head)
    probe, anchors = bench.drafter, bench.anchors
    trained = _confidence_for(parts, sample_draft(probe, anchors, 0), seed)
    capacity = from_rates((1.0,)) if is_flat else cliff(probe, anchors, trained, gamma)
    return Parts(base, part, trained, parts.calibrator, parts.scheduler, parts.verifier, capacity)


def _table_parts(recipe: Recipe, parts: Chosen, is_flat: bool) -> Parts:
    """The shipped table classes, with the confidences and the curve that came with the tables."""
    _, params = parse_spec(recipe.target)
    base = load_table(str(params.get("source", APPENDIX_A)))
    trained = TableConfidence(base.tables) if parts.confidence is None else parts.confidence
    capacity = from_rates((1.0,)) if is_flat else base.tables.capacity
    return Parts(base, TableDrafter(base.tables), trained, parts.calibrator, parts.scheduler, parts.verifier, capacity)


def _confidence_for(parts: Chosen, draft: Draft, seed: int) -> Confidence:
    """The one named, else a random head, else (a drafter without hidden states) max_prob."""
    if parts.confidence is not None:
        return parts.confidence
    if draft.hidden is None:
        return create(CONFIDENCES, "max_prob")  # type: ignore[no-any-return]
    rank = 0 if draft.previous_embedding is None else draft.previous_embedding.shape[-1]
    return confidence_head(draft.hidden.shape[-1], rank, seed)


def problem_of(parts: Parts, limits: Limits, gamma: int) -> Problem:
    """One request over two tokens."""
    horizon = min(limits.horizon or 2, 2)
    request = Request((0, 1), seed=0, max_new_tokens=horizon + 1 + gamma, params=limits.params or SamplingParams())
    return Problem(parts, (request,), gamma, horizon, limits.token_budget)


def distance(problem: Problem) -> tuple[float, tuple[str, ...]]:
    """Total variation from plain decoding by the same target, and faults."""
    law = explore(problem)
    plain = explore(replace(problem, parts=replace(problem.parts, drafter=None)))
    return total_variation(law.probability, product([plain.marginal(0)])), law.faults


def examine(
    recipe: Recipe, parts: Chosen, limits: Limits, found: Searched, make: Callable[..., Parts] | None = None
) -> Finding | None:
    """The exact law of the real drafter, head and confidence over a few seeds.

    Args:
        recipe: names of drafter and head.
        parts: the rest.
        limits: what the person fixed.
        found: what the search on tables saw: a lossy one is looked for over more seeds.
        make: builds the composition; for tests that plant a fault.
    """
    gamma, worst, faults = min(limits.gamma or 2, 2), 0.0, list[str]()
    run: tuple[str, ...] = ()
    num_seeds = 2 if found.worst is None else 6
    tried = 0
    with torch.inference_mode():
        for seed in range(num_seeds):
            made = (make or parts_of)(recipe, parts, seed, gamma, is_flat=limits.is_flat)
            run = classes_of(made)
            off, broken = distance(problem_of(made, limits, gamma))
            worst, tried = max(worst, off), tried + 1
            faults += list(broken)
            if off > EXACT:
                break
    return Finding(tried, worst, tuple(dict.fromkeys(faults)), run)


def classes_of(parts: Parts) -> tuple[str, ...]:
    """The classes that ran."""
    members: list[Any] = [parts.target, parts.drafter, parts.confidence]
    net = getattr(parts.drafter, "net", None)
    members += [getattr(net, "head", None), getattr(net, "link", None)]
    return tuple(type(member).__name__ for member in members if member is not None)

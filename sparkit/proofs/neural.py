"""The real classes with tiny seeded float64 weights, built by name, for proofs and for the laws of single parts.

A three-layer transformer over two tokens, the drafter with random weights instead of trained ones, and a confidence
head scaled so that c_2 differs strongly with x_1. Exactness must not depend on training, so random weights are as good
as any. Not done here: measuring their law (`sparkit.proofs.real`).
"""

import inspect
from collections.abc import Sequence
from itertools import product

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sparkit.confidences.head import ConfidenceHead
from sparkit.confidences.recurrent import RecurrentConfidence
from sparkit.confidences.table import TableConfidence
from sparkit.decisions import AddressedSource, Purpose, Until
from sparkit.drafters.small_lm import SmallLmDrafter
from sparkit.drafters.table import TableDrafter
from sparkit.proofs.choice import create
from sparkit.proofs.laws.drafter import Bench
from sparkit.protocols import CONFIDENCES, DRAFTERS, HEADS, Anchors, Confidence, Drafter, SerialHead, Span, Target
from sparkit.registry import parse_spec
from sparkit.rounds import Draft
from sparkit.sampling import SamplingParams
from sparkit.targets.model import TransformerTarget
from sparkit.targets.table import APPENDIX_A, TableTarget, load_table
from sparkit.targets.transformer import Transformer, TransformerConfig

VOCAB, HIDDEN, RANK, GAMMA = 2, 8, 3, 3
SPREAD = 0.7
"""Standard deviation of the weights: laws far from uniform, and from one-hot."""
CONTEXTS = ((0, 1, 0, 0), (1, 1))


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
        if isinstance(base, TableTarget):
            return part.factory(target=base, gamma=gamma)  # type: ignore[no-any-return]
        return part.factory(target=load_table(str(params.get("source", APPENDIX_A))))  # type: ignore[no-any-return]
    if name == "small_lm":
        return SmallLmDrafter(target(seed + 5, base.vocab_size), base, gamma)
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
    if name == "recurrent":
        return recurrent_confidence(HIDDEN, RANK, seed)
    if name == "table":
        return TableConfidence(load_table(str(params.get("source", APPENDIX_A))).tables)
    return create(CONFIDENCES, spec)  # type: ignore[no-any-return]


def confidence_head(hidden_size: int, rank: int, seed: int, scale: float = 3.0) -> ConfidenceHead:
    """A head whose answers spread over nearly all of (0, 1)."""
    made = ConfidenceHead(hidden_size, rank)
    seeded(made, seed + 2, scale / (hidden_size + rank) ** 0.5)
    return made


def recurrent_confidence(hidden_size: int, rank: int, seed: int, vocab_size: int = VOCAB) -> RecurrentConfidence:
    """A small one with random weights: its answers depend on every token before them."""
    made = RecurrentConfidence(vocab_size, hidden_size, rank, width=6, embedding_size=2)
    seeded(made, seed + 3)
    return made


def with_taps(base: Target, part: Drafter) -> Target:
    """The target that returns the features its drafter reads."""
    taps = getattr(base, "with_taps", None)
    return base if taps is None else taps(part.feature_layers)


def prepared(
    spec: str,
    seed: int = 0,
    gamma: int = GAMMA,
    head: str | None = None,
    contexts: Sequence[tuple[int, ...]] = CONTEXTS,
) -> Bench:
    """A drafter that has absorbed some contexts, the anchors that follow, and a way to go on from there."""
    part = drafter(spec, seed, gamma, head)
    base = with_taps(load_table() if isinstance(part, TableDrafter) else target(seed), part)
    part.prepare(len(contexts), 32)
    cache = base.new_cache(len(contexts), 32)
    texts = [list(context) for context in contexts]

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


class _Dictated:
    """Decisions that draw the tokens one was told, whatever their laws."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens = tokens

    def draw(self, p: Float[Tensor, "R V"], purpose: Purpose, offset: int | Int[Tensor, " R"]) -> Int[Tensor, " R"]:
        """See `Decisions`; drafts only, which are drawn for all rows at one offset."""
        assert isinstance(offset, int)
        return torch.full((len(p),), self.tokens[offset - 1])

    def coins(self, prob: Float[Tensor, "R K"], purpose: Purpose, until: Until = "all") -> Bool[Tensor, "R K"]:
        """Never asked for by a drafter."""
        return torch.zeros_like(prob, dtype=torch.bool)


def every_draft(part: Drafter, anchors: Anchors, gamma: int) -> list[Draft]:
    """All V^gamma blocks that may be drafted."""
    return [part.propose(anchors, _Dictated(tokens)) for tokens in product(range(VOCAB), repeat=gamma)]


def sample_draft(part: Drafter, anchors: Anchors, seed: int) -> Draft:
    """A draft by hashed decisions."""
    seeds = torch.arange(len(anchors.spans)) + 101 * seed
    return part.propose(anchors, AddressedSource().at(seeds, anchors.positions))

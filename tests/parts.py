"""Small parts that tests put together: seeded targets, drafters that follow a script, decisions that are told.

Nothing here is a test. Targets are in float64 with weights large enough that laws differ from position to position.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from sparkit.capacity import from_rates
from sparkit.decisions import AddressedSource
from sparkit.engine import Parts
from sparkit.protocols import CALIBRATORS, CONFIDENCES, SCHEDULERS, VERIFIERS, Anchors, Drafter, Span, Target
from sparkit.rounds import Draft
from sparkit.sampling import SamplingParams
from sparkit.targets.model import TransformerTarget
from sparkit.targets.transformer import Transformer, TransformerConfig


def tiny_target(
    *,
    taps: Sequence[int] = (),
    seed: int = 0,
    vocab_size: int = 32,
    num_layers: int = 4,
    max_positions: int = 64,
    qk_norm: bool = False,
    dtype: torch.dtype = torch.float64,
) -> TransformerTarget:
    """A seeded transformer whose laws are neither flat nor certain."""
    config = TransformerConfig(vocab_size, 16, 24, num_layers, 4, 2, max_positions=max_positions, qk_norm=qk_norm)
    with torch.random.fork_rng():  # torch's own initial weights come from its global generator
        torch.manual_seed(seed)
        model = Transformer(config).double()
    shake(model, seed, 0.3)
    return TransformerTarget(model.to(dtype), taps=taps)


def shake(module: torch.nn.Module, seed: int, size: float) -> None:
    """Adds seeded noise to every parameter, norms and biases too, so that no weight is a special value."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in module.parameters():
            p.add_(torch.randn(p.shape, generator=generator, dtype=torch.float64).to(p) * size)


def random_tokens(num: int, seed: int, vocab_size: int = 32) -> Tensor:
    """Seeded token ids."""
    return torch.randint(vocab_size, (num,), generator=torch.Generator().manual_seed(seed))


def features_of(target: Target, tokens: Tensor) -> Tensor:
    """The taps of one document."""
    cache = target.new_cache(1, len(tokens))
    return target.forward(tokens, [Span(0, 0, len(tokens))], cache).features


def anchors_at(
    tokens: Sequence[int],
    spans: Sequence[Span],
    params: SamplingParams = SamplingParams(),
    contexts: Sequence[Sequence[int]] = (),
) -> Anchors:
    """Anchors at the spans' starts."""
    starts = torch.tensor([span.start for span in spans])
    return Anchors(torch.tensor(tokens), starts, tuple(spans), (params,) * len(spans), tuple(contexts))


def addressed(anchors: Anchors) -> object:
    """Production's decisions for some anchors; seeds are the row numbers' slots."""
    return AddressedSource().at(torch.tensor([span.slot for span in anchors.spans]), anchors.positions)


class Told:
    """Decisions that draw what they are told: column k - 1 for offset k."""

    def __init__(self, tokens: Tensor) -> None:
        self.tokens = tokens

    def draw(self, p: Tensor, purpose: object, offset: int) -> Tensor:
        return self.tokens[:, offset - 1]

    def coins(self, prob: Tensor, purpose: object, until: str = "all") -> Tensor:
        raise AssertionError("nobody throws coins while drafting")


class ScriptedDrafter:
    """Proposes what `script(context, gamma)` says, with a one-hot law or the law of a script of its own.

    Args:
        script: committed tokens (anchor included) and gamma -> gamma token ids.
        vocab_size: of the target.
        gamma: longest block.
    """

    kind, lossless, feature_layers = "lookup", True, ()

    def __init__(self, script: Callable[[Sequence[int], int], Sequence[int]], vocab_size: int, gamma: int = 64) -> None:
        self.script, self.vocab_size, self.gamma = script, vocab_size, gamma

    def prepare(self, num_slots: int, max_len: int) -> None: ...

    def absorb(self, features: Tensor, tokens: Tensor, spans: Sequence[Span]) -> None: ...

    def propose(self, anchors: Anchors, decisions: object) -> Draft:
        gamma = anchors.spans[0].count
        tokens = torch.tensor([list(self.script(context, gamma)) for context in anchors.contexts])
        return Draft(tokens, F.one_hot(tokens, self.vocab_size).double())

    def forget(self, slot: int) -> None: ...

    def save(self) -> None: ...

    def load(self, state: None) -> None: ...


def perfect(texts: Sequence[Sequence[int]], vocab_size: int) -> ScriptedDrafter:
    """A drafter that knows the texts in advance and always continues the one that its context begins."""

    def script(context: Sequence[int], gamma: int) -> list[int]:
        text = next(text for text in texts if list(text[: len(context)]) == list(context))
        rest = list(text[len(context) : len(context) + gamma])
        return rest + [0] * (gamma - len(rest))

    return ScriptedDrafter(script, vocab_size)


def parts_of(
    target: Target,
    drafter: Drafter | None,
    *,
    confidence: object = "position",
    calibrator: object = "identity",
    scheduler: object = "fixed",
    verifier: object = "rejection",
    rates: Sequence[float] = (1.0,),
) -> Parts:
    """A composition of registered parts, by name or as objects."""

    def made(registry: object, part: object) -> object:
        return registry.create(part) if isinstance(part, str) else part

    return Parts(
        target,
        drafter,
        made(CONFIDENCES, confidence),
        made(CALIBRATORS, calibrator),
        made(SCHEDULERS, scheduler),
        made(VERIFIERS, verifier),
        from_rates(rates),
    )

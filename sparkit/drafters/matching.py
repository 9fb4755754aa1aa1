"""What a drafter insists on before it drafts: its own target, a trained length, no gap and no overlap in its slots.

A mistake here would not change the text (verification mends it), only the acceptance; so it is an error, not a number
that nobody looks at. Here too: the shaping of draft laws, which every neural drafter does alike.
"""

from collections.abc import Callable, Sequence

from torch import Tensor

from sparkit.drafters.config import DrafterConfig
from sparkit.protocols import Anchors, Span, Target
from sparkit.sampling import probs


def shaping(anchors: Anchors) -> Callable[[Tensor, Sequence[Tensor]], Tensor]:
    """`Anchors.law`, with its search for common parameters done once a block instead of once a token."""
    first = anchors.params[0]
    if anchors.history is not None or any(params != first for params in anchors.params):
        return anchors.law
    return lambda logits, _drafted: probs(logits, first)


def require_matching(config: DrafterConfig, target: Target) -> None:
    """A `ValueError` when a drafter was made for another target."""
    decoder = config.decoder
    for name, given, wanted in (
        ("vocabulary", decoder.vocab_size, target.vocab_size),
        ("hidden size", decoder.hidden_size, target.hidden_size),
        ("number of target layers", config.num_target_layers, target.num_layers),
    ):
        if given != wanted:
            raise ValueError(
                f"drafter {config.algorithm}: {name} {given}, the target has {wanted}; it was made for another target"
            )


def allowed_gamma(config: DrafterConfig, gamma: int | None) -> int:
    """The block length asked for, at most the trained one."""
    wanted = config.gamma if gamma is None else gamma
    if not 1 <= wanted <= config.gamma:
        raise ValueError(f"gamma={wanted}: this {config.algorithm} drafter was trained for 1..{config.gamma}")
    return wanted


def require_next(spans: Sequence[Span], lengths: Sequence[int]) -> None:
    """A `ValueError` for features that do not go on where a slot ends."""
    for span in spans:
        if span.start != lengths[span.slot]:
            raise ValueError(f"absorb: {span} does not go on at position {lengths[span.slot]}, where its slot ends")


def require_absorbed(spans: Sequence[Span], lengths: Sequence[int]) -> None:
    """A `ValueError` for an anchor whose past has not been absorbed up to it (a stale or a misplaced draft)."""
    for span in spans:
        if span.start != lengths[span.slot]:
            raise ValueError(
                f"propose: the anchor of slot {span.slot} is at position {span.start}, but features of "
                f"{lengths[span.slot]} positions are absorbed; absorb every position before the anchor first"
            )

"""A serial head's stepwise form and its teacher-forced form give the same biases, exactly, in float64."""

from collections.abc import Iterator

import torch
from torch import Tensor

from sparkit.proofs.laws.keeping import Report, hold
from sparkit.protocols import SerialHead

TOLERANCE = 1e-13


def check_head(part: SerialHead, vocab_size: int, hidden_size: int, gamma: int = 4, seed: int = 0) -> Report:
    """Holds a serial head to its laws; its weights must be float64.

    Args:
        part: the head.
        vocab_size: of its tables.
        hidden_size: of the backbone.
        gamma: positions to step through.
        seed: of the inputs.
    """
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(vocab_size, (5, gamma), generator=generator)
    hidden = torch.randn(5, gamma, hidden_size, generator=generator, dtype=torch.float64)
    return hold(
        "head",
        part,
        {
            "step by step equals teacher forcing": lambda: _agree(part, tokens, hidden),
            "rows do not see each other": lambda: _rows(part, tokens, hidden),
            "float64 stays float64": lambda: _precision(part, tokens, hidden),
            "a position sees nothing after it": lambda: _causal(part, tokens, hidden, vocab_size),
        },
    )


def stepped(part: SerialHead, tokens: Tensor, hidden: Tensor) -> list[Tensor | None]:
    """Biases position by position, the previous tokens given."""
    state, out = part.start(tokens[:, 0]), []
    for k in range(tokens.shape[1]):
        bias, state = part.step(state, tokens[:, k], hidden[:, k])
        out.append(bias)
    return out


def _agree(part: SerialHead, tokens: Tensor, hidden: Tensor) -> Iterator[str]:
    forced = part.block(tokens, hidden)
    for k, bias in enumerate(stepped(part, tokens, hidden)):
        if (bias is None) != (forced is None):
            yield f"position {k + 1}: one form has a bias and the other has none"
        elif (
            bias is not None and forced is not None and (worst := float((bias - forced[:, k]).abs().max())) > TOLERANCE
        ):
            yield f"position {k + 1}: the two forms differ by {worst:.3g}"


def _rows(part: SerialHead, tokens: Tensor, hidden: Tensor) -> Iterator[str]:
    together = stepped(part, tokens, hidden)
    for r in range(len(tokens)):
        alone = stepped(part, tokens[r : r + 1], hidden[r : r + 1])
        for k, (a, b) in enumerate(zip(together, alone, strict=True)):
            if a is not None and b is not None and float((a[r] - b[0]).abs().max()) > TOLERANCE:
                yield f"row {r}, position {k + 1}: alone and in a batch differ"


def _precision(part: SerialHead, tokens: Tensor, hidden: Tensor) -> Iterator[str]:
    for bias in (*stepped(part, tokens, hidden), part.block(tokens, hidden)):
        if bias is not None and bias.dtype != torch.float64:
            yield f"a bias came out as {bias.dtype}"


def _causal(part: SerialHead, tokens: Tensor, hidden: Tensor, vocab_size: int) -> Iterator[str]:
    forced = part.block(tokens, hidden)
    if forced is None:
        return
    for k in range(tokens.shape[1] - 1):
        other, moved = tokens.clone(), hidden.clone()
        other[:, k + 1 :] = (other[:, k + 1 :] + 1) % vocab_size
        moved[:, k + 1 :] += 1
        changed = part.block(other, moved)
        if changed is not None and float((changed[:, : k + 1] - forced[:, : k + 1]).abs().max()) > TOLERANCE:
            yield f"the bias of position {k + 1} moved with what stands after it"

"""How far the target's law moves when a block is judged in one pass instead of token by token: rounding, and no more.

Exactness is exactness for the law that the block pass computes. In float64 both are one; in bf16 they differ, and this
says by how much, so that nobody hides it in a tolerance.
"""

from dataclasses import dataclass

import torch

from sparkit.compose import Composition
from sparkit.protocols import Span
from sparkit.sampling import SamplingParams, probs, total_variation
from tests.statistical.bundled import PROMPT, composition

NUM_TOKENS, BLOCK = 48, 8


@dataclass(frozen=True, slots=True)
class Drift:
    """Total variation between the two passes, over the rows of a text."""

    mean: float
    worst: float
    argmax_changed: int  # rows at which the likeliest token is another
    num_rows: int


def drift(device: str, dtype: str) -> Drift:
    """Block against sequential passes of the bundled target over one greedy text."""
    made = composition("dspark-markov", "greedy", "rejection", device, dtype)
    text = _greedy(made)
    block, single = _laws(made, text, BLOCK), _laws(made, text, 1)
    off = total_variation(block, single)
    changed = int((block.argmax(-1) != single.argmax(-1)).sum())
    return Drift(float(off.mean()), float(off.max()), changed, len(off))


def _greedy(made: Composition) -> list[int]:
    text = made.encode(PROMPT)
    target = made.parts.target
    cache, start = target.new_cache(1, len(text) + NUM_TOKENS), 0
    for _ in range(NUM_TOKENS):
        new = torch.tensor(text[start:], device=target.device)
        logits = target.forward(new, [Span(0, start, len(new))], cache).logits
        start = len(text)
        text.append(int(logits[-1].argmax()))
    return text


def _laws(made: Composition, text: list[int], count: int) -> torch.Tensor:
    """Every row's law, `count` tokens a pass."""
    target = made.parts.target
    cache, rows = target.new_cache(1, len(text)), []
    for start in range(0, len(text), count):
        new = torch.tensor(text[start : start + count], device=target.device)
        rows.append(target.forward(new, [Span(0, start, len(new))], cache).logits)
    return probs(torch.cat(rows), SamplingParams()).double().cpu()

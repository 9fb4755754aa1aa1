"""Rotary position tables: the plain geometric one, linear interpolation and Llama 3's frequency-dependent scaling.

Tables are computed in float64 and rounded once, so that a float64 model really is float64.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """How frequencies are stretched for longer contexts."""

    kind: Literal["linear", "llama3"]
    factor: float
    low_freq_factor: float = 1.0  # llama3 only, as the two below
    high_freq_factor: float = 4.0
    original_max_positions: int = 8192


def _llama3(frequencies: Tensor, scaling: RopeScaling) -> Tensor:
    wavelength = 2 * math.pi / frequencies
    turns = scaling.original_max_positions / wavelength
    blend = (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor)
    blend = blend.clamp(0, 1)
    return frequencies * blend + frequencies / scaling.factor * (1 - blend)


def rope_table(
    head_size: int, max_positions: int, theta: float, scaling: RopeScaling | None
) -> tuple[Float[Tensor, "positions e"], Float[Tensor, "positions e"]]:
    """Cosines and sines [max_positions, head_size] in float64 for the half-split layout.

    The first half of the sines is negated: (x1, x2) turns into (x1 cos - x2 sin, x2 cos + x1 sin), so the sign in the
    table turns the rotation into x * cos + swap(x) * sin, without a negation at every layer.

    Raises:
        ValueError: for an odd head size.
    """
    if head_size % 2:
        raise ValueError(f"head_size={head_size}: rotary embeddings need an even head size")
    exponents = torch.arange(0, head_size, 2, dtype=torch.float64) / head_size
    frequencies = theta**-exponents
    if scaling is not None:
        frequencies = frequencies / scaling.factor if scaling.kind == "linear" else _llama3(frequencies, scaling)
    angles = torch.arange(max_positions, dtype=torch.float64)[:, None] * frequencies
    cos, sin = angles.cos(), angles.sin()
    return torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1)

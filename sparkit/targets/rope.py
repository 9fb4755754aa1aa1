"""Rotary position tables: the plain geometric one, and three scalings: linear, Llama 3's by wavelength, YaRN.

Tables are computed in float64 and rounded once, so that a float64 model really is float64.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """How frequencies are stretched for longer contexts."""

    kind: Literal["linear", "llama3", "yarn"]
    factor: float
    low_freq_factor: float = 1.0  # llama3
    high_freq_factor: float = 4.0  # llama3
    original_max_positions: int = 8192  # llama3, yarn
    beta_fast: float = 32.0  # yarn: frequencies that turn more often than this within the old context stay
    beta_slow: float = 1.0  # yarn: frequencies that turn less often are interpolated
    attention_factor: float | None = None  # yarn: multiplies cosines and sines; None: 0.1 ln(factor) + 1

    @property
    def amplitude(self) -> float:
        """What cosines and sines are multiplied by."""
        if self.kind != "yarn":
            return 1.0
        return self.attention_factor or (1.0 if self.factor <= 1 else 0.1 * math.log(self.factor) + 1)


def _llama3(frequencies: Tensor, scaling: RopeScaling) -> Tensor:
    wavelength = 2 * math.pi / frequencies
    turns = scaling.original_max_positions / wavelength
    blend = (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor)
    blend = blend.clamp(0, 1)
    return frequencies * blend + frequencies / scaling.factor * (1 - blend)


def _yarn(frequencies: Tensor, scaling: RopeScaling, theta: float) -> Tensor:
    size = 2 * len(frequencies)

    def pair_turning(times: float) -> float:
        return size * math.log(scaling.original_max_positions / (times * 2 * math.pi)) / (2 * math.log(theta))

    low = max(math.floor(pair_turning(scaling.beta_fast)), 0)
    high = min(math.ceil(pair_turning(scaling.beta_slow)), size - 1)
    ramp = (torch.arange(size // 2, dtype=torch.float64) - low) / max(high - low, 0.001)
    ramp = ramp.clamp(0, 1)
    return frequencies / scaling.factor * ramp + frequencies * (1 - ramp)


def _scaled(frequencies: Tensor, scaling: RopeScaling, theta: float) -> Tensor:
    if scaling.kind == "linear":
        return frequencies / scaling.factor
    return _llama3(frequencies, scaling) if scaling.kind == "llama3" else _yarn(frequencies, scaling, theta)


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
        frequencies = _scaled(frequencies, scaling, theta)
    angles = torch.arange(max_positions, dtype=torch.float64)[:, None] * frequencies
    amplitude = 1.0 if scaling is None else scaling.amplitude
    cos, sin = amplitude * angles.cos(), amplitude * angles.sin()
    return torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1)


class RopeTables:
    """The table in every precision and on every device that asks, rounded from float64 once each.

    `.double()` on a model must not leave it with float32 angles, so the table is no buffer that is cast along.
    """

    def __init__(self, head_size: int, max_positions: int, theta: float, scaling: RopeScaling | None) -> None:
        self._sizes = (head_size, max_positions, theta, scaling)
        self._tables: dict[tuple[torch.dtype, torch.device], tuple[Tensor, Tensor]] = {}

    def __call__(
        self, positions: Int[Tensor, " B"], like: Tensor
    ) -> tuple[Float[Tensor, "B 1 e"], Float[Tensor, "B 1 e"]]:
        """Cosines and sines of a flat row of positions, in the precision and on the device of `like`."""
        key = (like.dtype, like.device)
        if key not in self._tables:
            cos, sin = (table.to(dtype=key[0], device=key[1])[:, None] for table in rope_table(*self._sizes))
            self._tables[key] = (cos, sin)
        cos, sin = self._tables[key]
        return cos[positions], sin[positions]

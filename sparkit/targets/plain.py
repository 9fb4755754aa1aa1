"""One decoder layer as plain tensor calls: what a decoding step really runs, in the target and in the drafters.

    x = residual + out(attend(turn(qkv(attended)))),   x + down(silu(gate x') * up x'),   x' = norm(x)

One token at batch 1 multiplies few numbers, so a step costs what its calls cost: module hooks, einops, views and small
kernels. Here a layer is 5 matrix calls and about 15 small ones; queries and keys turn together, in place, so that keys
and values stay side by side and enter the cache in one copy; the residual sum rides on the matrix product. On the CPU
the matrices lie input-major, which a product with few rows reads a third faster. The same weights as the modules of
`sparkit.targets.transformer`, equal up to rounding (tested). No gradients; moving or casting the modules needs a new
one.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from sparkit.targets.transformer import Attention, RMSNorm, Rope, SwiGLU, rms

Attend = Callable[[int, Tensor], Tensor]
"""(layer, qkv [B, (heads + 2 kv) e], queries and keys turned) -> [B, heads e]."""

Turn = tuple[Float[Tensor, "B width"], Float[Tensor, "B width"]]
"""Cosines and signed sines of every coordinate of queries and keys."""


class Plain:
    """Attention and feed-forward of one layer; the caller norms what is attended."""

    def __init__(self, attention: Attention, mlp_norm: RMSNorm, mlp: SwiGLU) -> None:
        self.qkv, self.out = _Affine(attention.qkv), _Affine(attention.out)
        self.gate_up, self.down = _Affine(mlp.gate_up), _Affine(mlp.down)
        self.num_turned = attention.heads + attention.kv_heads  # heads that carry a position
        self.width = self.num_turned * attention.head_size
        self.mlp_norm, self.floor = mlp_norm.weight, mlp_norm.floor_like(mlp_norm.weight)
        self.head_norm = _head_norm(attention)
        swap = torch.arange(self.width).view(self.num_turned, 2, -1).flip(1).flatten()
        self.swap = swap.to(mlp_norm.weight.device)

    def __call__(self, residual: Tensor, attended: Tensor, turn: Turn, layer: int, attend: Attend) -> Tensor:
        """The layer's output, [B, d]."""
        qkv = self.qkv(attended)
        self._turn(qkv[:, : self.width], turn)
        x = self.out.added(residual, attend(layer, qkv))
        gate, up = self.gate_up(rms(x, self.mlp_norm, self.floor)).chunk(2, dim=1)
        return self.down.added(x, F.silu(gate).mul_(up))

    def turn(self, rope: Rope) -> Turn:
        """Cosines and sines of a flat row, one a coordinate."""
        cos, sin = (part.expand(-1, self.num_turned, -1).flatten(1) for part in rope)
        return cos, sin

    def _turn(self, x: Float[Tensor, "B width"], turn: Turn) -> None:
        """QK-norm and rotary embedding of queries and keys, in place."""
        if self.head_norm is not None:
            x.copy_(rms(x.reshape(-1, *self.head_norm.shape), self.head_norm, self.floor).flatten(1))
        swapped = x.index_select(1, self.swap)
        x.mul_(turn[0]).addcmul_(swapped, turn[1])


class _Affine:
    """A linear layer as its transposed matrix and bias."""

    def __init__(self, linear: nn.Linear) -> None:
        if linear.weight.device.type == "cpu":
            linear.weight.data = linear.weight.data.t().contiguous().t()
        self.matrix = linear.weight.t()
        self.bias: Tensor | None = linear.bias

    def __call__(self, x: Tensor) -> Tensor:
        return x.mm(self.matrix) if self.bias is None else torch.addmm(self.bias, x, self.matrix)

    def added(self, x: Tensor, change: Tensor) -> Tensor:
        """The residual sum rides on the product."""
        x = torch.addmm(x, change, self.matrix)
        return x if self.bias is None else x.add_(self.bias)


def _head_norm(attention: Attention) -> Float[Tensor, "heads e"] | None:
    norms = ((attention.q_norm, attention.heads), (attention.k_norm, attention.kv_heads))
    weights = [norm.weight.expand(count, -1) for norm, count in norms if norm is not None]
    return torch.cat(weights) if weights else None

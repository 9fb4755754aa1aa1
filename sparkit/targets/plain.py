"""Decoder layers as plain tensor calls: what a decoding step really runs, in the target and in the drafters.

    x = residual + out(attend(turn(qkv(attended)))),   x + down(silu(gate x') * up x'),   x' = norm(x)

One token at batch 1 multiplies few numbers, so a step costs what its calls cost: module hooks, einops, views and small
kernels. Here a layer is 5 matrix calls and about 15 small ones; queries and keys turn together, in place, so that keys
and values stay side by side and enter the cache in one copy; the residual sum rides on the matrix product. On the CPU
the matrices lie input-major, which a product with few rows reads a third faster; with more tokens `W x^T` is what two
cores of some makers share best (`MANY_TOKENS`). The same weights as the modules of `sparkit.targets.transformer`,
equal up to rounding (tested). No gradients; changing, moving or casting the weights needs a new one.
"""

import sys
from collections.abc import Callable, Iterable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from sparkit.targets.processor import is_intel
from sparkit.targets.transformer import Attention, DecoderLayer, RMSNorm, Rope, SwiGLU, rms

Attend = Callable[[int, Tensor], Tensor]
"""(layer, qkv [B, (heads + 2 kv) e], queries and keys turned) -> [B, heads e]."""

Turn = tuple[Float[Tensor, "B width"], Float[Tensor, "B width"]]
"""Cosines and signed sines of every coordinate of queries and keys."""


MANY_TOKENS, MANY_TOKENS_OF_LARGE = (sys.maxsize, 8) if is_intel() else (4, 2)
"""From so many tokens on `W x^T` is taken: for gate and up, whose halves it leaves whole; and for large matrices.

By `benchmarks/products.py` on two cores of an AMD EPYC 576 x 3072 with 2, 4 and 16 tokens takes 600 us for 780, 750 for
2400 and 1500 for 1890; 160 x 896 alone as long either way, but between all that a step does a pass of the bundled
target with 4, 8, 16, 32 and 64 tokens takes 7.0 ms for 7.9, 8.1 for 9.0, 8.4 for 9.3, 11.9 for 12.8 and 16.7 for 17.6.
On two of an Intel Xeon the matrix takes 320 us for 200, 400 for 280 and 360 for 540, and the pass 2.0 ms for 1.8, 2.1
for 2.0, 2.6 for 2.6, 3.7 for 3.6 and 6.3 for 6.1."""
LARGE, TOO_LARGE = 2**19, 2**21
"""Numbers of a matrix; larger than that it is not kept both ways."""


class Plain:
    """Attention and feed-forward of one layer; the caller norms what is attended."""

    def __init__(self, attention: Attention, mlp_norm: RMSNorm, mlp: SwiGLU) -> None:
        self.qkv, self.out = _Affine(attention.qkv), _Affine(attention.out)
        self.gate_up, self.down = _Affine(mlp.gate_up, MANY_TOKENS), _Affine(mlp.down)
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
        return self.down.added(x, self._gated(rms(x, self.mlp_norm, self.floor)))

    def _gated(self, x: Float[Tensor, "B d"]) -> Float[Tensor, "B inner"]:
        """silu(gate x) * up x."""
        if self.gate_up.takes_rows(x):
            gate, up = self.gate_up(x).chunk(2, dim=1)
            return F.silu(gate).mul_(up)
        gate, up = self.gate_up.columns(x).chunk(2)
        return F.silu(gate).mul_(up).t()

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


class PlainLayers:
    """Decoder layers one after the other, with their norms and the last one.

    Args:
        layers: in order.
        norm: what comes behind the last of them.
    """

    def __init__(self, layers: Iterable[nn.Module], norm: RMSNorm) -> None:
        decoders = [layer for layer in layers if isinstance(layer, DecoderLayer)]
        self.layers = [Plain(layer.attention, layer.mlp_norm, layer.mlp) for layer in decoders]
        self.norms = [layer.attention_norm.weight for layer in decoders]
        self.last_norm, self.floor = norm.weight, norm.floor_like(norm.weight)

    def __call__(
        self, x: Float[Tensor, "B d"], rope: Rope, attend: Attend, taps: Sequence[int] = ()
    ) -> tuple[Float[Tensor, "B d"], list[Float[Tensor, "B d"]]]:
        """The last layer's output before the last norm, and the outputs of the tapped layers (-1: x) in their order."""
        turn, tapped = self.layers[0].turn(rope), {-1: x}
        for index, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            x = layer(x, rms(x, norm, self.floor), turn, index, attend)
            if index in taps:
                tapped[index] = x
        return x, [tapped[tap] for tap in taps]

    def normed(self, x: Float[Tensor, "B d"]) -> Float[Tensor, "B d"]:
        """After the last norm."""
        return rms(x, self.last_norm, self.floor)


class _Affine:
    """A linear layer as its transposed matrix and bias, and the matrix itself where `W x^T` is sometimes better.

    Args:
        linear: the layer; on the CPU its weight comes to lie input-major.
        many: from so many tokens on `W x^T` is better, unless the matrix is large.
    """

    def __init__(self, linear: nn.Linear, many: int = sys.maxsize) -> None:
        weight = linear.weight
        self.many = sys.maxsize if weight.numel() > TOO_LARGE else _least_tokens(weight, many)
        self.whole = weight.detach().contiguous() if self.many < sys.maxsize else None
        weight.data = input_major(weight.data)
        self.matrix = weight.t()
        self.bias: Tensor | None = linear.bias

    def takes_rows(self, x: Float[Tensor, "B k"]) -> bool:
        """Whether `x W^T` is what to do."""
        return x.shape[0] < self.many  # len() of a tensor takes ten times as long

    def __call__(self, x: Float[Tensor, "B k"]) -> Float[Tensor, "B n"]:
        if not self.takes_rows(x):
            return self.columns(x).t().contiguous()
        return x.mm(self.matrix) if self.bias is None else torch.addmm(self.bias, x, self.matrix)

    def columns(self, x: Float[Tensor, "B k"]) -> Float[Tensor, "n B"]:
        """The layer by `W x^T`, a column a token."""
        assert self.whole is not None
        y = self.whole.mm(x.t())
        return y if self.bias is None else y.add_(self.bias[:, None])

    def added(self, x: Float[Tensor, "B n"], change: Float[Tensor, "B k"]) -> Float[Tensor, "B n"]:
        """The residual sum rides on the product of few tokens."""
        if not self.takes_rows(x):
            return self(change).add_(x)
        x = torch.addmm(x, change, self.matrix)
        return x if self.bias is None else x.add_(self.bias)


def input_major(weight: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
    """The same matrix, on the CPU with its columns side by side: few rows read it in a third to a fifth of the time."""
    return weight.t().contiguous().t() if weight.device.type == "cpu" else weight


def lay_input_major(module: nn.Module) -> None:
    """Every linear layer of a module, but for large ones, which are better multiplied from the other side."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear) and layer.weight.numel() <= LARGE:
            layer.weight.data = input_major(layer.weight.data)


def multiplied(x: Float[Tensor, "*B k"], weight: Float[Tensor, "n k"]) -> Float[Tensor, "*B n"]:
    """What a matrix as `nn.Linear` keeps it, such as an LM head, makes of x: a large one by `W x^T`."""
    num = x.numel() // x.shape[-1]
    if num < _least_tokens(weight):
        return F.linear(x, weight)
    return weight.mm(x.reshape(num, -1).t()).t().reshape(*x.shape[:-1], -1)


def _least_tokens(weight: Tensor, otherwise: int = sys.maxsize) -> int:
    """From how many tokens on `W x^T` is better; `otherwise` for a matrix that is not large."""
    if weight.device.type != "cpu":
        return sys.maxsize
    return MANY_TOKENS_OF_LARGE if weight.numel() > LARGE else otherwise


def _head_norm(attention: Attention) -> Float[Tensor, "heads e"] | None:
    norms = ((attention.q_norm, attention.heads), (attention.k_norm, attention.kv_heads))
    weights = [norm.weight.expand(count, -1) for norm, count in norms if norm is not None]
    return torch.cat(weights) if weights else None

"""The same decoder as `Transformer`, as plain tensor calls: what a decoding step really runs.

One token at batch 1 multiplies few numbers, so a step costs what its calls cost: module hooks, einops, views and small
kernels. Here a layer is 5 matrix calls and about 15 small ones; queries and keys turn together, in place, so that keys
and values stay side by side and enter the cache in one copy; the residual sum rides on the matrix product. On the CPU
the matrices lie input-major, which a product with few rows reads a third faster. Equal to `Transformer.hidden` up to
rounding (tests/exact/test_ragged.py). No gradients.

>>> from sparkit.targets.transformer import TransformerConfig
>>> decoder = Decoder(Transformer(TransformerConfig(32, 8, 16, num_layers=2, num_heads=2)))
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from sparkit.targets.transformer import DecoderLayer, Transformer, rms

Attend = Callable[[int, Tensor], Tensor]
"""(layer, qkv [B, (heads + 2 kv) e], queries and keys turned) -> [B, heads e]."""

Turn = tuple[Float[Tensor, "B width"], Float[Tensor, "B width"]]
"""Cosines and signed sines of every coordinate of queries and keys."""


class _Affine(NamedTuple):
    matrix: Tensor  # [in, out]
    bias: Tensor | None


class _Layer(NamedTuple):
    attention_norm: Tensor
    qkv: _Affine
    head_norm: Tensor | None  # [heads + kv, e]: QK-norm of queries and keys together
    out: _Affine
    mlp_norm: Tensor
    gate_up: _Affine
    down: _Affine


class Decoder:
    """Views of a model's weights; changing those in place changes both, `.to` and `.double` need a new one."""

    def __init__(self, model: Transformer) -> None:
        config = model.config
        self.model, self.eps = model, config.norm_eps
        self.layers = [_layer(layer) for layer in model.layers if isinstance(layer, DecoderLayer)]
        self.num_turned = config.num_heads + config.kv_heads  # heads that carry a position
        self.width = self.num_turned * config.head_size
        swap = torch.arange(self.width).view(self.num_turned, 2, -1).flip(1).flatten()
        self.swap = swap.to(model.norm.weight.device)
        self.floor = model.norm.floor_like(model.norm.weight)

    @torch.no_grad()
    def hidden(
        self, tokens: Int[Tensor, " B"], positions: Int[Tensor, " B"], attend: Attend, taps: Sequence[int] = ()
    ) -> tuple[Float[Tensor, "B d"], list[Float[Tensor, "B d"]]]:
        """See `Transformer.hidden`."""
        x: Tensor = self.model.embedding(tokens)
        cos, sin = (part.expand(-1, self.num_turned, -1).flatten(1) for part in self.model.rope(positions))
        tapped = {-1: x}
        for index, layer in enumerate(self.layers):
            x = self._layer(x, (cos, sin), index, layer, attend)
            if index in taps:
                tapped[index] = x
        return x, [tapped[tap] for tap in taps]

    def _layer(self, x: Tensor, rope: Turn, index: int, layer: _Layer, attend: Attend) -> Tensor:
        qkv = _affine(rms(x, layer.attention_norm, self.floor), layer.qkv)
        self._turn(qkv[:, : self.width], rope, layer.head_norm)
        x = _added(x, attend(index, qkv), layer.out)
        gate, up = _affine(rms(x, layer.mlp_norm, self.floor), layer.gate_up).chunk(2, dim=1)
        return _added(x, F.silu(gate).mul_(up), layer.down)

    def _turn(self, x: Float[Tensor, "B width"], rope: Turn, head_norm: Tensor | None) -> None:
        """QK-norm and rotary embedding of queries and keys, in place."""
        if head_norm is not None:
            heads = x.reshape(-1, *head_norm.shape)
            x.copy_(rms(heads, head_norm, self.floor).flatten(1))
        cos, sin = rope
        swapped = x.index_select(1, self.swap)
        x.mul_(cos).addcmul_(swapped, sin)


def _layer(layer: DecoderLayer) -> _Layer:
    attention, mlp = layer.attention, layer.mlp
    norms = (attention.q_norm, attention.k_norm)
    counts = (attention.heads, attention.kv_heads)
    head_norm = [n.weight.expand(c, -1) for n, c in zip(norms, counts, strict=True) if n is not None]
    return _Layer(
        layer.attention_norm.weight,
        _input_major(attention.qkv),
        torch.cat(head_norm) if head_norm else None,
        _input_major(attention.out),
        layer.mlp_norm.weight,
        _input_major(mlp.gate_up),
        _input_major(mlp.down),
    )


def _input_major(linear: nn.Linear) -> _Affine:
    """The transposed matrix; on the CPU the module's own weight is laid out so too, and stays equal to itself."""
    if linear.weight.device.type == "cpu":
        linear.weight.data = linear.weight.data.t().contiguous().t()
    return _Affine(linear.weight.t(), linear.bias)


def _affine(x: Tensor, affine: _Affine) -> Tensor:
    return x.mm(affine.matrix) if affine.bias is None else torch.addmm(affine.bias, x, affine.matrix)


def _added(x: Tensor, change: Tensor, affine: _Affine) -> Tensor:
    x = torch.addmm(x, change, affine.matrix)
    return x if affine.bias is None else x.add_(affine.bias)

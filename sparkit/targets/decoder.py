"""The same decoder as `Transformer`, as plain tensor calls: what a decoding step really runs.

Equal to `Transformer.hidden` up to rounding (tests/exact/test_ragged.py); `sparkit.targets.plain` says what is saved.
No gradients.

>>> from sparkit.targets.transformer import TransformerConfig
>>> decoder = Decoder(Transformer(TransformerConfig(32, 8, 16, num_layers=2, num_heads=2)))
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sparkit.targets.plain import Attend, Plain
from sparkit.targets.transformer import DecoderLayer, Transformer, rms


class Decoder:
    """Made of a model's weights, in part copies: weights that change, in place or by `.to`, need a new one."""

    def __init__(self, model: Transformer) -> None:
        layers = [layer for layer in model.layers if isinstance(layer, DecoderLayer)]
        self.model = model
        self.layers = [Plain(layer.attention, layer.mlp_norm, layer.mlp) for layer in layers]
        self.norms = [layer.attention_norm.weight for layer in layers]
        self.floor = model.norm.floor_like(model.norm.weight)

    @torch.no_grad()
    def hidden(
        self, tokens: Int[Tensor, " B"], positions: Int[Tensor, " B"], attend: Attend, taps: Sequence[int] = ()
    ) -> tuple[Float[Tensor, "B d"], list[Float[Tensor, "B d"]]]:
        """See `Transformer.hidden`."""
        x: Tensor = self.model.embedding(tokens)
        turn = self.layers[0].turn(self.model.rope(positions))
        tapped = {-1: x}
        for index, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            x = layer(x, rms(x, norm, self.floor), turn, index, attend)
            if index in taps:
                tapped[index] = x
        return x, [tapped[tap] for tap in taps]

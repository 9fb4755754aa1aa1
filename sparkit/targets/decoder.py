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

from sparkit.targets.plain import Attend, PlainLayers
from sparkit.targets.transformer import Transformer


class Decoder:
    """Made of a model's weights, in part copies: weights that change, in place or by `.to`, need a new one."""

    def __init__(self, model: Transformer) -> None:
        self.model, self.layers = model, PlainLayers(model.layers, model.norm)

    @torch.no_grad()
    def hidden(
        self, tokens: Int[Tensor, " B"], positions: Int[Tensor, " B"], attend: Attend, taps: Sequence[int] = ()
    ) -> tuple[Float[Tensor, "B d"], list[Float[Tensor, "B d"]]]:
        """See `Transformer.hidden`."""
        return self.layers(self.model.embedding(tokens), self.model.rope(positions), attend, taps)

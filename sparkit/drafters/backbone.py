"""The parallel backbone of DFlash and DSpark: one forward drafts a block, reading the target through its keys.

    H_ctx = RMSNorm(W_c [H^(l1); ...; H^(lm)])                         [DSpark eq. 2], shared by all draft layers
    every layer attends over [W_K H_ctx ; W_K H_d], [W_V H_ctx ; W_V H_d]       [eq. 3], bidirectional in the block

Inputs are the anchor's embedding and mask embeddings (the target's, frozen), at positions anchor, anchor + 1, ...; the
context is every feature strictly before the anchor. DSpark predicts from the anchor's slot on (gamma slots), the
original DFlash at the masks only (gamma + 1 slots). A serial head adds its bias left to right [eq. 4].

Here are the weights and their training form, many anchors of many documents at once. Not done here: decoding
(`sparkit.drafters.block`), reading and writing weights (`sparkit.drafters.layout`), losses (`sparkit.training`).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from sparkit.drafters.blockwise import Blocks, attend_blocks, lay_out
from sparkit.drafters.config import DrafterConfig
from sparkit.drafters.rotary import Rotary, keys_and_values
from sparkit.protocols import HEADS, SerialHead
from sparkit.targets.plain import PlainLayers, input_major
from sparkit.targets.transformer import DecoderLayer, Mix, RMSNorm, Rope, rms, rotate

Embed = Callable[[Int[Tensor, "*N"]], Float[Tensor, "*N d"]]


class Forward(NamedTuple):
    """What the training form of any neural drafter returns."""

    hidden: Float[Tensor, "A gamma d"]  # h_k, after the final norm
    previous_tokens: Int[Tensor, "A gamma"]  # x_{k-1}: the anchor, then the true tokens (teacher forcing)


class BlockBackbone(nn.Module):
    """Context projection, draft layers, final norm."""

    def __init__(self, config: DrafterConfig) -> None:
        super().__init__()
        decoder = config.decoder
        size, eps = decoder.hidden_size, decoder.norm_eps
        self.config, self.rotary = config, Rotary(decoder)
        self.fc = nn.Linear(len(config.feature_layers) * size, size, bias=False)
        self.hidden_norm = RMSNorm(size, eps)
        self.layers = nn.ModuleList(DecoderLayer(decoder) for _ in range(decoder.num_layers))
        self.norm = RMSNorm(size, eps)

    def context(
        self, features: Float[Tensor, "L taps_d"], positions: Int[Tensor, " L"]
    ) -> list[tuple[Float[Tensor, "L kv e"], Float[Tensor, "L kv e"]]]:
        """Keys and values of H_ctx, layer by layer."""
        states = self.hidden_norm(self.fc(features))
        rope = self.rotary(positions, states)
        return [keys_and_values(layer.attention, states, rope) for layer in self.layers]  # type: ignore[arg-type]

    def block(self, inputs: Float[Tensor, "B d"], rope: Rope, mix: Mix) -> Float[Tensor, "B d"]:
        """Hidden states of a flat row of block slots."""
        x = inputs
        for index, layer in enumerate(self.layers):
            x = layer(x, rope, index, mix)
        hidden: Tensor = self.norm(x)
        return hidden

    def plain_context(self) -> "PlainContext":
        """`context` as decoding runs it."""
        return PlainContext(self)

    def plain(self) -> PlainLayers:
        """The layers as decoding runs them."""
        return PlainLayers(self.layers, self.norm)

    def predicted(self, hidden: Float[Tensor, "N slots d"]) -> Float[Tensor, "N gamma d"]:
        """The slots that predict: all of them, or the masks only."""
        return hidden if self.config.sample_from_anchor else hidden[:, 1:]


class PlainContext:
    """`BlockBackbone.context` as decoding runs it: the keys and values of all layers from one product.

    The matrices are copied side by side, so weights that change need a new one (`BlockDrafter.prepare` makes it).
    """

    def __init__(self, backbone: BlockBackbone) -> None:
        decoder, attentions = backbone.config.decoder, [layer.attention for layer in backbone.layers]
        first = decoder.num_heads * decoder.head_size
        self.backbone, self.shape = backbone, (len(attentions), 2, decoder.kv_heads, decoder.head_size)
        self.fc, self.hidden_norm = input_major(backbone.fc.weight.detach()), backbone.hidden_norm.weight
        self.floor = backbone.hidden_norm.floor_like(self.hidden_norm)
        weight = torch.cat([a.qkv.weight[first:] for a in attentions]).detach()  # type: ignore[index, union-attr]
        self.weight = input_major(weight)
        biased = decoder.attention_bias
        self.bias = torch.cat([a.qkv.bias[first:] for a in attentions]).detach() if biased else None  # type: ignore[index, union-attr]
        norms = [a.k_norm.weight for a in attentions] if decoder.qk_norm else []  # type: ignore[union-attr]
        self.norm = torch.stack(norms)[:, None].detach() if norms else None  # type: ignore[arg-type]

    def __call__(
        self, features: Float[Tensor, "L taps_d"], positions: Int[Tensor, " L"]
    ) -> tuple[Float[Tensor, "layers L kv e"], Float[Tensor, "layers L kv e"]]:
        """Keys (normed and rotated) and values of H_ctx."""
        states = rms(F.linear(features, self.fc), self.hidden_norm, self.floor)
        keys, values = F.linear(states, self.weight, self.bias).view(-1, *self.shape).unbind(2)
        if self.norm is not None:
            keys = rms(keys, self.norm, self.floor)
        turned = rotate(keys.flatten(1, 2), self.backbone.rotary(positions, states))
        return turned.view(keys.shape).transpose(0, 1), values.transpose(0, 1)


class BlockNet(nn.Module):
    """Everything of a block drafter that is trained: backbone and serial head."""

    def __init__(self, config: DrafterConfig) -> None:
        super().__init__()
        decoder = config.decoder
        sizes = {"vocab_size": decoder.vocab_size, "rank": config.rank, "hidden_size": decoder.hidden_size}
        self.config, self.backbone = config, BlockBackbone(config)
        self.head: SerialHead = HEADS.create(config.head, **sizes)

    def forward(
        self,
        features: Float[Tensor, "L taps_d"],
        tokens: Int[Tensor, " L"],
        lengths: Sequence[int],
        anchors: Int[Tensor, " A"],
        embed: Embed,
    ) -> Forward:
        """The training form; see `BlockDrafter.forward_blocks`."""
        backbone, slots = self.backbone, self.config.num_slots
        blocks = lay_out(lengths, anchors)
        context = backbone.context(features, positions_of(lengths, features.device))
        ids = torch.full((len(anchors), slots), self.config.mask_id, device=tokens.device)
        ids[:, 0] = tokens[anchors]
        places = (blocks.positions[:, None] + torch.arange(slots, device=tokens.device)).flatten()
        inputs = embed(ids.flatten())
        mix = _training_mix(blocks, slots, context)
        hidden = backbone.block(inputs, backbone.rotary(places, inputs), mix)
        hidden = backbone.predicted(hidden.view(-1, slots, hidden.shape[1]))
        return Forward(hidden, previous_tokens(tokens, anchors, self.config.gamma))


def _training_mix(blocks: Blocks, slots: int, context: Sequence[tuple[Tensor, Tensor]]) -> Mix:
    def mix(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (x.reshape(-1, slots, *x.shape[1:]) for x in (q, k, v))
        return attend_blocks(blocks, q, (k, v), context[layer]).flatten(0, 1)

    return mix


def positions_of(lengths: Sequence[int], device: torch.device | str) -> Int[Tensor, " L"]:
    """Each token's position in its document."""
    return torch.cat([torch.arange(length, device=device) for length in lengths])


def previous_tokens(tokens: Int[Tensor, " L"], anchors: Int[Tensor, " A"], gamma: int) -> Int[Tensor, "A gamma"]:
    """x_0 .. x_{gamma-1} of each block; past the row's end the last token (its loss is masked)."""
    steps = torch.arange(gamma, device=tokens.device)
    return tokens[(anchors[:, None] + steps).clamp(max=len(tokens) - 1)]

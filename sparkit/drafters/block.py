"""A drafter of whole blocks (DFlash, DSpark): keys of the target's features in slots, one forward a block.

`absorb` writes keys and values of H_ctx; `propose` lays the block behind them as scratch, at positions anchor,
anchor + 1, ..., and draws left to right with the serial head's bias. The training form of the same weights, equal to
rounding (tested):

    forward_blocks(features, tokens, lengths, anchors) -> Forward(hidden, previous_tokens)
    block_logits(hidden, previous_tokens), previous_embedding(previous_tokens)
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sparkit.decisions import Decisions, Purpose
from sparkit.drafters.backbone import BlockNet, Forward, PlainContext
from sparkit.drafters.config import DrafterConfig
from sparkit.drafters.matching import allowed_gamma, require_absorbed, require_matching, require_next, shaping
from sparkit.protocols import Anchors, Kind, Span, Target
from sparkit.rounds import Draft
from sparkit.targets.cache import SlotCache
from sparkit.targets.marker import mark
from sparkit.targets.plain import PlainLayers, lay_input_major
from sparkit.targets.ragged import attention, store_layers


class BlockDrafter:
    """See `sparkit.protocols.Drafter`.

    Args:
        config: of the drafter.
        net: its weights, in the precision and on the device of the target.
        target: lends its embedding and LM head.
        gamma: tokens a block at most; None: as many as it was trained for.

    Raises:
        ValueError: if drafter and target do not belong together, or gamma is above what was trained.
    """

    lossless = True

    def __init__(self, config: DrafterConfig, net: BlockNet, target: Target, gamma: int | None = None) -> None:
        require_matching(config, target)
        self.config, self.net, self.target = config, net, target
        self.kind: Kind = "parallel" if config.head == "none" else "semi-autoregressive"
        self.gamma, self.feature_layers = allowed_gamma(config, gamma), config.feature_layers
        self.cache = SlotCache.empty(1, 1, 1, 1, 1)
        self._plain, self._context = _laid_out(net)

    def prepare(self, num_slots: int, max_len: int) -> None:
        """See `Drafter`."""
        decoder, like = self.config.decoder, self.net.backbone.norm.weight
        shape = (decoder.num_layers, num_slots, decoder.kv_heads, max_len, decoder.head_size)
        self.cache = SlotCache.empty(*shape, dtype=like.dtype, device=like.device)
        self._plain, self._context = _laid_out(self.net)

    @torch.no_grad()
    def absorb(self, features: Float[Tensor, "B taps_d"], tokens: Int[Tensor, " B"], spans: Sequence[Span]) -> None:
        """Writes the keys and values of the context features; the tokens themselves are not looked at."""
        require_next(spans, self.cache.lengths)
        marker = mark(spans, device=features.device)
        store_layers(self.cache, marker, *self._context(features, marker.positions))
        for span in spans:
            self.cache.lengths[span.slot] = span.start + span.count

    @torch.no_grad()
    def propose(self, anchors: Anchors, decisions: Decisions) -> Draft:
        """See `Drafter`; the block's keys and values are scratch behind the slot's length."""
        gamma = anchors.spans[0].count
        hidden = self._hidden(anchors, gamma)
        base_logits = self.target.lm_head(hidden)
        tokens, p_draft, previous = self._draw(anchors, decisions, hidden, base_logits)
        return Draft(tokens, p_draft, hidden, self.net.head.previous_embedding(previous))

    def _hidden(self, anchors: Anchors, gamma: int) -> Float[Tensor, "R gamma d"]:
        backbone, config = self.net.backbone, self.config
        slots = gamma if config.sample_from_anchor else gamma + 1
        require_absorbed(anchors.spans, self.cache.lengths)
        marker = mark(
            [Span(slot, start, slots) for slot, start, _ in anchors.spans],
            device=anchors.tokens.device,
            bidirectional=True,
        )
        ids = anchors.tokens.new_full((len(anchors.tokens), slots), config.mask_id)
        ids[:, 0] = anchors.tokens
        inputs = self.target.embed(ids.flatten())
        attend = attention(self.cache, marker, config.decoder.num_heads)
        hidden, _ = self._plain(inputs, backbone.rotary(marker.positions, inputs), attend)
        return backbone.predicted(self._plain.normed(hidden).view(-1, slots, hidden.shape[1]))

    def _draw(
        self,
        anchors: Anchors,
        decisions: Decisions,
        hidden: Float[Tensor, "R gamma d"],
        base_logits: Float[Tensor, "R gamma V"],
    ) -> tuple[Int[Tensor, "R gamma"], Float[Tensor, "R gamma V"], Int[Tensor, "R gamma"]]:
        """Left to right: x_k ~ softmax(U_k + B_k(x_{k-1})) [eq. 4]; laws, tokens, and the tokens before them."""
        head, law_of, previous = self.net.head, shaping(anchors), [anchors.tokens]
        state, laws = head.start(anchors.tokens), []
        states = hidden.unbind(1)
        for k, logits in enumerate(base_logits.unbind(1)):
            bias, state = head.step(state, previous[-1], states[k])
            law = law_of(logits if bias is None else logits + bias, previous[1:])
            laws.append(law)
            previous.append(decisions.draw(law, Purpose.DRAFT, k + 1))
        drawn = torch.stack(previous, dim=1)
        return drawn[:, 1:], torch.stack(laws, dim=1), drawn[:, :-1]

    def forget(self, slot: int) -> None:
        """See `Drafter`."""
        self.cache.lengths[slot] = 0

    def save(self) -> SlotCache:
        """See `Drafter`."""
        return self.cache.clone()

    def load(self, state: SlotCache) -> None:
        """See `Drafter`."""
        self.cache = state.clone()

    def forward_blocks(
        self,
        features: Float[Tensor, "L taps_d"],
        tokens: Int[Tensor, " L"],
        lengths: Sequence[int],
        anchors: Int[Tensor, " A"],
    ) -> Forward:
        """Blocks of gamma positions at many anchors at once, with gradients.

        Args:
            features: of whole documents, one after the other, in `feature_layers` order.
            tokens: of the same rows.
            lengths: tokens of each document; positions begin at 0 in each.
            anchors: ascending flat rows; a block sees features of its document before its anchor, and itself.
        """
        out: Forward = self.net(features, tokens, lengths, anchors, self.target.embed)
        return out

    def block_logits(
        self, hidden: Float[Tensor, "N gamma d"], previous_tokens: Int[Tensor, "N gamma"]
    ) -> Float[Tensor, "N gamma V"]:
        """U_k + B_k at known previous tokens; N may be a part of the blocks."""
        logits, bias = self.target.lm_head(hidden), self.net.head.block(previous_tokens, hidden)
        return logits if bias is None else logits + bias

    def previous_embedding(self, previous_tokens: Int[Tensor, "N gamma"]) -> Float[Tensor, "N gamma r"] | None:
        """W1[x_{k-1}] for the confidence head."""
        return self.net.head.previous_embedding(previous_tokens)


def _laid_out(net: BlockNet) -> tuple[PlainLayers, PlainContext]:
    """Layers and context as decoding runs them; the head's own layers lie as few rows read them best."""
    lay_input_major(net)
    return net.backbone.plain(), net.backbone.plain_context()

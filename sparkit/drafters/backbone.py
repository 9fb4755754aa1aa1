"""The parallel backbone of DFlash and DSpark: one forward drafts a block, reading the target through its keys.

    H_ctx = RMSNorm(W_c [H^(l1); ...; H^(lm)])                         [DSpark eq. 2], shared by all draft layers
    every layer attends over [W_K H_ctx ; W_K H_d], [W_V H_ctx ; W_V H_d]       [eq. 3], bidirectional in the block

Inputs are the anchor's embedding and mask embeddings (the target's, frozen), at positions anchor, anchor + 1, ...; the
context is every feature strictly before the anchor. DSpark predicts from the anchor's slot on (gamma slots), the
original DFlash at the masks only (gamma + 1 slots). A serial head adds its bias left to right [eq. 4].

Two forms of the same weights, equal to rounding (tested):

    BlockDrafter.absorb / propose                 decoding: keys of H_ctx in slots, one block a request
    BlockDrafter.forward_blocks(features, tokens, lengths, anchors) -> Forward(hidden, previous_tokens)
    BlockDrafter.block_logits(hidden, previous_tokens)               training: many anchors of many documents

Not done here: reading and writing weights (`sparkit.drafters.layout`), losses (`sparkit.training`).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from sparkit.decisions import Decisions, Purpose
from sparkit.drafters.blockwise import Blocks, attend_blocks, lay_out
from sparkit.drafters.config import DrafterConfig
from sparkit.drafters.plain import Attend, Plain
from sparkit.drafters.rotary import Rotary, keys_and_values
from sparkit.protocols import HEADS, Anchors, Kind, SerialHead, Span, Target
from sparkit.rounds import Draft
from sparkit.sampling import probs
from sparkit.targets.cache import SlotCache
from sparkit.targets.ragged import attention, mark, store
from sparkit.targets.transformer import DecoderLayer, Mix, RMSNorm, Rope

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

    def plain(self) -> list[Plain]:
        """The layers as decoding runs them."""
        return [Plain(layer.attention, layer.mlp_norm, layer.mlp) for layer in self.layers]  # type: ignore[arg-type]

    def plain_block(
        self, inputs: Float[Tensor, "B d"], rope: Rope, plain: Sequence[Plain], attend: Attend
    ) -> Float[Tensor, "B d"]:
        """`block` on plain layers."""
        x, turn = inputs, plain[0].turn(rope)
        for index, (layer, one) in enumerate(zip(self.layers, plain, strict=True)):
            x = one(x, layer.attention_norm(x), turn, index, attend)  # type: ignore[operator]
        hidden: Tensor = self.norm(x)
        return hidden

    def predicted(self, hidden: Float[Tensor, "N slots d"]) -> Float[Tensor, "N gamma d"]:
        """The slots that predict: all of them, or the masks only."""
        return hidden if self.config.sample_from_anchor else hidden[:, 1:]


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
        self.cache, self._plain = SlotCache.empty(1, 1, 1, 1, 1), net.backbone.plain()

    def prepare(self, num_slots: int, max_len: int) -> None:
        """See `Drafter`."""
        decoder, like = self.config.decoder, self.net.backbone.norm.weight
        shape = (decoder.num_layers, num_slots, decoder.kv_heads, max_len, decoder.head_size)
        self.cache = SlotCache.empty(*shape, dtype=like.dtype, device=like.device)
        self._plain = self.net.backbone.plain()

    @torch.no_grad()
    def absorb(self, features: Float[Tensor, "B taps_d"], tokens: Int[Tensor, " B"], spans: Sequence[Span]) -> None:
        """Writes the keys and values of the context features; the tokens themselves are not looked at."""
        require_next(spans, self.cache.lengths)
        marker = mark(spans, device=features.device)
        for layer, (k, v) in enumerate(self.net.backbone.context(features, marker.positions)):
            store(self.cache, layer, marker, k, v)
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
        hidden = backbone.plain_block(inputs, backbone.rotary(marker.positions, inputs), self._plain, attend)
        return backbone.predicted(hidden.view(-1, slots, hidden.shape[1]))

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


def shaping(anchors: Anchors) -> Callable[[Tensor, Sequence[Tensor]], Tensor]:
    """`Anchors.law`, with its search for common parameters done once a block instead of once a token."""
    first = anchors.params[0]
    if anchors.history is not None or any(params != first for params in anchors.params):
        return anchors.law
    return lambda logits, _drafted: probs(logits, first)


def require_matching(config: DrafterConfig, target: Target) -> None:
    """A `ValueError` when a drafter was made for another target."""
    decoder = config.decoder
    for name, given, wanted in (
        ("vocabulary", decoder.vocab_size, target.vocab_size),
        ("hidden size", decoder.hidden_size, target.hidden_size),
        ("number of target layers", config.num_target_layers, target.num_layers),
    ):
        if given != wanted:
            raise ValueError(
                f"drafter {config.algorithm}: {name} {given}, the target has {wanted}; it was made for another target"
            )


def allowed_gamma(config: DrafterConfig, gamma: int | None) -> int:
    """The block length asked for, at most the trained one."""
    wanted = config.gamma if gamma is None else gamma
    if not 1 <= wanted <= config.gamma:
        raise ValueError(f"gamma={wanted}: this {config.algorithm} drafter was trained for 1..{config.gamma}")
    return wanted


def require_next(spans: Sequence[Span], lengths: Sequence[int]) -> None:
    """A `ValueError` for features that do not go on where a slot ends."""
    for span in spans:
        if span.start != lengths[span.slot]:
            raise ValueError(f"absorb: {span} does not go on at position {lengths[span.slot]}, where its slot ends")


def require_absorbed(spans: Sequence[Span], lengths: Sequence[int]) -> None:
    """A `ValueError` for an anchor whose past has not been absorbed up to it (a stale or a misplaced draft)."""
    for span in spans:
        if span.start != lengths[span.slot]:
            raise ValueError(
                f"propose: the anchor of slot {span.slot} is at position {span.start}, but features of "
                f"{lengths[span.slot]} positions are absorbed; absorb every position before the anchor first"
            )

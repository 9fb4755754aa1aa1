"""Autoregressive drafting with one layer on the target's own features (Eagle3, MTP): the output is the next input.

    pair (feature of position i, embedding of token i + 1) at rotary position i; the chain goes on with its own output

`absorb` writes keys and values of pairs made of the TARGET's features; the chain of a proposal lies behind them as
scratch and is overwritten when the committed tokens come, so keys of guessed features never survive. The pair of the
anchor is the chain's first step: its feature is the last one absorbed.

Two forms of the same weights, equal to rounding (tested): `absorb` / `propose` on slots, and `forward_blocks`, the
chain unrolled on its own outputs at many anchors at once (training-time test). A document's first token is no anchor.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from sparkit.decisions import Decisions, Purpose
from sparkit.drafters.backbone import (
    Embed,
    Forward,
    allowed_gamma,
    positions_of,
    previous_tokens,
    require_absorbed,
    require_matching,
    require_next,
    shaping,
)
from sparkit.drafters.blockwise import Blocks, attend_blocks, lay_out
from sparkit.drafters.config import DrafterConfig
from sparkit.drafters.plain import Plain
from sparkit.drafters.rotary import Rotary, keys_and_values
from sparkit.drafters.scratch import Chain
from sparkit.drafters.vocabulary import spread, target_ids
from sparkit.protocols import Anchors, Kind, Span, Target
from sparkit.rounds import Draft
from sparkit.targets.cache import SlotCache
from sparkit.targets.ragged import mark, store
from sparkit.targets.transformer import Attention, Mix, RMSNorm, Rope, SwiGLU


class Entry(NamedTuple):
    """A pair on its way into the layer."""

    residual: Float[Tensor, "B d"]
    attended: Float[Tensor, "B size"]  # what queries, keys and values are made of


@runtime_checkable
class Link(Protocol):
    """The one layer of a chain; an `nn.Module` as well."""

    attention: Attention
    mlp_norm: RMSNorm
    mlp: SwiGLU
    norm: RMSNorm  # before the LM head

    def project(self, taps: Float[Tensor, "B taps_d"]) -> Float[Tensor, "B d"]:
        """Target taps as a feature."""
        ...

    def enter(self, feature: Float[Tensor, "B d"], embedded: Float[Tensor, "B d"]) -> Entry:
        """Feature of position i and embedding of token i + 1."""
        ...


class ChainNet(nn.Module):
    """Everything of a chain drafter that is trained; with a reduced vocabulary a head of its own and its id map."""

    d2t: Tensor | None

    def __init__(self, config: DrafterConfig, link: Any) -> None:
        super().__init__()
        decoder, size = config.decoder, config.draft_vocab_size
        self.config, self.rotary = config, Rotary(decoder)
        self.link: Any = link  # a `Link` that is a module
        self.lm_head = None if size is None else nn.Linear(decoder.hidden_size, size, bias=False)
        self.register_buffer("d2t", None if size is None else torch.zeros(size, dtype=torch.int64))

    def step(self, feature: Tensor, embedded: Tensor, rope: Rope, mix: Mix) -> Float[Tensor, "B d"]:
        """One link of the chain."""
        entry = self.link.enter(feature, embedded)
        x = entry.residual + self.link.attention(entry.attended, rope, 0, mix)
        out: Tensor = x + self.link.mlp(self.link.mlp_norm(x))
        return out

    def plain(self) -> Plain:
        """The layer as decoding runs it."""
        return Plain(self.link.attention, self.link.mlp_norm, self.link.mlp)

    def keys(
        self, feature: Tensor, embedded: Tensor, positions: Int[Tensor, " B"]
    ) -> tuple[Float[Tensor, "B kv e"], Float[Tensor, "B kv e"]]:
        """Keys and values of pairs."""
        entry = self.link.enter(feature, embedded)
        return keys_and_values(self.link.attention, entry.attended, self.rotary(positions, feature))

    def forward(
        self,
        features: Float[Tensor, "L taps_d"],
        tokens: Int[Tensor, " L"],
        lengths: Sequence[int],
        anchors: Int[Tensor, " A"],
        embed: Embed,
    ) -> Forward:
        """The training form; see `ChainDrafter.forward_blocks`."""
        blocks = lay_out(lengths, anchors, owed=1)
        if bool((blocks.positions < 1).any()):
            raise ValueError("anchors: the first token of a document has no feature before it and is no anchor")
        feature = self.link.project(features)
        following = torch.cat((tokens[1:], tokens[-1:]))  # a document's last row has no pair; nothing ever sees it
        context = self.keys(feature, embed(following), positions_of(lengths, tokens.device))
        previous = previous_tokens(tokens, anchors, self.config.gamma)
        state, hidden, mix = feature[anchors - 1], [], _training_mix(blocks, context)
        for k, embedded in enumerate(embed(previous).unbind(1)):
            state = self.step(state, embedded, self.rotary(blocks.positions - 1 + k, state), mix)
            hidden.append(self.link.norm(state))
        return Forward(torch.stack(hidden, dim=1), previous)


def _training_mix(blocks: Blocks, context: tuple[Tensor, Tensor]) -> Mix:
    keys: list[Tensor] = []
    values: list[Tensor] = []

    def mix(_layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        keys.append(k)
        values.append(v)
        own = (torch.stack(keys, dim=1), torch.stack(values, dim=1))
        return attend_blocks(blocks, q[:, None], own, context)[:, 0]

    return mix


@dataclass(frozen=True, slots=True)
class ChainState:
    """Slots of a chain drafter."""

    cache: SlotCache  # row i: the pair of position i; `lengths` counts absorbed positions, one more than pairs
    last: Float[Tensor, "slots d"]  # the feature of the last absorbed position

    def copy(self) -> "ChainState":
        """An independent copy."""
        return ChainState(self.cache.clone(), self.last.clone())


class ChainDrafter:
    """See `sparkit.protocols.Drafter` and `sparkit.drafters.backbone.BlockDrafter` for the arguments."""

    lossless = True
    kind: Kind = "autoregressive"

    def __init__(self, config: DrafterConfig, net: ChainNet, target: Target, gamma: int | None = None) -> None:
        require_matching(config, target)
        self.config, self.net, self.target = config, net, target
        self.gamma, self.feature_layers = allowed_gamma(config, gamma), config.feature_layers
        self.ids = None
        if config.draft_vocab_size is not None:
            self.ids = target_ids(net.d2t, target.vocab_size, config.draft_vocab_size)
        self.state, self._plain = ChainState(SlotCache.empty(1, 1, 1, 1, 1), torch.zeros(1, 1)), net.plain()

    def prepare(self, num_slots: int, max_len: int) -> None:
        """See `Drafter`."""
        decoder, like = self.config.decoder, self.net.link.norm.weight
        shape = (1, num_slots, decoder.kv_heads, max_len, decoder.head_size)
        cache = SlotCache.empty(*shape, dtype=like.dtype, device=like.device)
        self.state = ChainState(cache, like.new_zeros(num_slots, decoder.hidden_size))
        self._plain = self.net.plain()

    @torch.no_grad()
    def absorb(self, features: Float[Tensor, "B taps_d"], tokens: Int[Tensor, " B"], spans: Sequence[Span]) -> None:
        """Writes the keys and values of the pairs that the new positions complete, and keeps the last features."""
        cache, last = self.state.cache, self.state.last
        require_next(spans, cache.lengths)
        feature = self.net.link.project(features)
        slots = torch.tensor([s.slot for s in spans], device=feature.device)
        first, end = _ends(spans, feature.device)
        before = torch.cat((last[:1], feature[:-1]))  # the feature one position earlier, row by row
        before[first] = last[slots]
        last[slots] = feature[end]
        self._store_pairs(before, tokens, spans)
        for span in spans:
            cache.lengths[span.slot] = span.start + span.count

    def _store_pairs(self, before: Float[Tensor, "B d"], tokens: Int[Tensor, " B"], spans: Sequence[Span]) -> None:
        """Position 0 has nothing before it and makes no pair."""
        pairs = [Span(s.slot, s.start - 1, s.count) if s.start else Span(s.slot, 0, s.count - 1) for s in spans]
        pairs = [pair for pair in pairs if pair.count]
        if not pairs:
            return
        if any(span.start == 0 for span in spans):
            kept = [int(s.start + i > 0) for s in spans for i in range(s.count)]
            rows = torch.tensor(kept, dtype=torch.bool, device=tokens.device)
            before, tokens = before[rows], tokens[rows]
        marker = mark(pairs, device=tokens.device)
        store(self.state.cache, 0, marker, *self.net.keys(before, self.target.embed(tokens), marker.positions))

    @torch.no_grad()
    def propose(self, anchors: Anchors, decisions: Decisions) -> Draft:
        """See `Drafter`."""
        require_absorbed(anchors.spans, self.state.cache.lengths)
        link, law_of = self.net.link, shaping(anchors)
        slots = torch.tensor([span.slot for span in anchors.spans], device=anchors.tokens.device)
        feature, drawn, laws, hidden = self.state.last[slots], [anchors.tokens], [], []
        for k, step in enumerate(self._steps(anchors)):
            feature = step(feature, self.target.embed(drawn[-1]))
            hidden.append(link.norm(feature))
            laws.append(law_of(self.logits(hidden[-1]), drawn[1:]))
            drawn.append(decisions.draw(laws[-1], Purpose.DRAFT, k + 1))
        return Draft(torch.stack(drawn[1:], dim=1), torch.stack(laws, dim=1), torch.stack(hidden, dim=1))

    def _steps(self, anchors: Anchors) -> Iterator[Callable[[Tensor, Tensor], Tensor]]:
        """The links of one block: (feature, embedding of the next token) -> next feature."""
        plain, link, count = self._plain, self.net.link, anchors.spans[0].count
        spans = [Span(slot, start - 1, count) for slot, start, _ in anchors.spans]
        chain = Chain(self.state.cache, spans, self.config.decoder.num_heads)
        rope = self.net.rotary(chain.positions(count).flatten(), self.state.last)
        cosines, sines = (part.view(count, len(spans), -1) for part in plain.turn(rope))

        def step(k: int, feature: Tensor, embedded: Tensor) -> Tensor:
            entry = link.enter(feature, embedded)
            return plain(entry.residual, entry.attended, (cosines[k], sines[k]), k, chain.attend)

        return (partial(step, k) for k in range(count))

    def logits(self, hidden: Float[Tensor, "*N d"]) -> Float[Tensor, "*N V"]:
        """Logits over the target's vocabulary."""
        if self.ids is None or self.net.lm_head is None:
            return self.target.lm_head(hidden)
        return spread(self.net.lm_head(hidden), self.ids, self.target.vocab_size)

    def forget(self, slot: int) -> None:
        """See `Drafter`."""
        self.state.cache.lengths[slot] = 0

    def save(self) -> ChainState:
        """See `Drafter`."""
        return self.state.copy()

    def load(self, state: ChainState) -> None:
        """See `Drafter`."""
        self.state = state.copy()

    def forward_blocks(
        self,
        features: Float[Tensor, "L taps_d"],
        tokens: Int[Tensor, " L"],
        lengths: Sequence[int],
        anchors: Int[Tensor, " A"],
    ) -> Forward:
        """The chain unrolled for gamma steps at many anchors; arguments as for `BlockDrafter.forward_blocks`.

        Raises:
            ValueError: for an anchor that is the first token of its document.
        """
        out: Forward = self.net(features, tokens, lengths, anchors, self.target.embed)
        return out

    def block_logits(
        self, hidden: Float[Tensor, "N gamma d"], previous_tokens: Int[Tensor, "N gamma"]
    ) -> Float[Tensor, "N gamma V"]:
        """The logits of every step."""
        return self.logits(hidden)

    def previous_embedding(self, previous_tokens: Int[Tensor, "N gamma"]) -> None:
        """A chain has no Markov table."""


def _ends(spans: Sequence[Span], device: torch.device | str) -> tuple[Int[Tensor, " S"], Int[Tensor, " S"]]:
    """The flat rows of each span's first and last token."""
    counts = torch.tensor([span.count for span in spans], device=device)
    end = counts.cumsum(0) - 1
    return end - counts + 1, end

"""A drafter that chains one layer token by token (Eagle3, MTP), over keys made of the target's features.

`absorb` writes keys and values of pairs (feature of position i, token i + 1); the chain of a proposal lies behind them
as scratch and is overwritten when the committed tokens come, so keys of guessed features never survive. The pair of
the anchor is the chain's first step: its feature is the last one absorbed. `forward_blocks` is the training form of
the same weights, equal to rounding (tested).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sparkit.decisions import Decisions, Purpose
from sparkit.drafters.backbone import Forward
from sparkit.drafters.config import DrafterConfig
from sparkit.drafters.link import ChainNet
from sparkit.drafters.matching import allowed_gamma, require_absorbed, require_matching, require_next, shaping
from sparkit.drafters.scratch import Chain
from sparkit.drafters.vocabulary import spread, target_ids
from sparkit.protocols import Anchors, Kind, Span, Target
from sparkit.rounds import Draft
from sparkit.targets.cache import SlotCache
from sparkit.targets.marker import mark
from sparkit.targets.ragged import store


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
            hidden.append(link.norm.forward(feature))
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

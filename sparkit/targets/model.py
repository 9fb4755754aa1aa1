"""A `Target` over our own transformer: ragged forward on a slot cache, feature taps, logits at the asked rows.

    tokens [B] as spans  ->  decoder layers on the flat row, attention by slot  ->  logits [N, V], features [B, taps d]

Weights come from `sparkit.targets.loaders`; nothing is drawn here.

>>> from sparkit.targets.transformer import TransformerConfig
>>> target = TransformerTarget(Transformer(TransformerConfig(32, 8, 16, num_layers=2, num_heads=2)))
>>> cache = target.new_cache(num_slots=1, max_len=16)
>>> target.forward(torch.tensor([3, 1, 4]), [Span(slot=0, start=0, count=3)], cache).logits.shape
torch.Size([3, 32])
"""

from collections.abc import Sequence
from copy import copy

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from sparkit.protocols import Span, TargetOutput
from sparkit.targets.cache import SlotCache
from sparkit.targets.decoder import Decoder
from sparkit.targets.marker import Marker, mark
from sparkit.targets.plain import LARGE, Attend, input_major, multiplied
from sparkit.targets.ragged import attention
from sparkit.targets.transformer import Transformer


class TransformerTarget:
    """See `sparkit.protocols.Target`.

    Args:
        model: the weights, already in the precision and on the device they run in; gradients are switched off.
        taps: decoder layers whose outputs `forward` returns; -1 is the embedding.
        name: what it is called in messages.
    """

    def __init__(self, model: Transformer, *, taps: Sequence[int] = (), name: str = "transformer") -> None:
        config = model.config
        require_taps(taps, config.num_layers, name)
        self.model, self.name = model.eval().requires_grad_(False), name
        self.vocab_size, self.hidden_size = config.vocab_size, config.hidden_size
        self.num_layers, self.max_positions = config.num_layers, config.max_positions
        self.eos_ids = config.eos_ids
        self.decoder = Decoder(self.model)
        head = model.lm_head.weight.detach()  # may be the embedding too, which is read by rows: a copy
        self._lm_head = input_major(head) if head.numel() <= LARGE else head
        self.feature_layers = tuple(taps)
        self.device, self.dtype = model.norm.weight.device, model.norm.weight.dtype

    def with_taps(self, taps: Sequence[int]) -> "TransformerTarget":
        """The same weights, laid out once, with other features.

        Raises:
            ValueError: naming the layer that does not exist.
        """
        require_taps(taps, self.num_layers, self.name)
        other = copy(self)
        other.feature_layers = tuple(taps)
        return other

    def embed(self, tokens: Int[Tensor, "*N"]) -> Float[Tensor, "*N d"]:
        """Token embeddings."""
        return F.embedding(tokens, self.model.embedding.weight)

    def lm_head(self, hidden: Float[Tensor, "*N d"]) -> Float[Tensor, "*N V"]:
        """The output matrix alone."""
        return multiplied(hidden, self._lm_head)

    def new_cache(self, num_slots: int, max_len: int) -> SlotCache:
        """Empty slots of `max_len` positions each."""
        config = self.model.config
        shape = (config.num_layers, num_slots, config.kv_heads, max_len, config.head_size)
        return SlotCache.empty(*shape, dtype=self.dtype, device=self.device)

    @torch.no_grad()
    def forward(
        self, tokens: Int[Tensor, " B"], spans: Sequence[Span], cache: SlotCache, rows: Int[Tensor, " N"] | None = None
    ) -> TargetOutput:
        """Processes a flat row and moves the cache lengths on.

        Raises:
            ValueError: for a span that does not continue its slot, or runs past the cache or the model's positions.
        """
        require_continuing(spans, cache.lengths, min(cache.max_len, self.max_positions))
        marker = mark(spans, device=self.device)
        hidden, tapped = self.decoder.hidden(
            tokens, marker.positions, self._attention(spans, cache, marker), taps=self.feature_layers
        )
        for span in spans:
            cache.lengths[span.slot] = span.start + span.count
        logits = self.lm_head(self.model.norm(hidden if rows is None else hidden[rows]))
        return TargetOutput(logits, torch.cat(tapped, dim=-1) if tapped else hidden[:, :0])

    def _attention(self, spans: Sequence[Span], cache: SlotCache, marker: Marker) -> Attend:
        config = self.model.config
        if config.sliding_window is None or not config.sliding_layers:
            return attention(cache, marker, config.num_heads)
        near = mark(spans, device=self.device, window=config.sliding_window)
        return attention(cache, marker, config.num_heads, dict.fromkeys(config.sliding_layers, near))


def require_taps(taps: Sequence[int], num_layers: int, name: str) -> None:
    """A `ValueError` for a feature layer that the target does not have."""
    for tap in taps:
        if not -1 <= tap < num_layers:
            raise ValueError(
                f"feature layer {tap}: target {name} has decoder layers 0..{num_layers - 1} (and -1, the embedding); "
                "layer k here is hidden_states[k + 1] of the transformers library"
            )


def require_continuing(spans: Sequence[Span], lengths: Sequence[int], max_len: int) -> None:
    """A `ValueError` for a span that does not start where its slot ends, or runs past the slot."""
    for slot, start, count in spans:
        if start != lengths[slot] or start + count > max_len:
            raise ValueError(
                f"span (slot={slot}, start={start}, count={count}): the slot holds {lengths[slot]} of at most "
                f"{max_len} positions; a span starts where its slot ends"
            )

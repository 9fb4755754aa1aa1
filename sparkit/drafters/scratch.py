"""Attention of a chain: one token a request and step, over the slot's keys and the chain's own, which are scratch.

Everything that does not change from step to step is cut once a proposal: views of the slots in use, the rows written
to, cosines and sines, and one mask for all steps. Slots that do not lie side by side are read through a copy.

>>> cache = SlotCache.empty(1, 2, 1, 8, 4)
>>> Chain(cache, [Span(slot=1, start=3, count=2)], 2).num_requests
1
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from sparkit.protocols import Span
from sparkit.targets.cache import SlotCache


class Chain:
    """Step k of request r lies at cache row start_r + k and sees every row up to it.

    Args:
        cache: one layer.
        spans: slot, first row and number of steps of each request; the counts agree.
        num_heads: query heads, a multiple of the cache's.
    """

    def __init__(self, cache: SlotCache, spans: Sequence[Span], num_heads: int) -> None:
        slots, starts, device = [s.slot for s in spans], [s.start for s in spans], cache.stack.device
        count, self.num_requests = spans[0].count, len(spans)
        self._num_heads, self._longest = num_heads, max(starts) + 1
        lo, hi = slots[0], slots[0] + len(slots)
        held = cache.stack[0][:, lo:hi] if slots == list(range(lo, hi)) else cache.stack[0][:, slots]  # a copy
        self._held = held.transpose(0, 2)[: self._longest + count - 1]  # [len, slots, 2, kv, e]
        self._keys, self._values = (held[part].transpose(1, 2) for part in (0, 1))
        self._starts = torch.tensor(starts, device=device)
        self._rows = torch.arange(len(slots), device=device)
        self._first = starts[0] if len(set(starts)) == 1 else None
        self._mask = None if self._first is not None else self._masks(count)

    def _masks(self, count: int) -> Float[Tensor, "steps R 1 1 len"]:
        """0 where a row is visible at a step, -inf elsewhere."""
        rows = torch.arange(self._longest + count - 1, device=self._starts.device)
        steps = torch.arange(count, device=self._starts.device)
        hidden = rows > (self._starts + steps[:, None])[..., None]
        zeros = torch.zeros(hidden.shape, dtype=self._held.dtype, device=hidden.device)
        return zeros.masked_fill_(hidden, -torch.inf)[:, :, None, None]

    def positions(self, count: int) -> Int[Tensor, "steps R"]:
        """The row of every step."""
        return self._starts + torch.arange(count, device=self._starts.device)[:, None]

    def attend(self, step: int, qkv: Float[Tensor, "R width"]) -> Float[Tensor, "R heads_e"]:
        """Writes a step's keys and values and attends."""
        kv, size = self._held.shape[3:]
        width, length = self._num_heads * size, self._longest + step
        new = qkv[:, width:].view(-1, 2, kv, size)
        if self._first is not None:
            self._held[self._first + step].copy_(new)
        else:
            self._held[self._starts + step, self._rows] = new
        queries = qkv[:, :width].view(self.num_requests, kv, -1, size)
        mask = None if self._mask is None else self._mask[step, ..., :length]
        keys, values = self._keys[:, :, :length], self._values[:, :, :length]
        return F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask).reshape(self.num_requests, width)

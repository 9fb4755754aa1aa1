"""A step is one flat row of tokens; a marker says which request and position each token belongs to.

Dense layers run on the flat row, so a step costs what B = sum(1 + verify_len) costs; only attention looks at the
marker (design section 2). Attention works on a *view* of the slots in use, never on a copy of the cache: slots are
handed out lowest first, so the requests of a step nearly always occupy one contiguous range.

>>> marker = mark([Span(slot=0, start=5, count=3)])
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from sparkit.protocols import Span
from sparkit.targets.cache import SlotCache

LONG_SPAN = 24
"""Spans longer than this (prefill chunks) attend on their own, so that they do not pad everybody's queries."""


@dataclass(frozen=True, slots=True)
class Group:
    """Requests whose attention runs in one call: slots lo..hi, queries padded to `width` a slot."""

    lo: int
    hi: int
    width: int
    key_len: int
    first: int  # flat index of the group's first token
    last: int  # one past its last
    scatter: Int[Tensor, " n"] | None  # flat token -> row of the padded queries; None when nothing is padded
    mask: Bool[Tensor, "slots 1 width key_len"] | None  # None: every key is visible


@dataclass(frozen=True, slots=True)
class Marker:
    """Where every token of a flat row belongs."""

    spans: tuple[Span, ...]
    slots: Int[Tensor, " B"]
    positions: Int[Tensor, " B"]
    groups: tuple[Group, ...]
    rows: Int[Tensor, " N"] | None = field(default=None)  # flat rows whose logits are asked; None: all

    @property
    def num_tokens(self) -> int:
        """B, the tokens in the row."""
        return int(self.positions.shape[0])


def _positions(spans: Sequence[Span], device: torch.device | str) -> Int[Tensor, " B"]:
    if len(spans) == 1:
        return torch.arange(spans[0].start, spans[0].start + spans[0].count, device=device)
    flat = [p for span in spans for p in range(span.start, span.start + span.count)]
    return torch.tensor(flat, dtype=torch.int64, device=device)


def _slots(spans: Sequence[Span], device: torch.device | str) -> Int[Tensor, " B"]:
    if len(spans) == 1:
        return torch.full((spans[0].count,), spans[0].slot, dtype=torch.int64, device=device)
    return torch.tensor([s.slot for s in spans for _ in range(s.count)], dtype=torch.int64, device=device)


def _group(
    spans: Sequence[Span], first: int, device: torch.device | str, *, bidirectional: bool, window: int | None
) -> Group:
    lo, hi = min(s.slot for s in spans), max(s.slot for s in spans) + 1
    width = max(s.count for s in spans)
    key_len = max(s.start + s.count for s in spans)
    size = sum(s.count for s in spans)
    in_order = [s.slot for s in spans] == list(range(lo, hi))
    scatter = None
    if not (in_order and all(s.count == width for s in spans)):
        flat = [(s.slot - lo) * width + i for s in spans for i in range(s.count)]
        scatter = torch.tensor(flat, dtype=torch.int64, device=device)
    mask = _mask(spans, lo, hi, width, key_len, device, bidirectional=bidirectional, window=window)
    return Group(lo, hi, width, key_len, first, first + size, scatter, mask)


def _mask(
    spans: Sequence[Span],
    lo: int,
    hi: int,
    width: int,
    key_len: int,
    device: torch.device | str,
    *,
    bidirectional: bool,
    window: int | None,
) -> Bool[Tensor, "slots 1 width key_len"] | None:
    every_key = all(s.start + s.count == key_len for s in spans) and (bidirectional or width == 1)
    if every_key and window is None and len(spans) == hi - lo:
        return None
    starts, ends = [0] * (hi - lo), [1] * (hi - lo)  # an idle slot sees key 0: a row without any key would be nan
    for span in spans:
        starts[span.slot - lo], ends[span.slot - lo] = span.start, span.start + span.count
    start = torch.tensor(starts, device=device)[:, None, None]
    end = torch.tensor(ends, device=device)[:, None, None]
    query = start + torch.arange(width, device=device)[None, :, None]
    key = torch.arange(key_len, device=device)[None, None, :]
    seen = (key < end).expand(-1, width, -1) if bidirectional else (key <= query)
    if window is not None:
        # Padded queries may lie past the window; they keep key 0 so that no row is empty.
        seen = seen & ((key > query - window) | ((key == 0) & (query >= end)))
    return seen[:, None]


def mark(
    spans: Sequence[Span],
    *,
    device: torch.device | str = "cpu",
    rows: Int[Tensor, " N"] | None = None,
    bidirectional: bool = False,
    window: int | None = None,
) -> Marker:
    """Lays out the spans one after the other, in the order given; all tokens of a slot must be in one span.

    Args:
        spans: what each request brings; every count at least 1, slots distinct.
        device: where the index tensors live.
        rows: flat rows whose logits are wanted; None means all.
        bidirectional: tokens of a span see each other both ways (draft blocks) instead of causally.
        window: sliding window in positions, or None.

    Raises:
        ValueError: for an empty step, an empty span, or two spans of one slot.
    """
    if not spans or any(s.count < 1 for s in spans):
        raise ValueError(f"mark(spans={list(spans)!r}): expected at least one span and every count >= 1")
    if len({s.slot for s in spans}) != len(spans):
        raise ValueError(f"mark(spans={list(spans)!r}): two spans share a slot; merge them into one")
    groups: list[Group] = []
    first, run = 0, []  # short spans side by side share a group, each long span has its own
    for span in [*spans, None]:
        if span is not None and span.count <= LONG_SPAN:
            run.append(span)
            continue
        for members in ([run] if run else []) + ([[span]] if span is not None else []):
            groups.append(_group(members, first, device, bidirectional=bidirectional, window=window))
            first = groups[-1].last
        run = []
    return Marker(tuple(spans), _slots(spans, device), _positions(spans, device), tuple(groups), rows)


def store(cache: SlotCache, layer: int, marker: Marker, k: Float[Tensor, "B h e"], v: Float[Tensor, "B h e"]) -> None:
    """Writes the keys and values of a flat row at their slots and positions."""
    if len(marker.spans) == 1:  # a slice copy is several times cheaper than an indexed write
        slot, start, count = marker.spans[0]
        cache.stack[layer, 0, slot, start : start + count] = k
        cache.stack[layer, 1, slot, start : start + count] = v
        return
    rows = marker.slots * cache.max_len + marker.positions
    cache.stack[layer, 0].flatten(0, 1).index_copy_(0, rows, k)
    cache.stack[layer, 1].flatten(0, 1).index_copy_(0, rows, v)


def attend(cache: SlotCache, layer: int, marker: Marker, q: Float[Tensor, "B heads e"]) -> Float[Tensor, "B heads e"]:
    """Attention of a flat row over its own slots, group by group."""
    parts = []
    for group in marker.groups:
        keys, values = (x[group.lo : group.hi, :, : group.key_len] for x in (cache.keys[layer], cache.values[layer]))
        mask = _additive(group.mask, q.shape[1] // keys.shape[1], q.dtype)
        parts.append(_attend_group(keys, values, group, mask, q[group.first : group.last]))
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def attention(
    cache: SlotCache, marker: Marker, num_heads: int, windowed: Mapping[int, Marker] | None = None
) -> Callable[[int, Float[Tensor, "B width"]], Float[Tensor, "B heads_e"]]:
    """`store` then `attend` for every layer of one step, with views and masks cut once instead of once a layer.

    Args:
        cache: what the step writes to and reads from.
        marker: where its tokens belong.
        num_heads: query heads, a multiple of the cache's.
        windowed: the markers of the layers that have a sliding window.

    Returns:
        A function of the layer and its queries, keys and values side by side.
    """
    kv, size = cache.stack.shape[4:]
    markers = [(windowed or {}).get(layer, marker) for layer in range(len(cache.keys))]
    cut = {id(m): [_cut(cache, group, num_heads) for group in m.groups] for m in markers}
    views = [cut[id(m)] for m in markers]
    write, width = _writer(cache, marker), num_heads * size

    def attend_layer(layer: int, qkv: Tensor) -> Tensor:
        write(layer, qkv[:, width:].view(-1, 2, kv, size))
        q = qkv[:, :width].view(-1, num_heads, size)
        parts = [_attend_view(view, layer, q) for view in views[layer]]
        return (parts[0] if len(parts) == 1 else torch.cat(parts)).flatten(1)

    return attend_layer


class _View(NamedTuple):
    """What one group reads, for all layers."""

    group: Group
    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    mask: Tensor | None


def _attend_view(view: _View, layer: int, q: Tensor) -> Tensor:
    group = view.group
    if group.last - group.first != len(q):
        q = q[group.first : group.last]
    return _attend_group(view.keys[layer], view.values[layer], group, view.mask, q)


def _cut(cache: SlotCache, group: Group, num_heads: int) -> _View:
    block = cache.stack[:, :, group.lo : group.hi, : group.key_len].transpose(3, 4)
    mask = _additive(group.mask, num_heads // cache.stack.shape[4], cache.stack.dtype)
    return _View(group, block[:, 0].unbind(), block[:, 1].unbind(), mask)


def _writer(cache: SlotCache, marker: Marker) -> Callable[[int, Float[Tensor, "B 2 kv e"]], Tensor]:
    """Puts keys and values, side by side, where they belong: one call a layer."""
    if len(marker.spans) == 1:
        slot, start, count = marker.spans[0]
        views = cache.stack[:, :, slot, start : start + count].transpose(1, 2).unbind()
        return lambda layer, kv: views[layer].copy_(kv)
    rows = marker.slots * cache.max_len + marker.positions
    slots = cache.stack.flatten(2, 3).transpose(1, 2).unbind()
    return lambda layer, kv: slots[layer].index_copy_(0, rows, kv)


def _additive(mask: Bool[Tensor, "S 1 width key_len"] | None, share: int, dtype: torch.dtype) -> Tensor | None:
    """0 where a key is visible, -inf elsewhere, a row for every query: `share` heads read each key head."""
    if mask is None:
        return None
    hidden = torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, -torch.inf)
    return hidden.repeat_interleave(share, dim=2) if share > 1 else hidden


def _attend_group(
    keys: Float[Tensor, "S kv key_len e"],
    values: Float[Tensor, "S kv key_len e"],
    group: Group,
    mask: Float[Tensor, "S 1 queries key_len"] | None,
    q: Float[Tensor, "n heads e"],
) -> Float[Tensor, "n heads e"]:
    size, heads, width, kv = q.shape[2], q.shape[1], group.width, keys.shape[1]
    if group.scatter is not None:
        q = q.new_zeros(len(keys) * width, heads, size).index_copy_(0, group.scatter, q)
    # "(S w) (kv g) e -> S kv (w g) e": the query heads that share a key head are just more queries, so keys and
    # values are read once and never repeated; with one key head both ways are views. (einops costs 5 us a call here.)
    queries = q.reshape(-1, width, kv, heads // kv, size).transpose(1, 2).reshape(len(keys), kv, -1, size)
    out = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
    out = out.reshape(len(keys), kv, width, -1, size).transpose(1, 2).reshape(-1, heads, size)
    return out if group.scatter is None else out[group.scatter]

"""Attention of a flat row over the slots it belongs to, on a *view* of the cache, never on a copy.

    store(cache, layer, marker, k, v), attend(cache, layer, marker, q)       one layer
    store_layers(cache, marker, k, v)                                        all layers of a context
    attention(cache, marker, num_heads)(layer, qkv)                          all layers of a step, views cut once

Slots are handed out lowest first, so the requests of a step nearly always occupy one contiguous range.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from sparkit.targets.cache import SlotCache
from sparkit.targets.marker import Group, Marker


def store(cache: SlotCache, layer: int, marker: Marker, k: Float[Tensor, "B h e"], v: Float[Tensor, "B h e"]) -> None:
    """Writes the keys and values of a flat row at their slots and positions."""
    _put(cache.stack[layer : layer + 1], marker, k[None], v[None])


def store_layers(
    cache: SlotCache, marker: Marker, k: Float[Tensor, "layers B h e"], v: Float[Tensor, "layers B h e"]
) -> None:
    """`store` for all layers at once."""
    _put(cache.stack, marker, k, v)


def _put(stack: Float[Tensor, "layers 2 slots len h e"], marker: Marker, *parts: Float[Tensor, "layers B h e"]) -> None:
    for which, part in enumerate(parts):
        place = stack[:, which]
        if len(marker.spans) == 1:  # a slice copy is several times cheaper than an indexed write
            slot, start, count = marker.spans[0]
            place[:, slot, start : start + count] = part
        else:
            rows = marker.slots * stack.shape[3] + marker.positions
            place.flatten(1, 2).index_copy_(1, rows, part)


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
    distinct = {id(m): m for m in markers}  # cut once a marker, not once a layer
    cut = {key: [_cut(cache, group, num_heads) for group in m.groups] for key, m in distinct.items()}
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
    if group.last - group.first != q.shape[0]:
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
    """0 where a key is visible, -inf elsewhere, a row for every query: `share` heads read each key head.

    One row, of a step of one token each, serves all of them as it is.
    """
    if mask is None:
        return None
    seen = torch.zeros((), dtype=dtype, device=mask.device)
    rows = torch.where(mask, seen, seen.new_full((), -torch.inf))
    return rows if share == 1 or mask.shape[2] == 1 else rows.repeat_interleave(share, dim=2)


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
    # The query heads that share a key head are just more queries, so keys and values are read once and never repeated.
    if kv == 1:  # a flat row has them in that order
        queries = q.reshape(-1, 1, width * heads, size)
        out = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask).reshape(-1, heads, size)
    else:  # "(S w) (kv g) e -> S kv (w g) e" and back (einops costs 5 us a call here)
        queries = q.reshape(-1, width, kv, heads // kv, size).transpose(1, 2).reshape(len(keys), kv, -1, size)
        out = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
        out = out.reshape(len(keys), kv, width, -1, size).transpose(1, 2).reshape(-1, heads, size)
    return out if group.scatter is None else out[group.scatter]

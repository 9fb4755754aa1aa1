"""Attention of many draft blocks at once, as training needs it: each block sees its document's past and itself.

    context part: keys of the document before the block [shared by all its blocks];  own part: the block's slots

The two parts are scored apart and share one softmax, so nothing is spent on pairs of slots of different blocks (a
dense mask would have A gamma more columns). Documents stand one after the other in a flat row, blocks in the same
order. The decoding form is `sparkit.targets.ragged`; the two agree to rounding (tested).

>>> lay_out([3, 2], torch.tensor([1, 4])).rows
((0, 1, 0, 1), (3, 4, 1, 2))
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Blocks:
    """Where the blocks of a batch lie, cut once and used by every layer."""

    rows: tuple[tuple[int, int, int, int], ...]  # a document: context rows [lo, hi), blocks [lo, hi)
    concealed: tuple[Bool[Tensor, "_ 1 _"], ...]  # a document: context keys that a block must not see
    starts: Int[Tensor, " A"]  # flat row of each block's document
    positions: Int[Tensor, " A"]  # each anchor's position in its document


def lay_out(lengths: Sequence[int], anchors: Int[Tensor, " A"], *, owed: int = 0) -> Blocks:
    """Blocks at flat rows `anchors` of documents with the given lengths.

    Args:
        lengths: tokens of each document.
        anchors: ascending flat rows.
        owed: how many keys right before the anchor the context lacks (0: all positions < anchor are visible).

    Raises:
        ValueError: if the anchors do not ascend or lie outside the row.
    """
    ends = torch.as_tensor(list(lengths), device=anchors.device).cumsum(0)
    if len(anchors) == 0 or int(anchors[0]) < 0 or int(anchors[-1]) >= int(ends[-1]) or not _ascends(anchors):
        raise ValueError(f"anchors of shape {list(anchors.shape)}: expected ascending rows in 0..{int(ends[-1]) - 1}")
    document = torch.searchsorted(ends, anchors, right=True)
    starts = (ends - torch.as_tensor(list(lengths), device=anchors.device))[document]
    positions = anchors - starts
    visible = (positions - owed).clamp(min=0)
    rows, concealed, first = [], [], 0
    for count in torch.bincount(document, minlength=len(lengths)).tolist():
        if count:
            limits = visible[first : first + count]
            lo, size = int(starts[first]), int(limits.max())
            rows.append((lo, lo + size, first, first + count))
            concealed.append((torch.arange(size, device=anchors.device) >= limits[:, None])[:, None])
            first += count
    return Blocks(tuple(rows), tuple(concealed), starts, positions)


def _ascends(anchors: Int[Tensor, " A"]) -> bool:
    return bool((anchors[1:] > anchors[:-1]).all())


def attend_blocks(
    blocks: Blocks,
    q: Float[Tensor, "A s heads e"],
    own: tuple[Float[Tensor, "A t kv e"], Float[Tensor, "A t kv e"]],
    context: tuple[Float[Tensor, "L kv e"], Float[Tensor, "L kv e"]],
) -> Float[Tensor, "A s heads e"]:
    """Attention of s queries a block over its t own slots (all visible) and the context before it."""
    out = []
    for (lo, hi, first, last), concealed in zip(blocks.rows, blocks.concealed, strict=True):
        near = (own[0][first:last], own[1][first:last])
        out.append(_attend(q[first:last], near, (context[0][lo:hi], context[1][lo:hi]), concealed))
    return torch.cat(out)


def _attend(
    q: Float[Tensor, "A s heads e"],
    own: tuple[Tensor, Tensor],
    context: tuple[Tensor, Tensor],
    concealed: Bool[Tensor, "A 1 L"],
) -> Float[Tensor, "A s heads e"]:
    num, slots, size = q.shape[0], q.shape[1], concealed.shape[2]
    queries = rearrange(q * q.shape[3] ** -0.5, "A s (kv g) e -> kv A (s g) e", kv=own[0].shape[2])
    far = queries.flatten(1, 2) @ rearrange(context[0], "L kv e -> kv e L")
    far = far.view(len(far), num, queries.shape[2], size).masked_fill(concealed, -torch.inf)
    near = queries @ rearrange(own[0], "A t kv e -> kv A e t")
    weights = torch.cat((far, near), dim=-1).softmax(dim=-1)
    seen = weights[..., :size].flatten(1, 2) @ rearrange(context[1], "L kv e -> kv L e")
    out = seen.view(queries.shape) + weights[..., size:] @ rearrange(own[1], "A t kv e -> kv A t e")
    return rearrange(out, "kv A (s g) e -> A s (kv g) e", s=slots)

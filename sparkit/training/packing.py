"""Whole documents side by side in one flat row; each attends only to itself and starts at position 0.

Dense layers run on the flat row, so nothing is spent on padding; only attention pads, within groups of documents of
similar length. A document in training therefore looks exactly as it does in decoding: alone, from position 0.

Not done here: which documents come (`sparkit.training.stream`), blocks of a drafter (`sparkit.training.anchors`).

>>> pack = pack_documents([torch.tensor([5, 6, 7]), torch.tensor([8, 9])])
>>> pack.positions.tolist()
[0, 1, 0, 1, 2]
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from sparkit.targets.transformer import Mix


@dataclass(frozen=True, slots=True)
class Group:
    """Documents whose attention runs in one padded call."""

    gather: Int[Tensor, " n"]  # padded row -> flat row; padding repeats the document's last token
    scatter: Int[Tensor, " m"]  # flat row (within the group) -> padded row
    num_documents: int
    width: int  # the longest document


@dataclass(frozen=True, slots=True)
class Pack:
    """Documents in one flat row, shortest first."""

    tokens: Int[Tensor, " B"]
    positions: Int[Tensor, " B"]  # within the document
    starts: Int[Tensor, " D"]  # flat index of each document's first token
    lengths: Int[Tensor, " D"]
    order: tuple[int, ...]  # order[i]: which of the given documents stands at place i
    groups: tuple[Group, ...]


def pack_documents(documents: Sequence[Int[Tensor, " _"]], num_groups: int = 3) -> Pack:
    """Sorts documents by length and lays them out.

    Raises:
        ValueError: without documents, or with an empty one.
    """
    if not documents or any(len(d) == 0 for d in documents):
        raise ValueError(f"pack_documents(): {len(documents)} documents, all must hold at least one token")
    order = sorted(range(len(documents)), key=lambda i: len(documents[i]))
    lengths = [len(documents[i]) for i in order]
    starts = [0]
    for length in lengths[:-1]:
        starts.append(starts[-1] + length)
    size = -(-len(order) // num_groups)
    groups = [_group(starts[i : i + size], lengths[i : i + size]) for i in range(0, len(order), size)]
    tokens = torch.cat([documents[i] for i in order])
    positions = torch.cat([torch.arange(length) for length in lengths])
    return Pack(tokens, positions, torch.tensor(starts), torch.tensor(lengths), tuple(order), tuple(groups))


def _group(starts: Sequence[int], lengths: Sequence[int]) -> Group:
    width = max(lengths)
    ramp = torch.arange(width)
    gather = torch.cat([start + ramp.clamp(max=length - 1) for start, length in zip(starts, lengths, strict=True)])
    scatter = torch.cat([i * width + ramp[:length] for i, length in enumerate(lengths)])
    return Group(gather, scatter, len(lengths), width)


def causal_mix(pack: Pack) -> Mix:
    """Causal attention inside each document; padding comes last, so no query ever sees it."""

    def mix(_layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.cat([_attend(group, q, k, v) for group in pack.groups])

    return mix


def _attend(
    group: Group, q: Float[Tensor, "B heads e"], k: Float[Tensor, "B kv e"], v: Float[Tensor, "B kv e"]
) -> Float[Tensor, "m heads e"]:
    def padded(x: Tensor) -> Tensor:
        return x[group.gather].view(group.num_documents, group.width, *x.shape[1:]).transpose(1, 2)

    heads = q.shape[1] // k.shape[1]
    keys, values = (padded(x).repeat_interleave(heads, dim=1) for x in (k, v))
    out = F.scaled_dot_product_attention(padded(q), keys, values, is_causal=True)
    return out.transpose(1, 2).flatten(0, 1)[group.scatter]

"""Anchors of training blocks: where they may lie, what each block predicts, and which keys it may see.

A block with anchor a predicts a+1 .. a+gamma. A label counts only while every label before it does (prefix rule), is
supervised itself, and lies in the anchor's document. The anchor is a supervised token too: in decoding it always was
generated. Block queries see context features with index < a, inside the document, and their own block only
[method.md section 7].

>>> label_mask(torch.tensor([False, True, True, False]), torch.tensor([1]), gamma=2).tolist()
[[True, False]]
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def label_mask(
    supervised: Bool[Tensor, " L"],
    anchors: Int[Tensor, " A"],
    gamma: int,
    document: Int[Tensor, " L"] | None = None,
) -> Bool[Tensor, "A gamma"]:
    """Which of the labels anchor+1 .. anchor+gamma count.

    Args:
        supervised: tokens that may be predicted (the target's own response).
        anchors: flat indices.
        gamma: labels a block.
        document: the document of every token; None means one document.
    """
    length = len(supervised)
    labels = anchors[:, None] + 1 + torch.arange(gamma)
    inside = labels < length
    labels = labels.clamp(max=max(length - 1, 0))
    counts = inside & supervised[labels]
    if document is not None:
        counts &= document[labels] == document[anchors][:, None]
    return counts.long().cumprod(dim=1).bool()


def anchor_places(supervised: Bool[Tensor, " L"], document: Int[Tensor, " L"] | None = None) -> Int[Tensor, " n"]:
    """Every place an anchor may take: supervised, with a supervised next token in the same document."""
    if len(supervised) < 2:
        return torch.zeros(0, dtype=torch.int64)
    pair = supervised[:-1] & supervised[1:]
    if document is not None:
        pair = pair & (document[:-1] == document[1:])
    return pair.nonzero()[:, 0]


def sample_anchors(places: Int[Tensor, " n"], num_anchors: int, generator: torch.Generator) -> Int[Tensor, " A"]:
    """At most `num_anchors` different places, ascending; fewer where there are fewer."""
    chosen = torch.randperm(len(places), generator=generator)[:num_anchors]
    return places[chosen].sort().values


@dataclass(frozen=True, slots=True)
class Blocks:
    """Anchor blocks of packed documents, densely: no slot is spent on a missing anchor."""

    anchors: Int[Tensor, " A"]  # flat index of each anchor
    positions: Int[Tensor, "A gamma"]  # anchor's position in its document, +1, ...
    labels: Int[Tensor, "A gamma"]  # flat index of each label, clamped into the row
    valid: Bool[Tensor, "A gamma"]  # labels that count

    @property
    def gamma(self) -> int:
        """Slots a block."""
        return int(self.positions.shape[1])


def lay_blocks(
    anchors: Int[Tensor, " A"],
    supervised: Bool[Tensor, " L"],
    positions: Int[Tensor, " L"],
    document: Int[Tensor, " L"],
    gamma: int,
) -> Blocks:
    """Blocks at the given anchors of one flat row."""
    ramp = torch.arange(gamma)
    labels = (anchors[:, None] + 1 + ramp).clamp(max=max(len(supervised) - 1, 0))
    valid = label_mask(supervised, anchors, gamma, document)
    return Blocks(anchors, positions[anchors][:, None] + ramp, labels, valid)


def visible(
    anchor_positions: Int[Tensor, "D A"], gamma: int, context_len: int, *, causal: bool = False
) -> Bool[Tensor, "D A_gamma keys"]:
    """Who sees whom: rows are block slots, columns the document's context, then the slots of all its blocks.

    Args:
        anchor_positions: each document's anchors, as positions in the document.
        gamma: slots a block.
        context_len: context columns (padded documents: the widest).
        causal: own slots up to the row's own only (chains), instead of all (parallel blocks).
    """
    num_anchors = anchor_positions.shape[1]
    before = torch.arange(context_len) < anchor_positions[..., None]  # strictly before the anchor
    context = before.repeat_interleave(gamma, dim=1)
    block = torch.arange(num_anchors).repeat_interleave(gamma)
    own = block[:, None] == block[None, :]
    if causal:
        slot = torch.arange(num_anchors * gamma)
        own = own & (slot[None, :] <= slot[:, None])
    return torch.cat((context, own.expand(len(anchor_positions), -1, -1)), dim=2)


def document_of(lengths: Sequence[int] | Int[Tensor, " D"]) -> Int[Tensor, " L"]:
    """The document of every token of a flat row."""
    lengths = torch.as_tensor(lengths)
    return torch.arange(len(lengths)).repeat_interleave(lengths)

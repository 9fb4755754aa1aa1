"""Anchors, labels and visibility against tables worked by hand (cases B30, B31, B32, B40)."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from sparkit.training.anchors import anchor_places, document_of, label_mask, lay_blocks, sample_anchors, visible


def span(length: int, *ranges: tuple[int, int]) -> torch.Tensor:
    mask = torch.zeros(length, dtype=torch.bool)
    for first, last in ranges:
        mask[first : last + 1] = True
    return mask


def labels(supervised: torch.Tensor, anchor: int, gamma: int = 4, document=None) -> list[int]:
    return label_mask(supervised, torch.tensor([anchor]), gamma, document)[0].long().tolist()


def test_b31_the_mask_is_read_at_the_label_not_at_the_slot():
    """Catches supervised[anchor + k - 1]: it gives [1, 1, 1, 0]."""
    supervised = span(48, (8, 39))
    assert labels(supervised, 37) == [1, 1, 0, 0]
    assert 39 not in anchor_places(supervised).tolist()


def test_b31_a_hole_ends_the_block():
    """Catches a missing prefix rule: [1, 0, 1, 1]."""
    supervised = span(48, (8, 19), (21, 39))
    assert labels(supervised, 18) == [1, 0, 0, 0]


def test_b30_a_block_ends_with_its_document():
    """Catches labels read across the document border; the second document starts at position 0."""
    document, positions = document_of([5, 5]), torch.cat([torch.arange(5), torch.arange(5)])
    assert labels(torch.ones(10, dtype=torch.bool), 3, document=document) == [1, 0, 0, 0]
    blocks = lay_blocks(torch.tensor([5]), torch.ones(10, dtype=torch.bool), positions, document, 4)
    assert blocks.positions.tolist() == [[0, 1, 2, 3]]
    assert not visible(torch.tensor([[0]]), 4, 5)[0, :, :5].any()


def test_b40_visibility_of_two_blocks():
    """Catches visibility by block index: rows of block(2) are 110000 11 00, of block(4) 111100 00 11."""
    seen = visible(torch.tensor([[2, 4]]), 2, 6)[0].long().tolist()
    assert seen == [[1, 1, 0, 0, 0, 0, 1, 1, 0, 0]] * 2 + [[1, 1, 1, 1, 0, 0, 0, 0, 1, 1]] * 2


def test_b30_neither_block_sees_the_other():
    """Length 12, gamma 4, anchors 2 and 4: context {0, 1} and {0, 1, 2, 3}, plus the own block."""
    seen = visible(torch.tensor([[2, 4]]), 4, 12)[0]
    assert seen[:4].long().tolist() == [[1, 1] + [0] * 10 + [1] * 4 + [0] * 4] * 4
    assert seen[4:].long().tolist() == [[1] * 4 + [0] * 8 + [0] * 4 + [1] * 4] * 4


def test_a_chain_sees_its_own_past_only():
    """Catches chains that look ahead inside their block."""
    seen = visible(torch.tensor([[2]]), 3, 0, causal=True)[0].long().tolist()
    assert seen == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]


def test_b32_nothing_to_train_on():
    """Catches index errors at length 1, on an all-zero mask, on isolated supervised tokens."""
    for mask in ([True], [False] * 6, [False, True, False, True, False], []):
        assert len(anchor_places(torch.tensor(mask, dtype=torch.bool))) == 0


def test_b32_fewer_places_than_asked():
    """Catches padding anchors: 3 valid places, 8 asked, 3 used."""
    places = anchor_places(span(10, (2, 5)))
    chosen = sample_anchors(places, 8, torch.Generator().manual_seed(0))
    assert chosen.tolist() == [2, 3, 4]


@given(st.lists(st.booleans(), min_size=2, max_size=40), st.integers(1, 8))
def test_b31_every_trainable_slot_predicts_a_supervised_token(mask: list[bool], gamma: int):
    """Catches any shift between slot and label, on random masks."""
    supervised = torch.tensor(mask)
    places = anchor_places(supervised)
    valid = label_mask(supervised, places, gamma)
    for anchor, row in zip(places.tolist(), valid.tolist(), strict=True):
        assert row[0]
        assert all(supervised[anchor + 1 + k] for k in range(gamma) if row[k])

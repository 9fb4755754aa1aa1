"""Draft ids and target ids: a reduced or padded draft vocabulary becomes laws over exactly the target's tokens.

A reduced head comes with `d2t`, which holds OFFSETS: target id = i + d2t[i]. Tokens it cannot name get logit -inf, so
their draft probability is exactly 0. Ids past the target's vocabulary (padded embedding rows) are cut away before the
softmax, so the law is renormalised over what can really be proposed.

>>> target_ids(torch.tensor([1, 3, 3, 6]), vocab_size=10).tolist()
[1, 4, 5, 9]
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def target_ids(
    d2t: Int[Tensor, " N"] | None, vocab_size: int, draft_vocab_size: int | None = None
) -> Int[Tensor, " N"]:
    """The target id of every draft id.

    Args:
        d2t: offsets, or None.
        vocab_size: the target's.
        draft_vocab_size: rows of the draft head, needed without a map.

    Raises:
        ValueError: for a smaller draft vocabulary without a map, or a map that is not strictly increasing in range.
    """
    if d2t is None:
        if draft_vocab_size != vocab_size:
            raise ValueError(
                f"draft vocabulary {draft_vocab_size}, target vocabulary {vocab_size} and no d2t map: which tokens the "
                "drafter knows cannot be guessed; load the checkpoint that holds d2t"
            )
        return torch.arange(vocab_size)
    if d2t.ndim != 1 or d2t.dtype != torch.int64 or draft_vocab_size not in (None, len(d2t)):
        raise ValueError(f"d2t of {d2t.dtype} {list(d2t.shape)}: expected int64 [{draft_vocab_size or 'N'}]")
    ids = d2t + torch.arange(len(d2t), device=d2t.device)
    if len(ids) == 0 or int(ids[0]) < 0 or int(ids[-1]) >= vocab_size or bool((ids[1:] <= ids[:-1]).any()):
        raise ValueError(
            f"d2t gives target ids {ids[:4].tolist()}...: expected strictly increasing ids in 0..{vocab_size - 1} "
            "(d2t holds offsets: target id = i + d2t[i])"
        )
    return ids


def offsets_of(ids: Int[Tensor, " N"]) -> Int[Tensor, " N"]:
    """`d2t` of ascending target ids."""
    return ids - torch.arange(len(ids), device=ids.device)


def is_kept(ids: Int[Tensor, " N"], vocab_size: int) -> Bool[Tensor, " V"]:
    """`t2d`: which target tokens the drafter can name."""
    kept = torch.zeros(vocab_size, dtype=torch.bool, device=ids.device)
    kept[ids] = True
    return kept


def spread(logits: Float[Tensor, "*R N"], ids: Int[Tensor, " N"], vocab_size: int) -> Float[Tensor, "*R V"]:
    """Logits over the target's vocabulary; -inf where the drafter has no token."""
    wide = logits.new_full((*logits.shape[:-1], vocab_size), -torch.inf)
    return wide.index_copy(-1, ids, logits)


def fitted(logits: Float[Tensor, "*R N"], vocab_size: int) -> Float[Tensor, "*R V"]:
    """A head of another width over the same tokens: padded ids are cut, missing ones get -inf."""
    width = logits.shape[-1]
    if width >= vocab_size:
        return logits[..., :vocab_size]
    return torch.nn.functional.pad(logits, (0, vocab_size - width), value=-torch.inf)

"""A block shorter than gamma, filled up to it, so that all that follows a draft sees one shape.

The columns past a block are what a lookup that found little leaves there too: token 0, drawn for certain, and never
verified, as `Draft.lengths` says; their confidence is exactly 0. Filled after the confidences, which cost by position.

>>> draft = Draft(torch.tensor([[1]]), torch.tensor([[[0.0, 1.0]]]))
>>> filled(draft, torch.zeros(1, 1), 2)[0].tokens.tolist()
[[1, 0]]
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from sparkit.rounds import Draft


def filled(draft: Draft, logits: Float[Tensor, "R block"], gamma: int) -> tuple[Draft, Float[Tensor, "R gamma"]]:
    """The draft and its confidence logits with gamma columns."""
    num, width = draft.tokens.shape
    more = gamma - width
    p_draft = F.pad(draft.p_draft, (0, 0, 0, more))
    p_draft[:, width:, 0] = 1
    states = (draft.hidden, draft.previous_embedding)
    hidden, embedding = (None if x is None else F.pad(x, (0, 0, 0, more)) for x in states)
    lengths = draft.tokens.new_full((num,), width) if draft.lengths is None else draft.lengths
    tokens = F.pad(draft.tokens, (0, more))
    return Draft(tokens, p_draft, hidden, embedding, lengths), F.pad(logits, (0, more), value=-torch.inf)

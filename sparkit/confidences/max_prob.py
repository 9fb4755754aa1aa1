"""The drafter's own certainty: c_k = max_v p_draft^k(v), known before x_k is drawn.

MaxProb().logits(draft, None)
"""

import torch
from jaxtyping import Float
from torch import Tensor

from sparkit.protocols import CONFIDENCES
from sparkit.rounds import Draft, Rounds


@CONFIDENCES.register("max_prob", summary="the largest probability of the draft law at each position")
class MaxProb:
    """See `sparkit.protocols.Confidence`."""

    lossless = True
    batch_independent = True

    def start(self) -> None:
        """No memory."""

    def logits(self, draft: Draft, memory: None) -> Float[Tensor, "R gamma"]:
        """See `Confidence`; a one-hot law gives +inf."""
        return torch.logit(draft.p_draft.amax(-1).clamp(max=1))

    def observe(self, memory: None, rounds: Rounds) -> None:
        """No memory."""

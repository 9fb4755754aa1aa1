"""LOSSY, to be caught: p_draft^k(x_k), the probability of the very token whose verification it decides.

A scheduler that cuts by it verifies x_k or not depending on x_k: the tokens it lets pass are no longer drawn from
p_draft, and the output is no longer the target's [method section 6, known traps].

    TokenProb().lossless  # False
"""

import torch
from jaxtyping import Float
from torch import Tensor

from sparkit.protocols import CONFIDENCES
from sparkit.rounds import Draft, Rounds


@CONFIDENCES.register("token_prob", lossless=False, summary="LOSSY: the draft probability of the drawn token itself")
class TokenProb:
    """See `sparkit.protocols.Confidence`."""

    lossless = False
    batch_independent = True

    def start(self) -> None:
        """No memory."""

    def logits(self, draft: Draft, memory: None) -> Float[Tensor, "R gamma"]:
        """Reads its own token."""
        chosen = draft.p_draft.gather(2, draft.tokens[..., None])[..., 0]
        return torch.logit(chosen.clamp(max=1))

    def observe(self, memory: None, rounds: Rounds) -> None:
        """No memory."""

"""Lenient acceptance, min(1, p_target / (0.5 p_draft)): LOSSY, here so that the proofs are seen to catch it.

A "typical acceptance" or leniency option in serving systems has this effect: longer blocks, another distribution.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from sparkit.acceptance import likelihood_ratio
from sparkit.decisions import AddressedSource, Decisions, Purpose
from sparkit.protocols import VERIFIERS
from sparkit.rounds import Draft, Plan, Verdict
from sparkit.sampling import residual


@VERIFIERS.register("lenient", lossless=False, summary="LOSSY: accepts twice as readily as it may")
class Lenient:
    """Rejection with a thumb on the scale."""

    lossless = False
    schedule_invariant = False
    source = AddressedSource()

    def verify(self, draft: Draft, plan: Plan, p_target: Float[Tensor, "B V"], decisions: Decisions) -> Verdict:
        """As `rejection`, with the ratio doubled."""
        ratio = 2 * likelihood_ratio(draft, plan, p_target)
        accepted = decisions.coins(ratio, Purpose.ACCEPT, until="first_false").long().cumprod(-1).sum(-1)
        is_bonus = accepted == plan.verify_len
        law = p_target[plan.first_row + accepted]
        rows = torch.arange(len(accepted), device=accepted.device)
        p_draft = draft.p_draft[rows, accepted.clamp(max=draft.tokens.shape[1] - 1)]
        law = torch.where(is_bonus[:, None], law, residual(law, p_draft))
        return Verdict(accepted, decisions.draw(law, Purpose.NEXT, accepted + 1), is_bonus)

"""Coupled verification: the target draws with the noise the drafter used; a draft is kept while the two draws agree.

Every token, drafted or not, is argmax(log p + Gumbel noise of its absolute position) [Daliri 2024], so the text of a
seed is the plain decoding of that seed, whatever the drafter, gamma, scheduler or batch: exact under ANY scheduler.
Acceptance is at least (1 - TV) / (1 + TV), a little below rejection's 1 - TV.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from sparkit.decisions import CoupledSource, Decisions, Purpose
from sparkit.protocols import VERIFIERS
from sparkit.rounds import Draft, Plan, Verdict


@VERIFIERS.register("coupled", summary="Gumbel coupling: the text is the seed's plain decoding under any scheduler")
class Coupled:
    """Agreement of two draws with one noise."""

    lossless = True
    schedule_invariant = True
    source = CoupledSource()

    def verify(self, draft: Draft, plan: Plan, p_target: Float[Tensor, "B V"], decisions: Decisions) -> Verdict:
        """See `Verifier`; requests that are done ask for a certain token, so no noise is looked at for nothing."""
        gamma, first = draft.tokens.shape[1], plan.first_row
        accepted = torch.zeros_like(plan.verify_len)
        next_token = torch.zeros_like(plan.verify_len)
        is_open = torch.ones_like(plan.verify_len, dtype=torch.bool)
        certain = torch.zeros_like(p_target[:1])
        certain[:, 0] = 1
        for k in range(gamma + 1):
            row = first + torch.minimum(torch.full_like(first, k), plan.verify_len)
            token = decisions.draw(torch.where(is_open[:, None], p_target[row], certain), Purpose.NEXT, k + 1)
            next_token = torch.where(is_open, token, next_token)
            agrees = token == draft.tokens[:, min(k, gamma - 1)]
            is_open = is_open & agrees & (plan.verify_len > k)
            accepted = accepted + is_open.long()
        return Verdict(accepted, next_token, accepted == plan.verify_len)

"""Token-wise rejection: accept x_k with probability min(1, p_target / p_draft), correct from the residual.

Left to right, the first rejection drops the rest of the block; the replacement is drawn from
norm(max(p_target - p_draft, 0)), and when all verify_len drafts pass, the bonus from the row after them
[Leviathan 2023, algorithm 1; Chen 2023, algorithm 2; method section 2]. The committed tokens follow p_target exactly,
whatever p_draft is, as long as the cut was non-anticipating.

>>> Rejection().lossless
True
"""

import torch
from jaxtyping import Float
from torch import Tensor

from sparkit.acceptance import likelihood_ratio
from sparkit.decisions import AddressedSource, Decisions, Purpose
from sparkit.protocols import VERIFIERS
from sparkit.rounds import Draft, Plan, Verdict
from sparkit.sampling import residual


@VERIFIERS.register("rejection", summary="token-wise rejection sampling with residual corrections")
class Rejection:
    """The standard lossless rule."""

    lossless = True
    schedule_invariant = False
    source = AddressedSource()

    def verify(self, draft: Draft, plan: Plan, p_target: Float[Tensor, "B V"], decisions: Decisions) -> Verdict:
        """See `Verifier`; `u < accept_prob` is strict, so a token without target mass is never accepted."""
        accept_prob = likelihood_ratio(draft, plan, p_target).clamp(max=1)
        coins = decisions.coins(accept_prob, Purpose.ACCEPT, until="first_false")
        accepted = coins.long().cumprod(-1).sum(-1)
        is_bonus = accepted == plan.verify_len
        p_next = p_target[plan.first_row + accepted]
        rejected = accepted.clamp(max=draft.tokens.shape[1] - 1)
        rows = torch.arange(len(accepted), device=accepted.device)
        p_next = torch.where(is_bonus[:, None], p_next, residual(p_next, draft.p_draft[rows, rejected]))
        return Verdict(accepted, decisions.draw(p_next, Purpose.NEXT, accepted + 1), is_bonus)

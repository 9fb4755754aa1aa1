"""Block verification: judge whole prefixes, keep the longest that passes; never shorter than rejection in expectation.

For a block cut at l [Sun 2025, algorithm 2; method section 6]:
    w_0 = 1,  w_i = min(1, w_{i-1} p_target^i(x_i) / p_draft^i(x_i))
    S_i = sum_v max(w_i p_target^{i+1}(v) - p_draft^{i+1}(v), 0)
    h_i = S_i / (S_i + 1 - w_i) for i < l (0/0 -> 0),  h_l = w_l
accepted = the largest i whose own uniform is below h_i, else 0; the next token is proportional to
max(w_i p_target^{i+1} - p_draft^{i+1}, 0), or drawn from p_target^{l+1} when i = l.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from sparkit.acceptance import likelihood_ratio, rows_of
from sparkit.decisions import AddressedSource, Decisions, Purpose
from sparkit.protocols import VERIFIERS
from sparkit.rounds import Draft, Plan, Verdict
from sparkit.sampling import residual


@VERIFIERS.register("block", summary="block verification: accepts at least as much as rejection, same law")
class Block:
    """Joint acceptance of prefixes."""

    lossless = True
    schedule_invariant = False
    source = AddressedSource()

    def verify(self, draft: Draft, plan: Plan, p_target: Float[Tensor, "B V"], decisions: Decisions) -> Verdict:
        """See `Verifier`."""
        gamma = draft.tokens.shape[1]
        weight = prefix_weights(likelihood_ratio(draft, plan, p_target))
        keep_prob = weight[:, 1:].clone()  # h_l = w_l, and 0 behind it, where ratio and weight are
        inner = torch.arange(1, gamma + 1, device=weight.device) < plan.verify_len[:, None]
        if gamma > 1:
            judged = p_target[rows_of(plan, gamma)[:, 1:]]
            slack = (weight[:, 1:-1, None] * judged - draft.p_draft[:, 1:]).clamp(min=0).sum(-1)
            inner_prob = (slack / (slack + 1 - weight[:, 1:-1])).nan_to_num(nan=0.0)
            keep_prob[:, :-1] = torch.where(inner[:, :-1], inner_prob, keep_prob[:, :-1])
        coins = decisions.coins(keep_prob, Purpose.ACCEPT, until="last_true")
        accepted = (coins * torch.arange(1, gamma + 1, device=coins.device)).amax(-1)
        is_bonus = accepted == plan.verify_len
        rows = torch.arange(len(accepted), device=accepted.device)
        law = p_target[plan.first_row + accepted]
        p_draft = draft.p_draft[rows, accepted.clamp(max=gamma - 1)]
        corrected = residual(weight[rows, accepted][:, None] * law, p_draft)
        law = torch.where(is_bonus[:, None], law, corrected)
        return Verdict(accepted, decisions.draw(law, Purpose.NEXT, accepted + 1), is_bonus)


def prefix_weights(ratio: Float[Tensor, "R gamma"]) -> Float[Tensor, "R gamma_plus_one"]:
    """w_0..w_gamma, each in [0, 1]."""
    weights = [ratio.new_ones(len(ratio))]
    for one in ratio.unbind(1):
        weights.append((weights[-1] * one).clamp(max=1))
    return torch.stack(weights, dim=1)

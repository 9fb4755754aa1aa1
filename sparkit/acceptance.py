"""What every verifier asks of a draft: the likelihood ratio of each token, and the rows of p_target behind a cut.

Rows of request r in the ragged p_target [B, V] start at `plan.first_row[r]`; row j there is the law after j drafts.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sparkit.rounds import Draft, Plan


def admitted(draft: Draft, plan: Plan) -> Bool[Tensor, "R gamma"]:
    """Which drafts went to the target."""
    return torch.arange(draft.tokens.shape[1], device=draft.tokens.device) < plan.verify_len[:, None]


def rows_of(plan: Plan, gamma: int) -> Int[Tensor, "R gamma"]:
    """The row of p_target that judges position k; positions past the cut repeat the row after it."""
    steps = torch.arange(gamma, device=plan.verify_len.device)
    return plan.first_row[:, None] + torch.minimum(steps, plan.verify_len[:, None])


def likelihood_ratio(draft: Draft, plan: Plan, p_target: Float[Tensor, "B V"]) -> Float[Tensor, "R gamma"]:
    """p_target(x_k) / p_draft(x_k), and 0 where the draft was cut.

    Raises:
        ValueError: if a draft law is nan (checked on the CPU only: elsewhere the check would wait for the device).
    """
    p_draft = draft.p_draft.gather(2, draft.tokens[..., None])[..., 0]
    ratio = p_target[rows_of(plan, draft.tokens.shape[1]), draft.tokens] / p_draft
    kept = admitted(draft, plan)
    ratio = torch.where(kept, ratio, 0.0)
    if ratio.device.type == "cpu" and bool(ratio.isnan().any()):
        row, position = ratio.isnan().nonzero()[0].tolist()
        raise ValueError(
            f"p_draft of row {row} at block position {position + 1} is no law: it gives "
            f"{float(p_draft[row, position])} to token {int(draft.tokens[row, position])}, which was drawn from it; "
            "the drafter's logits hold nan or inf"
        )
    return ratio

"""The three losses of a draft block as weighted sums [DSpark eq. 9 to 12], and each drafter's mixture of them.

Cross-entropy [9], total variation [10] and confidence [11], mixed 0.1 / 0.9 / 1.0 for dspark [12].
L_tv is the UN-HALVED L1 distance. The confidence label c* = 1 - 0.5 ||p_d - p_t||_1 [8] is detached. Every loss is a
sum over valid labels of weight times term; the caller divides once by the (global) sum of weights.

Not done here: where logits come from (`sparkit.training.drafter`).

>>> position_weights(3, decay_length=1.0)[0].item()
1.0
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F


def position_weights(gamma: int, decay_length: float) -> Float[Tensor, " gamma"]:
    """w_k = exp(-(k - 1) / decay_length); the paper takes gamma, DeepSpec's released configurations 4 for 7."""
    if gamma < 1 or decay_length <= 0:
        raise ValueError(f"position_weights(gamma={gamma}, decay_length={decay_length}): expected both above 0")
    return torch.exp(-torch.arange(gamma) / decay_length)


def step_weights(gamma: int, decay: float) -> Float[Tensor, " gamma"]:
    """decay^(k-1): the weights of an unrolled chain (Eagle3: 0.8)."""
    return decay ** torch.arange(gamma, dtype=torch.float32)


def ce_loss(
    logits: Float[Tensor, "A gamma V"], labels: Int[Tensor, "A gamma"], weights: Float[Tensor, "A gamma"]
) -> Float[Tensor, ""]:
    """Sum of w_k * -log p_draft(label) [eq. 9]."""
    return (F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none") * weights.flatten()).sum()


def soft_ce_loss(
    logits: Float[Tensor, "A gamma V"], p_target: Float[Tensor, "A gamma V"], weights: Float[Tensor, "A gamma"]
) -> Float[Tensor, ""]:
    """Sum of w_k * -sum_v p_target(v) log p_draft(v) (Eagle3)."""
    return (-(p_target * logits.log_softmax(dim=-1)).sum(dim=-1) * weights).sum()


def l1_distance(p_draft: Float[Tensor, "*A V"], p_target: Float[Tensor, "*A V"]) -> Float[Tensor, "*A"]:
    """||p_draft - p_target||_1, in [0, 2]: twice the total variation."""
    return (p_draft - p_target).abs().sum(dim=-1)


def tv_loss(
    p_draft: Float[Tensor, "A gamma V"], p_target: Float[Tensor, "A gamma V"], weights: Float[Tensor, "A gamma"]
) -> Float[Tensor, ""]:
    """Sum of w_k * ||p_draft - p_target||_1, not halved [eq. 10]."""
    return (l1_distance(p_draft, p_target) * weights).sum()


def accept_rate(p_draft: Float[Tensor, "*A V"], p_target: Float[Tensor, "*A V"]) -> Float[Tensor, "*A"]:
    """c* = 1 - 0.5 ||p_draft - p_target||_1 in [0, 1], detached: the confidence head's label [eq. 8]."""
    return (1 - 0.5 * l1_distance(p_draft.detach(), p_target.detach())).clamp(0, 1)


def confidence_loss(
    logits: Float[Tensor, "A gamma"], label: Float[Tensor, "A gamma"], weights: Float[Tensor, "A gamma"]
) -> Float[Tensor, ""]:
    """Sum of w_k * BCE(sigmoid(logits), label) with the soft, detached label [eq. 11]."""
    return F.binary_cross_entropy_with_logits(logits, label.detach(), weight=weights, reduction="sum")


@dataclass(frozen=True, slots=True)
class LossRecipe:
    """How much of each loss a drafter is trained with, and how its positions are weighted."""

    alpha_ce: float = 0.1
    alpha_tv: float = 0.9
    alpha_confidence: float = 1.0
    alpha_soft_ce: float = 0.0
    decay_length: float | None = None  # position_weights; None: step_weights with step_decay
    step_decay: float = 1.0
    detach_confidence: bool = False  # the confidence head reads detached inputs and leaves the backbone alone

    def weights(self, gamma: int) -> Float[Tensor, " gamma"]:
        """w_k."""
        if self.decay_length is not None:
            return position_weights(gamma, self.decay_length)
        return step_weights(gamma, self.step_decay)


RECIPES: dict[str, LossRecipe] = {
    "dspark": LossRecipe(0.1, 0.9, 1.0, decay_length=4.0),
    "dflash": LossRecipe(1.0, 0.0, 1.0, decay_length=4.0, detach_confidence=True),
    "eagle3": LossRecipe(0.0, 0.0, 1.0, 1.0, step_decay=0.8, detach_confidence=True),
    "mtp": LossRecipe(1.0, 0.0, 1.0, step_decay=0.8, detach_confidence=True),
}
"""As released [method.md section 7]; drafters that were released without a confidence head train theirs detached."""


@dataclass(frozen=True, slots=True)
class BlockLoss:
    """One batch of blocks: the recipe's sum, its weight, and what the tables show."""

    total: Float[Tensor, ""]
    weight: Float[Tensor, ""]
    ce: Float[Tensor, ""]  # weighted sums, detached
    tv: Float[Tensor, ""]
    confidence: Float[Tensor, ""]
    accept_sum: Float[Tensor, " gamma"]  # sum of c* over valid labels, by position
    accept_count: Float[Tensor, " gamma"]


def block_loss(
    recipe: LossRecipe,
    logits: Float[Tensor, "A gamma V"],
    target_logits: Float[Tensor, "A gamma V"],
    labels: Int[Tensor, "A gamma"],
    valid: Bool[Tensor, "A gamma"],
    confidence: Float[Tensor, "A gamma"] | None,
) -> BlockLoss:
    """The recipe's loss of a batch of blocks; without valid labels every sum is exactly 0."""
    weights = recipe.weights(logits.shape[1]).to(logits) * valid
    p_draft, p_target = logits.softmax(dim=-1), target_logits.detach().softmax(dim=-1)
    label = accept_rate(p_draft, p_target)
    zero = logits.sum() * 0  # keeps the graph when nothing counts
    ce = ce_loss(logits, labels, weights) if recipe.alpha_ce else zero
    tv = tv_loss(p_draft, p_target, weights) if recipe.alpha_tv else zero
    soft = soft_ce_loss(logits, p_target, weights) if recipe.alpha_soft_ce else zero
    conf = zero if confidence is None else confidence_loss(confidence, label, weights)
    total = recipe.alpha_ce * ce + recipe.alpha_tv * tv + recipe.alpha_soft_ce * soft + recipe.alpha_confidence * conf
    counted = valid.to(logits)
    shown = ce if recipe.alpha_ce else soft
    accepted = (label * counted).sum(0)
    return BlockLoss(total + zero, weights.sum(), shown.detach(), tv.detach(), conf.detach(), accepted, counted.sum(0))

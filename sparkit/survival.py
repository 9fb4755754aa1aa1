"""Survival: the probability that a whole prefix of the draft is accepted, and what a plan is worth because of it.

a_k = prod_{i<=k} c_i [DSpark section 3.3]; expected tau = 1 + sum of the admitted survivals; Theta = tau * SPS(B)
[Algorithm 1]. Pure functions; the whole Theta curve is for readers (screens, traces), never for a scheduler.

>>> survival_of(torch.tensor([[0.5, 0.5]]))
tensor([[0.5000, 0.2500]])
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor


def survival_of(confidence: Float[Tensor, "R gamma"]) -> Float[Tensor, "R gamma"]:
    """Running product of the confidences, in [0, 1] and never increasing; nan counts as 0, a range error is clamped."""
    return confidence.nan_to_num(nan=0.0).clamp(0, 1).cumprod(-1)


def expected_tau(survival: Float[Tensor, "R gamma"], verify_len: Int[Tensor, " R"]) -> Float[Tensor, " R"]:
    """Expected tokens committed by each request's round, bonus included."""
    positions = torch.arange(survival.shape[1], device=survival.device)
    return 1 + torch.where(positions < verify_len[:, None], survival, 0.0).sum(-1)


class ThroughputCurve(NamedTuple):
    """Theta along the global admission order, point 0 being the plan without any draft."""

    throughput: Float[Tensor, " points"]
    survival: Float[Tensor, " points_minus_one"]  # of the candidate admitted at each point
    request: Int[Tensor, " points_minus_one"]
    position: Int[Tensor, " points_minus_one"]  # 0-based


def admission_order(survival: Float[Tensor, "R gamma"]) -> Int[Tensor, " n"]:
    """Flat candidates by survival descending; ties by position, then request, so every prefix stays closed.

    The tie rule looks at nothing but indices: a rule that looked at later confidences would be anticipating.
    """
    by_position = survival.T.flatten()
    order = by_position.sort(descending=True, stable=True).indices
    num = survival.shape[0]
    return (order % num) * survival.shape[1] + torch.div(order, num, rounding_mode="floor")


def throughput_curve(
    survival: Float[Tensor, "R gamma"],
    rounds_per_second: Callable[[int, int], float],
    base_tokens: int | None = None,
) -> ThroughputCurve:
    """Theta after each admission of a > 0, in admission order (readers only: it looks at everything)."""
    num, gamma = survival.shape
    base = num if base_tokens is None else base_tokens
    order = admission_order(survival)
    values = survival.flatten()[order]
    order, values = order[values > 0], values[values > 0]
    tau = num + torch.cat((values.new_zeros(1), values.cumsum(0)))
    speed = [rounds_per_second(num, base + j) for j in range(len(values) + 1)]
    throughput = tau * torch.tensor(speed, dtype=tau.dtype, device=tau.device)
    return ThroughputCurve(throughput, values, torch.div(order, gamma, rounding_mode="floor"), order % gamma)

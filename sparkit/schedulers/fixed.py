"""Everybody verifies the whole block: verify_len = gamma, as far as ceiling and token budget allow.

A budget is spent position by position: all first drafts by request index, then all second.

    Fixed().plan(survival, capacity, limits, None)[0].verify_len
"""

import torch
from jaxtyping import Float
from torch import Tensor

from sparkit.capacity import Capacity
from sparkit.protocols import SCHEDULERS
from sparkit.rounds import Limits, Plan, Rounds
from sparkit.survival import spend_wishes


@SCHEDULERS.register("fixed", summary="verify the whole block, whatever the confidences")
class Fixed:
    """Method section 6, `fixed`."""

    lossless = True
    batch_independent = True

    def start(self) -> None:
        """No memory."""

    def drafts(self, memory: None, limits: Limits, capacity: Capacity) -> bool:
        """Always."""
        return True

    def plan(
        self, survival: Float[Tensor, "R gamma"], capacity: Capacity, limits: Limits, memory: None
    ) -> tuple[Plan, None]:
        """See `Scheduler`."""
        if limits.token_budget is None:
            return Plan(limits.ceiling.clamp(max=survival.shape[1])), None
        return spend_wishes(torch.ones_like(survival, dtype=torch.bool), limits), None

    def observe(self, memory: None, rounds: Rounds) -> None:
        """Learns nothing."""

    def observe_undrafted(self, memory: None, num_tokens: int, num_requests: int, seconds: float) -> None:
        """Learns nothing."""

"""Stop before the first confidence below a threshold (a diagnostic: it knows nothing of load).

c_k < t is read off survival as a_k < t a_{k-1}: the product rounds the same way on both sides, a quotient would not.
A budget is spent position by position. A survival of 0 (or nan) is never verified.

    Threshold(value=0.6).plan(survival, capacity, limits, None)[0].verify_len
"""

from jaxtyping import Float
from torch import Tensor

from sparkit.capacity import Capacity
from sparkit.protocols import SCHEDULERS
from sparkit.rounds import Limits, Plan, Rounds
from sparkit.survival import admissible, spend_wishes


@SCHEDULERS.register("threshold", summary="stop before the first confidence below a value")
class Threshold:
    """Method section 6, `threshold`."""

    lossless = True
    batch_independent = True

    def __init__(self, value: float = 0.5) -> None:
        if not 0 <= value <= 1:
            raise ValueError(f"threshold value={value!r}: expected a confidence from 0 to 1")
        self.value = value

    def start(self) -> None:
        """No memory."""

    def drafts(self, memory: None, limits: Limits, capacity: Capacity) -> bool:
        """Always."""
        return True

    def plan(
        self, survival: Float[Tensor, "R gamma"], capacity: Capacity, limits: Limits, memory: None
    ) -> tuple[Plan, None]:
        """See `Scheduler`."""
        trusted = admissible(survival, limits.ceiling)
        before = trusted.roll(1, -1)
        before[:, :1] = 1.0
        wanted = (trusted > 0) & (trusted >= before * self.value)
        return spend_wishes(wanted.long().cumprod(-1).bool(), limits), None

    def observe(self, memory: None, rounds: Rounds) -> None:
        """Learns nothing."""

    def observe_undrafted(self, memory: None, num_tokens: int, num_requests: int, seconds: float) -> None:
        """Learns nothing."""

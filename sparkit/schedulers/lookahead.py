"""Greedy without the break: the largest throughput of all admission counts. NOT lossless; it exists to be caught.

Whether x_1 is verified depends on c_2, which depends on x_1: appendix A's law (0.7, 0.3) comes out as (0.85, 0.15)
[DSpark, appendix A; method section 8]. Under the verifier `coupled` it is exact, as everything is.

>>> Lookahead.lossless
False
"""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from sparkit.capacity import Capacity
from sparkit.pace import MOST_PROBED, Pace, Probing, reads_prompt
from sparkit.protocols import SCHEDULERS
from sparkit.rounds import Limits, Plan, Rounds
from sparkit.survival import queue_of


@SCHEDULERS.register("lookahead", lossless=False, summary="the best cut of all, seen with hindsight: LOSSY")
class Lookahead:
    """Method section 6, `lookahead`."""

    lossless = False
    batch_independent = False

    def __init__(self, undrafted_probe_every: int = 64, undrafted_probe_size: int = MOST_PROBED) -> None:
        self.probing = Probing.of(undrafted_probe_every, undrafted_probe_size)

    def start(self) -> Pace:
        """Nothing seen."""
        return Pace()

    def drafts(self, memory: Pace, limits: Limits, capacity: Capacity) -> bool:
        """See `sparkit.pace`."""
        return memory.drafts(len(limits.ceiling), capacity, self.probing.every, reads_prompt(limits))

    def participants(
        self, memory: Pace, requests: Sequence[int], limits: Limits, capacity: Capacity
    ) -> tuple[bool, ...]:
        """See `sparkit.pace`."""
        return memory.participants(len(requests), capacity, self.probing.size)

    def plan(
        self, survival: Float[Tensor, "R gamma"], capacity: Capacity, limits: Limits, memory: Pace
    ) -> tuple[Plan, Pace]:
        """See `Scheduler`; among equals the fewest drafts."""
        queue = queue_of(survival, limits)
        rates = capacity.rates(len(survival), limits.base_tokens, survival.numel(), queue.survival)
        throughput = queue.throughput(rates)
        throughput[1:].masked_fill_(~queue.is_open, -1.0)
        return queue.admit_first(throughput.argmax()), memory

    def observe(self, memory: Pace, rounds: Rounds) -> Pace:
        """Remembers tokens and seconds."""
        return memory.after(rounds)

    def observe_undrafted(self, memory: Pace, num_tokens: int, num_requests: int, seconds: float) -> Pace:
        """Counts the steps since the last draft."""
        return memory.after_undrafted(num_requests)

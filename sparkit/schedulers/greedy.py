"""The hardware-aware prefix scheduler: admit drafts by survival while expected throughput rises [DSpark, algorithm 1].

Start with B = base_tokens + floors, tau = R + the floors' survivals, best = tau * SPS(B). One candidate at a time, by
survival: B += 1, tau += a, Theta = tau * SPS(B); keep it if Theta > best, else BREAK. The break is what makes it
lossless: nothing behind the first refusal has been looked at. On a staircase it may stop at a local maximum.

Theta is one cumulative sum, and "kept so far" one cumulative product: since each kept Theta becomes the best, the
comparison is with the Theta just before.

    Greedy().plan(survival, capacity, limits, Greedy().start())
"""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from sparkit.capacity import Capacity
from sparkit.pace import MOST_PROBED, Pace, Probing, reads_prompt
from sparkit.protocols import SCHEDULERS
from sparkit.rounds import Limits, Plan, Rounds
from sparkit.survival import queue_of


@SCHEDULERS.register("greedy", summary="admit drafts while expected throughput rises [DSpark, algorithm 1]")
class Greedy:
    """Method section 6, `greedy`.

    Args:
        undrafted_probe_every: while drafting does not pay, every so many steps one drafts all the same.
        undrafted_probe_size: how many requests draft then, at most.
        sizes_blocks: draft as many tokens as made most tokens a second lately (`sparkit.reach`), instead of gamma.
    """

    lossless = True
    batch_independent = False

    def __init__(
        self, undrafted_probe_every: int = 64, undrafted_probe_size: int = MOST_PROBED, sizes_blocks: bool = False
    ) -> None:
        self.probing = Probing.of(undrafted_probe_every, undrafted_probe_size)
        self.sizes_blocks = sizes_blocks

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

    def block_lens(
        self, memory: Pace, requests: Sequence[int], limits: Limits, capacity: Capacity, gamma: int
    ) -> tuple[int, ...] | None:
        """See `sparkit.pace`."""
        return memory.block_lens(limits, capacity, gamma) if self.sizes_blocks else None

    def plan(
        self, survival: Float[Tensor, "R gamma"], capacity: Capacity, limits: Limits, memory: Pace
    ) -> tuple[Plan, Pace]:
        """See `Scheduler`."""
        queue = queue_of(survival, limits)
        rates = capacity.rates(len(survival), limits.base_tokens, survival.numel(), queue.survival, limits.block_len)
        throughput = queue.throughput(rates)
        rises = (throughput[1:] > throughput[:-1]) & queue.is_open
        return queue.admit(rises.long().cumprod(0).bool()), memory

    def observe(self, memory: Pace, rounds: Rounds) -> Pace:
        """Remembers tokens and seconds."""
        return memory.after(rounds)

    def observe_undrafted(self, memory: Pace, num_tokens: int, num_requests: int, seconds: float) -> Pace:
        """Counts the steps since the last draft."""
        return memory.after_undrafted(num_requests)

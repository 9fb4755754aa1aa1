"""Two rounds behind: how many drafts fit is searched on old confidences, which ones on the new [DSpark, section 5.2].

K (`admit_limit`) = the unrestricted search on the survivals of two drafted steps ago; this step admits its K largest.
No early stop is needed, so cliffs of the capacity curve are crossed; the two-round gap is a causal barrier, so the
cut never looks past itself; and K is known before the step begins.

Cold start (fewer than two drafted steps seen): K is searched on survivals `cold_confidence`^k of everybody.
Churn: K is scaled by R now / R then. A request at its last position has ceiling 0 and its share goes to the others.
Floors are inside K: max(K, sum of floors) drafts are admitted.

    Delayed().plan(survival, capacity, limits, Delayed().start())
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sparkit.capacity import Capacity
from sparkit.pace import MOST_PROBED, Pace, Probing, reads_prompt
from sparkit.protocols import SCHEDULERS
from sparkit.rounds import Limits, Plan, Rounds
from sparkit.survival import admissible, queue_of, search_limit

LAG = 2


class Found(NamedTuple):
    """What one step's search found."""

    admit_limit: Int[Tensor, ""]
    num_requests: int


@dataclass(frozen=True, slots=True)
class Memory:
    """The searches of the last drafted steps, oldest first, and the pace."""

    found: tuple[Found, ...] = ()
    pace: Pace = field(default_factory=Pace)


@SCHEDULERS.register("delayed", summary="how many from two rounds ago, which from now: crosses cliffs, no waiting")
class Delayed:
    """Method section 6, `delayed`.

    Args:
        cold_confidence: stands in for every confidence until two steps have been seen.
        undrafted_probe_every: while drafting does not pay, every so many steps one drafts all the same.
        undrafted_probe_size: how many requests draft then, at most.
        sizes_blocks: draft as many tokens as made most tokens a second lately (`sparkit.reach`), instead of gamma.
    """

    lossless = True
    batch_independent = False

    def __init__(
        self,
        cold_confidence: float = 0.8,
        undrafted_probe_every: int = 64,
        undrafted_probe_size: int = MOST_PROBED,
        sizes_blocks: bool = False,
    ) -> None:
        if not 0 <= cold_confidence <= 1:
            raise ValueError(f"delayed cold_confidence={cold_confidence!r}: expected 0 to 1")
        self.cold_confidence = cold_confidence
        self.probing = Probing.of(undrafted_probe_every, undrafted_probe_size)
        self.sizes_blocks = sizes_blocks

    def start(self) -> Memory:
        """Nothing seen."""
        return Memory()

    def drafts(self, memory: Memory, limits: Limits, capacity: Capacity) -> bool:
        """See `sparkit.pace`."""
        return memory.pace.drafts(len(limits.ceiling), capacity, self.probing.every, reads_prompt(limits))

    def participants(
        self, memory: Memory, requests: Sequence[int], limits: Limits, capacity: Capacity
    ) -> tuple[bool, ...]:
        """See `sparkit.pace`."""
        return memory.pace.participants(len(requests), capacity, self.probing.size)

    def block_lens(
        self, memory: Memory, requests: Sequence[int], limits: Limits, capacity: Capacity, gamma: int
    ) -> tuple[int, ...] | None:
        """See `sparkit.pace`."""
        return memory.pace.block_lens(limits, capacity, gamma) if self.sizes_blocks else None

    def plan(
        self, survival: Float[Tensor, "R gamma"], capacity: Capacity, limits: Limits, memory: Memory
    ) -> tuple[Plan, Memory]:
        """See `Scheduler`."""
        queue = queue_of(survival, limits)
        admit_limit = self.admit_limit(survival, capacity, limits, memory)
        found = Found(_search(admissible(survival, limits.ceiling), capacity, limits), len(survival))
        plan = queue.admit_first(admit_limit - queue.num_floor)
        return plan, replace(memory, found=(*memory.found, found)[-LAG:])

    def admit_limit(
        self, survival: Float[Tensor, "R gamma"], capacity: Capacity, limits: Limits, memory: Memory
    ) -> Int[Tensor, ""]:
        """K of this step; of `survival` only the shape is read."""
        num, gamma = survival.shape
        if len(memory.found) < LAG:
            cold = torch.full_like(survival, self.cold_confidence).cumprod(-1)
            return _search(admissible(cold, limits.ceiling), capacity, limits)
        old = memory.found[0]
        if old.num_requests == num:
            return old.admit_limit
        return torch.div(old.admit_limit * num, max(1, old.num_requests), rounding_mode="floor").clamp(max=num * gamma)

    def observe(self, memory: Memory, rounds: Rounds) -> Memory:
        """Remembers tokens and seconds."""
        return replace(memory, pace=memory.pace.after(rounds))

    def observe_undrafted(self, memory: Memory, num_tokens: int, num_requests: int, seconds: float) -> Memory:
        """Counts the steps since the last draft."""
        return replace(memory, pace=memory.pace.after_undrafted(num_requests))


def _search(trusted: Float[Tensor, "R gamma"], capacity: Capacity, limits: Limits) -> Int[Tensor, ""]:
    rates = capacity.rates(len(trusted), limits.base_tokens, trusted.numel(), trusted, limits.block_len)
    return search_limit(trusted, limits, rates)

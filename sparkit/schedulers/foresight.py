"""No lag and no peeking: how many drafts fit is searched on survivals predicted before any draft token is drawn.

Predicted a_k = q_1 q_2 ... q_k, where q_k is the conditional acceptance seen lately at position k among requests whose
first confidence fell into the same tenth; c_1 is known before x_1 exists, so the prediction is too. K (`admit_limit`) =
the unrestricted search on these; the K largest survivals of this round are admitted. Crosses cliffs of the capacity
curve, follows a change of load at once, and is lossless: K depends on nothing that a draft token could move.

Cold start: few observations are pulled towards c_1 at the first position, towards the whole position's rate at later
ones, and that towards `cold_confidence`. Labels: position k of a round counts when its prefix was accepted and it was
verified; the position after a fully accepted cut counts by its soft label. Observations fade by 0.999 a round.

    Foresight().plan(survival, capacity, limits, Foresight().start())
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float
from torch import Tensor

from sparkit.capacity import Capacity
from sparkit.labels import conditional_labels
from sparkit.pace import MOST_PROBED, Pace, Probing, reads_prompt
from sparkit.protocols import SCHEDULERS
from sparkit.rounds import Limits, Plan, Rounds
from sparkit.survival import exact, queue_of, search_limit

NUM_BINS = 10
FADING = 0.999  # a round


@dataclass(frozen=True, slots=True)
class Memory:
    """Faded sums by tenth of c_1 and position, and the pace."""

    accepted: Float[Tensor, "bins gamma"] | None = None
    trials: Float[Tensor, "bins gamma"] | None = None
    pace: Pace = field(default_factory=Pace)


@SCHEDULERS.register("foresight", summary="how many from predictions made before drafting, which from now: no lag")
class Foresight:
    """Ours: delayed's freedom without its lag.

    Args:
        cold_confidence: the conditional acceptance assumed where nothing has been seen.
        prior_rounds: how many observations that assumption weighs.
        undrafted_probe_every: while drafting does not pay, every so many steps one drafts all the same.
        undrafted_probe_size: how many requests draft then, at most.
        sizes_blocks: draft as many tokens as made most tokens a second lately (`sparkit.reach`), instead of gamma.
    """

    lossless = True
    batch_independent = False

    def __init__(
        self,
        cold_confidence: float = 0.8,
        prior_rounds: float = 16.0,
        undrafted_probe_every: int = 64,
        undrafted_probe_size: int = MOST_PROBED,
        sizes_blocks: bool = False,
    ) -> None:
        if not 0 <= cold_confidence <= 1:
            raise ValueError(f"foresight cold_confidence={cold_confidence!r}: expected 0 to 1")
        if not prior_rounds > 0:
            raise ValueError(f"foresight prior_rounds={prior_rounds!r}: expected more than 0")
        self.cold_confidence, self.prior_rounds = cold_confidence, prior_rounds
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
        queue, predicted = queue_of(survival, limits), self.predict(survival, memory)
        rates = capacity.rates(len(survival), limits.base_tokens, survival.numel(), predicted, limits.block_len)
        positions = torch.arange(survival.shape[1], device=survival.device)
        admit_limit = search_limit(predicted * (positions < limits.ceiling[:, None]), limits, rates)
        return queue.admit_first(admit_limit - queue.num_floor), memory

    def predict(self, survival: Float[Tensor, "R gamma"], memory: Memory) -> Float[Tensor, "R gamma"]:
        """Expected survivals from the first confidence of each request and nothing else of this round."""
        gamma = survival.shape[1]
        first = exact(survival[:, :1]).nan_to_num(nan=0.0).clamp(0, 1)
        prior = self.prior_rounds
        accepted, trials = memory.accepted, memory.trials
        if accepted is None or trials is None:
            accepted = trials = first.new_zeros(NUM_BINS, gamma)
        by_position = (accepted.sum(0) + prior * self.cold_confidence) / (trials.sum(0) + prior)
        assumed = torch.cat((first, by_position[1:].expand(len(first), -1)), dim=1)
        bins = _bin(first[:, 0])
        return ((accepted[bins] + prior * assumed) / (trials[bins] + prior)).cumprod(-1)

    def observe(self, memory: Memory, rounds: Rounds) -> Memory:
        """Adds the labels of a step."""
        label, is_known = conditional_labels(rounds)
        gamma = label.shape[1]
        bins = _bin(rounds.survival[:, 0].to(label))
        zeros = label.new_zeros(NUM_BINS, gamma)
        fading = FADING ** len(label)
        accepted = (zeros if memory.accepted is None else fading * memory.accepted).index_add(0, bins, label)
        trials = (zeros if memory.trials is None else fading * memory.trials).index_add(0, bins, is_known.to(label))
        return Memory(accepted, trials, memory.pace.after(rounds))

    def observe_undrafted(self, memory: Memory, num_tokens: int, num_requests: int, seconds: float) -> Memory:
        """Counts the steps since the last draft."""
        return replace(memory, pace=memory.pace.after_undrafted(num_requests))


def _bin(first: Float[Tensor, " R"]) -> Tensor:
    return (first.nan_to_num(nan=0.0) * NUM_BINS).long().clamp(0, NUM_BINS - 1)

"""The parts an engine is made of, as objects; names live in `sparkit.compose`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from sparkit.capacity import Capacity
from sparkit.protocols import Calibrator, Confidence, Drafter, Scheduler, Selecting, Sizing, Target, Verifier
from sparkit.rounds import Limits


@dataclass(frozen=True, slots=True)
class Parts:
    """One composition. Without a drafter the engine decodes plainly, through the same step."""

    target: Target
    drafter: Drafter | None
    confidence: Confidence
    calibrator: Calibrator
    scheduler: Scheduler
    verifier: Verifier
    capacity: Capacity

    @property
    def is_lossless(self) -> bool:
        """Every part lossless, or the verifier both lossless and schedule-invariant (design section 2)."""
        if not self.verifier.lossless or (self.drafter is not None and not self.drafter.lossless):
            return False
        chain = (self.confidence, self.calibrator, self.scheduler)
        return self.verifier.schedule_invariant or all(part.lossless for part in chain)

    @property
    def is_batch_independent(self) -> bool:
        """Whether a request's text cannot depend on who else is in the batch."""
        chain = (self.confidence, self.calibrator, self.scheduler)
        return self.verifier.schedule_invariant or all(part.batch_independent for part in chain)


@dataclass(frozen=True, slots=True)
class Memories:
    """The memory of every part that has one: values, so that a state can be copied and compared."""

    confidence: Any
    calibrator: Any
    scheduler: Any

    @classmethod
    def start(cls, parts: Parts) -> "Memories":
        """The memories before the first round."""
        return cls(parts.confidence.start(), parts.calibrator.start(), parts.scheduler.start())


def who_drafts(
    scheduler: Scheduler, memory: Any, requests: Sequence[int], limits: Limits, capacity: Capacity
) -> tuple[bool, ...]:
    """Whether each request drafts in this step: all of them, none, or those that the scheduler names.

    Args:
        scheduler: the part that is asked.
        memory: its memory.
        requests: ids of everything that decodes, row by row.
        limits: of all these rows.
        capacity: what steps cost.

    Raises:
        ValueError: if a scheduler answers for another number of requests.
    """
    if not scheduler.drafts(memory, limits, capacity):
        return (False,) * len(requests)
    return participants(scheduler, memory, requests, limits, capacity)


def participants(
    scheduler: Scheduler, memory: Any, requests: Sequence[int], limits: Limits, capacity: Capacity
) -> tuple[bool, ...]:
    """The same in a step that does draft."""
    if not isinstance(scheduler, Selecting):
        return (True,) * len(requests)
    answers = scheduler.participants(memory, requests, limits, capacity)
    if len(answers) != len(requests):
        raise ValueError(
            f"{type(scheduler).__name__}.participants gave {len(answers)} answers for {len(requests)} requests; "
            "give one a request"
        )
    return answers


def block_lens(
    scheduler: Scheduler, memory: Any, requests: Sequence[int], limits: Limits, capacity: Capacity, gamma: int
) -> tuple[int, ...] | None:
    """How many tokens each request that drafts gets drafted; None: gamma, of which no scheduler need know.

    Args:
        scheduler: the part that is asked.
        memory: its memory.
        requests: ids of everything that drafts, row by row.
        limits: of these rows.
        capacity: what steps cost.
        gamma: the most.

    Raises:
        ValueError: for another number of answers, or one outside 1..gamma.
    """
    lengths = scheduler.block_lens(memory, requests, limits, capacity, gamma) if isinstance(scheduler, Sizing) else None
    if lengths is not None and not (len(lengths) == len(requests) and all(1 <= n <= gamma for n in lengths)):
        raise ValueError(
            f"{type(scheduler).__name__}.block_lens gave {lengths!r} for {len(requests)} requests; "
            f"give each 1 to {gamma} tokens, or None for whole blocks"
        )
    return lengths


def sized(
    scheduler: Scheduler, memory: Any, requests: Sequence[int], limits: Limits, capacity: Capacity, gamma: int
) -> Limits:
    """The limits with the lengths of the blocks in them: each request's own is its ceiling, the longest is drafted.

    Arguments and errors are those of `block_lens`.
    """
    lengths = block_lens(scheduler, memory, requests, limits, capacity, gamma)
    if lengths is None:
        return limits
    ceiling = torch.minimum(limits.ceiling, torch.tensor(lengths, device=limits.ceiling.device))
    return replace(limits, floor=torch.minimum(limits.floor, ceiling), ceiling=ceiling, block_len=max(lengths))

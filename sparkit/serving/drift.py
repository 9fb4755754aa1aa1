"""When traffic changes: code, then chat, then both; temperatures fitted once beside temperatures kept current.

Errors are of survival against "prefix accepted" over whole blocks, the recorded truth, also of drafts that the policy
itself did not verify; a policy learns only from what it verified.

    drift([static, online], blocks, ("code", "chat", "mixed"))
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from sparkit.calibrators.sts import Sts
from sparkit.labels import Records
from sparkit.metrics import ece, perfect_ece
from sparkit.serving.policy import Policy
from sparkit.serving.reference import batch_of, walks
from sparkit.serving.sources import Blocks
from sparkit.survival import survival_of

MIXED = "mixed"
BUSY = 60  # requests at once, where greedy cuts


@dataclass(frozen=True, slots=True)
class Window:
    """Some steps of one policy."""

    policy: str
    phase: str
    first_round: int
    num_rounds: int
    ece: float  # mean over positions
    ece_floor: float  # of a perfect predictor on as many rounds


def records_of(blocks: Blocks) -> Records:
    """Blocks for a fit."""
    whole = torch.full_like(blocks.accepted, blocks.gamma)
    return Records(blocks.logits.double(), blocks.accepted, whole, blocks.accept_rate.double())


def fitted(blocks: Blocks) -> tuple[float, ...]:
    """The static temperatures of some rounds."""
    return tuple(Sts.fit(records_of(blocks))[0].calibration_temperatures.tolist())


def drift(
    policies: Sequence[Policy],
    blocks: Blocks,
    phases: Sequence[str],
    num_requests: int = 16,
    num_steps: int = 240,
    num_windows: int = 8,
    seed: int = 0,
) -> list[Window]:
    """Every policy through all phases; each phase `num_steps` steps, reported in windows of equal length.

    Raises:
        ValueError: for fewer steps than windows.
    """
    if not 1 <= num_windows <= num_steps:
        raise ValueError(f"drift: {num_steps} steps in {num_windows} windows; expected a step or more in each")
    windows = []
    for policy in policies:
        memories, number, seen = policy.start(), 0, 0
        for place, phase in enumerate(phases):
            chosen = blocks if phase == MIXED else blocks.of_domain(phase)
            found: list[tuple[Tensor, Tensor]] = []
            for rows in walks(chosen, num_requests, num_steps, seed + place):
                number += 1
                batch = batch_of(chosen, rows, number)
                confidence = policy.calibrator.calibrate(batch.logits, memories.calibrator)
                found.append((survival_of(confidence), batch.accepted))
                _, memories = policy.step(batch, memories, number)
            edges = [num_steps * place // num_windows for place in range(num_windows + 1)]
            for start, end in itertools.pairwise(edges):
                part = found[start:end]
                survival, accepted = (torch.cat(column) for column in zip(*part, strict=True))
                errors = errors_of(survival, accepted)
                windows.append(Window(policy.name, phase, seen + start * num_requests, len(accepted), *errors))
            seen += num_steps * num_requests
    return windows


def errors_of(survival: Float[Tensor, "N gamma"], accepted: Tensor) -> tuple[float, float]:
    """Mean ECE over positions, and a perfect predictor's."""
    pairs = [(survival[:, k], accepted > k) for k in range(survival.shape[1])]
    found, floors = [ece(s, y) for s, y in pairs], [perfect_ece(s) for s, _ in pairs]
    return _mean(found), _mean(floors)


def _mean(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known)


def fed_and_frozen(
    policy: Policy, new: Blocks, num_fed: int = 300, batch: int = 10, seed: int = 0
) -> tuple[float, float]:
    """Errors in a new domain after `num_fed` rounds of one request in eight, the calibrator then left alone.

    The other requests judge it; they were never learned from.
    """
    is_fed = torch.arange(len(new.first)) % 8 == 0
    learn, judge = new.keep(is_fed), new.keep(~is_fed)
    memories = policy.start()
    for number, rows in enumerate(walks(learn, batch, -(-num_fed // batch), seed), 1):
        _, memories = policy.step(batch_of(learn, rows, number), memories, number)
    survival = survival_of(policy.calibrator.calibrate(judge.logits, memories.calibrator))
    return errors_of(survival, judge.accepted)

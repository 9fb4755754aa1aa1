"""Why the scheduler cut where it did: the sorted pool of survivals and Theta along the admission path.

Theta_l = tau_l * SPS(R, B_l) [DSpark Algorithm 1]; `sparkit.survival.throughput_curve` draws it after verification.
The early stop is the last point before Theta first fails to rise; the global maximum looks at the whole path.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparkit.rounds import Round
    from sparkit_tui.model.header import Rates


@dataclass(frozen=True, slots=True)
class Candidate:
    """One draft token that wanted to be verified."""

    request: int
    position: int  # 1-based
    survival: float
    is_admitted: bool


@dataclass(frozen=True, slots=True)
class Admission:
    """One step's pool and curve."""

    step: int
    num_requests: int
    base_tokens: int
    candidates: tuple[Candidate, ...]  # admission order: survival descending, then position, then request
    throughput: tuple[float, ...]  # Theta after 0, 1, 2, ... admissions; () without a capacity
    num_admitted: int
    num_probes: int
    early_stop: int
    best: int
    speed: tuple[tuple[int, float], ...]  # (batch_tokens, rounds per second)


def admission_of(rounds: Sequence[Round], capacity: Rates | None) -> Admission | None:
    """The pool of one engine step; None when nothing was drafted."""
    drafted = [r for r in rounds if r.kind == "drafted"]
    if not drafted:
        return None
    candidates = pool_of(drafted)
    theta, speed = _curve(drafted, len(candidates), capacity)
    return Admission(
        step=drafted[0].step,
        num_requests=drafted[0].num_requests,
        base_tokens=drafted[0].base_tokens,
        candidates=candidates,
        throughput=theta,
        num_admitted=sum(r.verify_len for r in drafted),
        num_probes=sum(r.is_probe for r in drafted),
        early_stop=early_stop(theta),
        best=max(range(len(theta)), key=theta.__getitem__, default=0),
        speed=speed,
    )


def pool_of(drafted: Sequence[Round]) -> tuple[Candidate, ...]:
    """All candidates with survival > 0, in admission order."""
    pool = [
        (-a, k, row, Candidate(r.request, k + 1, a, k < r.verify_len))
        for row, r in enumerate(drafted)
        for k, a in enumerate(r.survival)
        if a > 0
    ]
    return tuple(entry[3] for entry in sorted(pool, key=lambda entry: entry[:3]))


def _curve(
    drafted: Sequence[Round], num: int, capacity: Rates | None
) -> tuple[tuple[float, ...], tuple[tuple[int, float], ...]]:
    if capacity is None:
        return (), ()
    import torch

    from sparkit.survival import throughput_curve

    width = max(len(r.survival) for r in drafted)
    rows = [[*r.survival, *([0.0] * (width - len(r.survival)))] for r in drafted]
    first = drafted[0]
    survival = torch.tensor(rows, dtype=torch.float64)
    curve = throughput_curve(survival, capacity.rounds_per_second, first.base_tokens)
    sizes = range(first.base_tokens, first.base_tokens + num + 1)
    speed = tuple((size, capacity.rounds_per_second(first.num_requests, size)) for size in sizes)
    return tuple(curve.throughput.tolist()), speed


def early_stop(throughput: Sequence[float]) -> int:
    """Where Algorithm 1 breaks: it admits while Theta rises."""
    for i in range(1, len(throughput)):
        if throughput[i] <= throughput[i - 1]:
            return i - 1
    return max(len(throughput) - 1, 0)

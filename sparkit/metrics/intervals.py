"""Bootstrap intervals of ratios, whole groups drawn again."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from sparkit.decisions import hash_address, to_uniform

NUM_RESAMPLES = 2000


def bootstrap_ratios(
    totals: Float[Tensor, " groups"], counts: Float[Tensor, " groups"], seed: int = 0
) -> Float[Tensor, " resamples"]:
    """sum(totals) / sum(counts) when whole groups are drawn again, many times.

    The draws have addresses (seed, resample, place), so the interval of a run is part of its result.
    """
    num = len(totals)
    words = (torch.tensor(seed), torch.arange(NUM_RESAMPLES)[:, None], torch.arange(num)[None])
    picks = (to_uniform(hash_address(*words)) * num).long().clamp(max=num - 1)
    return totals.double()[picks].sum(-1) / counts.double()[picks].sum(-1)


def percentile_interval(ratios: Float[Tensor, " resamples"], level: float = 0.95) -> tuple[float, float]:
    """The middle `level` of resampled values."""
    tail = (1 - level) / 2
    low, high = ratios.quantile(torch.tensor([tail, 1 - tail], dtype=torch.float64)).tolist()
    return low, high


def bootstrap_interval(
    totals: Float[Tensor, " groups"], counts: Float[Tensor, " groups"], level: float = 0.95, seed: int = 0
) -> tuple[float, float] | None:
    """Percentile interval of sum(totals) / sum(counts) when whole groups are drawn again; None below two groups."""
    return percentile_interval(bootstrap_ratios(totals, counts, seed), level) if len(totals) >= 2 else None


def macro_interval(parts: Sequence[Sequence[tuple[float, float]]], seed: int = 0) -> tuple[float, float] | None:
    """The same for the unweighted mean of several ratios; each part lists the (total, count) of its groups."""
    if not parts or any(len(part) < 2 for part in parts):
        return None
    tables = [torch.tensor(part, dtype=torch.float64) for part in parts]
    ratios = [bootstrap_ratios(table[:, 0], table[:, 1], seed + i) for i, table in enumerate(tables)]
    return percentile_interval(torch.stack(ratios).mean(0))

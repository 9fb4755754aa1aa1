"""How honest predictions are: reliability, calibration error with its floor, and the area under the ROC curve.

>>> round(ece(torch.tensor([0.95, 1.0]), torch.tensor([1, 0])), 3)
0.475
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

NUM_BINS = 10


@dataclass(frozen=True, slots=True)
class Reliability:
    """Predictions in `num_bins` equal bins of [0, 1], the last one closed."""

    count: tuple[int, ...]
    confidence: tuple[float | None, ...]  # mean prediction of the bin (not its centre); None when empty
    outcome: tuple[float | None, ...]  # share that came true; None when empty

    @property
    def num(self) -> int:
        """Predictions in all bins."""
        return sum(self.count)

    @property
    def ece(self) -> float | None:
        """Expected calibration error [Naeini 2015]: count-weighted |outcome - confidence|; None without data."""
        if not self.num:
            return None
        gaps = zip(self.count, self.confidence, self.outcome, strict=True)
        return sum(n * abs(y - c) for n, c, y in gaps if c is not None and y is not None) / self.num


def bin_of(prediction: Float[Tensor, "*N"], num_bins: int = NUM_BINS) -> Int[Tensor, "*N"]:
    """0 falls into the first bin, 1 into the last."""
    return (prediction * num_bins).long().clamp(0, num_bins - 1)


def reliability(
    prediction: Float[Tensor, " N"], outcome: Shaped[Tensor, " N"], num_bins: int = NUM_BINS
) -> Reliability:
    """A reliability diagram's numbers.

    Raises:
        ValueError: for a prediction that is nan or outside [0, 1].
    """
    if not bool(((prediction >= 0) & (prediction <= 1)).all()):
        raise ValueError("reliability: expected predictions from 0 to 1; calibrate logits first, and drop nan")
    bins, prediction, truth = bin_of(prediction.double(), num_bins), prediction.double(), outcome.double()
    count = torch.bincount(bins, minlength=num_bins)
    sums = [torch.bincount(bins, weights=values, minlength=num_bins) for values in (prediction, truth)]
    means = [[s / n if n else None for s, n in zip(x.tolist(), count.tolist(), strict=True)] for x in sums]
    return Reliability(tuple(count.tolist()), tuple(means[0]), tuple(means[1]))


def ece(prediction: Float[Tensor, " N"], outcome: Shaped[Tensor, " N"]) -> float | None:
    """Expected calibration error in 10 equal bins; None without data."""
    return reliability(prediction, outcome).ece


def perfect_ece(prediction: Float[Tensor, " N"], num_bins: int = NUM_BINS) -> float | None:
    """The error that a perfect predictor would show on as many rounds: print it beside every ECE.

    A bin's gap is a sum of independent (y - a) with variance sum a (1 - a): E|gap| = sqrt(2 / pi * variance), normal
    approximation. Uniform predictions: 5.7% on 300 rounds, 3.1% on 1,000, 1.0% on 10,000, 0.6% on 30,000.
    """
    if not len(prediction):
        return None
    values = prediction.double()
    variance = torch.bincount(bin_of(values, num_bins), weights=values * (1 - values), minlength=num_bins)
    return float((2 / math.pi * variance).sqrt().sum()) / len(values)


def auc(score: Float[Tensor, " N"], outcome: Shaped[Tensor, " N"]) -> float | None:
    """P(a true case scores above a false one), ties counting half [Mann, Whitney 1947]; None with one class only."""
    is_true = outcome.bool()
    num_true = int(is_true.sum())
    num_false = len(is_true) - num_true
    if not num_true or not num_false:
        return None
    _, place, count = torch.unique(score.double(), return_inverse=True, return_counts=True)
    last = count.cumsum(0).double()
    mean_rank = last - (count.double() - 1) / 2
    above = float(mean_rank[place][is_true].sum()) - num_true * (num_true + 1) / 2
    return above / (num_true * num_false)

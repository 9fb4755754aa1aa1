"""Numbers over rounds: acceptance by position, tau with its interval, and how honest the confidences were.

Definitions (design section 5): tau = tokens emitted by rounds / request-rounds, a round cut by a stop counting what it
emitted, the prefill's own token left out. Rates at position k count only rounds with verify_len >= k and are None
below 30 of them. ece and auc: survival against "prefix k accepted", 10 equal bins, count-weighted over positions.
Pure readers of `Round`; nothing here touches a model.

    measure(rounds, gamma=7).tau
"""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from sparkit.decisions import hash_address, to_uniform
from sparkit.rounds import Round

NUM_BINS = 10
MIN_ROUNDS = 30  # below that a rate is no rate
NUM_RESAMPLES = 2000


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


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Drafted rounds as columns; position k is column k - 1."""

    survival: Float[Tensor, "N gamma"]
    accepted: Int[Tensor, " N"]
    verify_len: Int[Tensor, " N"]

    @classmethod
    def of(cls, rounds: Sequence[Round], gamma: int) -> "Outcomes":
        """Rounds that verified at least one draft."""
        kept = [one for one in rounds if one.verify_len > 0]
        survival = torch.tensor([one.survival for one in kept], dtype=torch.float64).view(len(kept), gamma)
        accepted = torch.tensor([one.accepted for one in kept], dtype=torch.int64)
        return cls(survival, accepted, torch.tensor([one.verify_len for one in kept], dtype=torch.int64))

    @property
    def gamma(self) -> int:
        """Draft positions."""
        return self.survival.shape[1]

    def at(self, position: int) -> tuple[Float[Tensor, " n"], Bool[Tensor, " n"]]:
        """Survival and "prefix accepted" at a 1-based position, of the rounds that verified it."""
        rows = self.verify_len >= position
        return self.survival[rows, position - 1], self.accepted[rows] >= position

    def num_at(self, position: int) -> int:
        """Rounds that verified a position."""
        return int((self.verify_len >= position).sum())

    def over_positions(self, score: Callable[[Tensor, Tensor], float | None]) -> float | None:
        """The count-weighted mean of a score over the positions that have one."""
        found = [(self.num_at(k), score(*self.at(k))) for k in range(1, self.gamma + 1)]
        known = [(num, value) for num, value in found if value is not None and num]
        return sum(num * value for num, value in known) / sum(num for num, _ in known) if known else None


def prefix_acceptance(outcomes: Outcomes) -> tuple[float | None, ...]:
    """Share of rounds whose first k drafts were accepted, among those that verified k."""
    return tuple(_rate(outcomes, k, given=0) for k in range(1, outcomes.gamma + 1))


def conditional_acceptance(outcomes: Outcomes) -> tuple[float | None, ...]:
    """The same among rounds whose first k - 1 drafts were accepted."""
    return tuple(_rate(outcomes, k, given=k - 1) for k in range(1, outcomes.gamma + 1))


def _rate(outcomes: Outcomes, position: int, given: int) -> float | None:
    rows = outcomes.verify_len >= position
    trials = int((rows & (outcomes.accepted >= given)).sum())
    if int(rows.sum()) < MIN_ROUNDS or not trials:
        return None
    return int((rows & (outcomes.accepted >= position)).sum()) / trials


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


@dataclass(frozen=True, slots=True)
class Measures:
    """What a run's rounds say; the fields are those of `compose --json`. None: no data."""

    num_rounds: int  # request-rounds, prefill excluded
    num_new_tokens: int  # emitted, the prefill's own token included
    undrafted_share: float | None  # of rounds with verify_len 0
    tau: float | None
    tau_interval: tuple[float, float] | None  # 95%, bootstrap by prompt
    accepted: float | None  # mean drafts kept per request-round
    num_at_position: tuple[int, ...]
    conditional_acceptance: tuple[float | None, ...]
    prefix_acceptance: tuple[float | None, ...]
    verified_acceptance: float | None  # (accepted + bonus) / (verified + bonus)
    mean_verify_len: float | None
    ece: float | None
    ece_floor: float | None  # of a perfect predictor on as many rounds
    auc: float | None
    draft_seconds: float | None  # means per engine step
    schedule_seconds: float | None
    verify_seconds: float | None
    overhead_seconds: float | None


def measure(rounds: Sequence[Round], gamma: int, prompt_of: Callable[[Round], Hashable] | None = None) -> Measures:
    """All of it; `prompt_of` says which prompt a round belongs to (None: every request is one)."""
    decoded = [one for one in rounds if one.kind != "prefill"]
    outcomes = Outcomes.of(decoded, gamma)
    num, group = len(decoded), prompt_of or (lambda one: one.request)
    emitted, verified = sum(one.tau for one in decoded), sum(one.verify_len for one in decoded)
    steps = list({one.step: one.seconds for one in rounds}.values())
    return Measures(
        num_rounds=num,
        num_new_tokens=sum(one.tau for one in rounds),
        undrafted_share=_mean([one.verify_len == 0 for one in decoded]),
        tau=emitted / num if num else None,
        tau_interval=_tau_interval(decoded, group),
        accepted=_mean([_kept(one) for one in decoded]),
        num_at_position=tuple(outcomes.num_at(k) for k in range(1, gamma + 1)),
        conditional_acceptance=conditional_acceptance(outcomes),
        prefix_acceptance=prefix_acceptance(outcomes),
        verified_acceptance=(sum(one.accepted for one in decoded) + num) / (verified + num) if num else None,
        mean_verify_len=verified / num if num else None,
        ece=outcomes.over_positions(ece),
        ece_floor=outcomes.over_positions(lambda survival, _: perfect_ece(survival)),
        auc=outcomes.over_positions(auc),
        draft_seconds=_mean([s.draft for s in steps]),
        schedule_seconds=_mean([s.schedule for s in steps]),
        verify_seconds=_mean([s.verify for s in steps]),
        overhead_seconds=_mean([s.overhead for s in steps]),
    )


def _kept(one: Round) -> int:
    """Drafts that reached the text: a stop inside the block drops the rest."""
    return sum(token.origin == "draft" for token in one.tokens)


def _mean(values: Sequence[float | int]) -> float | None:
    return sum(values) / len(values) if values else None


def tau_groups(rounds: Sequence[Round], group: Callable[[Round], Hashable]) -> list[tuple[float, float]]:
    """(tokens emitted, rounds) of every group, prefill excluded."""
    totals: dict[Hashable, list[int]] = {}
    for one in rounds:
        if one.kind != "prefill":
            entry = totals.setdefault(group(one), [0, 0])
            entry[0], entry[1] = entry[0] + one.tau, entry[1] + 1
    return [(float(total), float(count)) for total, count in totals.values()]


def _tau_interval(rounds: Sequence[Round], group: Callable[[Round], Hashable]) -> tuple[float, float] | None:
    table = torch.tensor(tau_groups(rounds, group), dtype=torch.float64).view(-1, 2)
    return bootstrap_interval(table[:, 0], table[:, 1])

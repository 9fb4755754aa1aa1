"""Counts by position, kept as rounds arrive: acceptance, reliability bins, drift; screens only divide.

Rates at position k count only rounds with verify_len >= k: a position that was cut says nothing (design section 5).
ECE: survival against "prefix k accepted", 10 equal bins [Naeini 2015], before (raw) and after (calibrated).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import nan, pi, sqrt
from typing import TYPE_CHECKING

from sparkit_tui.model.cells import sigmoid

if TYPE_CHECKING:
    from sparkit.rounds import Round

NUM_BINS = 10
DRIFT_WINDOW = 50  # verified rounds in one point of the drift line
LEAST_ROUNDS = 30  # below, a rate by position is not a rate


@dataclass(slots=True)
class Bins:
    """A reliability diagram in counts."""

    num: list[int] = field(default_factory=lambda: [0] * NUM_BINS)
    predicted: list[float] = field(default_factory=lambda: [0.0] * NUM_BINS)
    observed: list[int] = field(default_factory=lambda: [0] * NUM_BINS)
    variance: list[float] = field(default_factory=lambda: [0.0] * NUM_BINS)  # sum of a (1 - a)

    def add(self, predicted: float, is_hit: bool) -> None:
        """One prediction; 1.0 belongs to the last bin, nan counts as 0."""
        value = min(max(predicted, 0.0), 1.0) if predicted == predicted else 0.0
        index = min(int(value * NUM_BINS), NUM_BINS - 1)
        self.num[index] += 1
        self.predicted[index] += value
        self.observed[index] += is_hit
        self.variance[index] += value * (1 - value)

    @property
    def total(self) -> int:
        """Predictions so far."""
        return sum(self.num)

    @property
    def ece(self) -> float:
        """Mean |predicted - observed| weighted by count; nan without data."""
        gaps = (abs(p - o) for p, o in zip(self.predicted, self.observed, strict=True))
        return sum(gaps) / self.total if self.total else nan

    @property
    def floor(self) -> float:
        """What a perfect predictor would show at these counts: the mean of |noise|, bin by bin."""
        if not self.total:
            return nan
        return sum(sqrt(2 / pi * variance) for variance in self.variance) / self.total

    def points(self) -> list[tuple[float, float, int]]:
        """(mean predicted, share observed, count) of every bin that has data."""
        bins = zip(self.num, self.predicted, self.observed, strict=True)
        return [(p / n, o / n, n) for n, p, o in bins if n]


def merged(many: Sequence[Bins]) -> Bins:
    """All positions in one diagram."""
    total = Bins()
    for one in many:
        for i in range(NUM_BINS):
            total.num[i] += one.num[i]
            total.predicted[i] += one.predicted[i]
            total.observed[i] += one.observed[i]
    return total


@dataclass(slots=True)
class Tally:
    """What a run has shown so far, by 0-based position."""

    gamma: int
    num_rounds: int = 0  # request-rounds, prefill excluded
    num_undrafted: int = 0
    num_tokens: int = 0  # emitted by rounds, the prefill's own token excluded
    num_accepted: int = 0
    num_verified: int = 0
    reached: list[int] = field(default_factory=list)  # verify_len >= k
    prefix: list[int] = field(default_factory=list)  # of those, accepted >= k
    eligible: list[int] = field(default_factory=list)  # of those, accepted >= k - 1
    raw: list[Bins] = field(default_factory=list)
    calibrated: list[Bins] = field(default_factory=list)
    drift: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=240))  # ECE raw, calibrated
    _window: tuple[Bins, Bins] = field(default_factory=lambda: (Bins(), Bins()))
    _in_window: int = 0

    def __post_init__(self) -> None:
        for counts in (self.reached, self.prefix, self.eligible):
            counts.extend([0] * self.gamma)
        self.raw.extend(Bins() for _ in range(self.gamma))
        self.calibrated.extend(Bins() for _ in range(self.gamma))

    def add(self, round_: Round) -> None:
        """Counts one request-round."""
        if round_.kind == "prefill":
            return
        self.num_rounds += 1
        self.num_tokens += len(round_.tokens)
        self.num_undrafted += round_.verify_len == 0
        self.num_accepted += round_.accepted
        self.num_verified += round_.verify_len
        if round_.kind == "drafted":
            self._positions(round_)

    def _positions(self, round_: Round) -> None:
        survival = 1.0
        for k in range(min(round_.verify_len, self.gamma)):
            survival *= sigmoid(round_.logits[k]) if round_.logits[k] == round_.logits[k] else 0.0
            is_hit = round_.accepted > k
            self.reached[k] += 1
            self.prefix[k] += is_hit
            self.eligible[k] += round_.accepted >= k
            self._predict(k, survival, round_.survival[k], is_hit)
        self._in_window += round_.verify_len > 0
        if self._in_window >= DRIFT_WINDOW:
            self.drift.append((self._window[0].ece, self._window[1].ece))
            self._window, self._in_window = (Bins(), Bins()), 0

    def _predict(self, k: int, raw: float, calibrated: float, is_hit: bool) -> None:
        for bins, value in ((self.raw[k], raw), (self.calibrated[k], calibrated)):
            bins.add(value, is_hit)
        self._window[0].add(raw, is_hit)
        self._window[1].add(calibrated, is_hit)

    @property
    def tau(self) -> float:
        """Tokens a round, bonus included."""
        return self.num_tokens / self.num_rounds if self.num_rounds else nan

    @property
    def mean_verify_len(self) -> float:
        """Drafts sent a round."""
        return self.num_verified / self.num_rounds if self.num_rounds else nan

    @property
    def verified_acceptance(self) -> float:
        """(accepted + 1) / (verified + 1) over rounds [DSpark fig. 5]."""
        spent = self.num_verified + self.num_rounds
        return (self.num_accepted + self.num_rounds) / spent if self.num_rounds else nan

    def conditional_acceptance(self, least: int = LEAST_ROUNDS) -> list[float]:
        """P(draft k accepted | the ones before it were); nan below `least` rounds."""
        counts = zip(self.prefix, self.eligible, self.reached, strict=True)
        return [p / e if e and n >= least else nan for p, e, n in counts]

    def prefix_acceptance(self, least: int = LEAST_ROUNDS) -> list[float]:
        """P(prefix up to k accepted); nan below `least` rounds."""
        return [p / n if n >= max(least, 1) else nan for p, n in zip(self.prefix, self.reached, strict=True)]


def over_positions(many: Sequence[Bins], read: Callable[[Bins], float]) -> float:
    """The count-weighted mean of a score over the positions that have data; nan without any."""
    total = sum(bins.total for bins in many)
    return sum(bins.total * read(bins) for bins in many if bins.total) / total if total else nan

"""What drafted steps brought and cost, in tokens of plain decoding: faded sums, priced on a capacity curve."""

from typing import NamedTuple

from sparkit.capacity import Capacity

DOUBT = 0.05  # of plain decoding's tokens, to be won beyond them: a curve is known to some percent, plain is safe
FORGOTTEN = 1e-3  # a step of this weight is dropped
MOST_KEPT = 64  # answers about a curve, and curves


class Step(NamedTuple):
    """A drafted step, as far as a curve prices it."""

    num_requests: int
    batch_tokens: int
    base_tokens: int  # of the same step without a draft
    block_len: int | None = None  # None: gamma


def _by_size(item: tuple[Step, float]) -> tuple[int, ...]:
    """An order of steps; a block length may be None."""
    return tuple(-1 if number is None else number for number in item[0])


class Sums(NamedTuple):
    """Drafted steps at about one number of requests, forgotten exponentially."""

    gain: float = 0.0  # tokens beyond one a request
    steps: tuple[tuple[Step, float], ...] = ()  # with their weights: a curve with a cliff says nothing at a mean size

    def plus(self, step: Step, accepted: int, num_drafted: int, forgetting: float) -> "Sums":
        """One more step, in which all its requests drafted, or only some; so much of it is then known."""
        kept = self.faded(forgetting**num_drafted)
        steps = dict(kept.steps)
        steps[step] = steps.get(step, 0.0) + num_drafted / step.num_requests
        return Sums(kept.gain + accepted, tuple(sorted(steps.items(), key=_by_size)))

    def faded(self, factor: float) -> "Sums":
        """The same with less weight."""
        steps = tuple((step, factor * weight) for step, weight in self.steps if weight > FORGOTTEN)
        return Sums(factor * self.gain, steps)

    @property
    def num_rounds(self) -> float:
        """Request-rounds, as far as they are remembered."""
        return sum(weight * step.num_requests for step, weight in self.steps)


class Prices:
    """What steps cost on a curve, looked up in a list: a hundred remembered steps are priced at once.

    >>> from sparkit.capacity import from_rates
    >>> Prices(from_rates((1.0, 0.5))).lost(Step(1, 2, 1))  # a plain token, and a twentieth of the two in all
    1.1
    """

    def __init__(self, capacity: Capacity) -> None:
        self.capacity = capacity
        self._verify: list[float] = []
        self._by_requests: dict[tuple[int, int | None], tuple[float, float]] = {}
        self._won: dict[int, tuple[Sums, float]] = {}

    def won(self, sums: Sums) -> float:
        """Tokens beyond what plain decoding would have made in the same seconds, less the doubt.

        While nothing is drafted the same object is asked about in every step, so the last answers are kept, and the
        objects with them: no other can have the same id.
        """
        kept = self._won.get(id(sums))
        if kept is None:
            if len(self._won) >= MOST_KEPT:
                self._won.clear()
            lost = sum(weight * self.lost(step) for step, weight in sums.steps)
            kept = self._won[id(sums)] = sums, sums.gain - lost
        return kept[1]

    def lost(self, step: Step) -> float:
        """Tokens that plain decoding would have made in the seconds that draft and verification took, and the doubt."""
        num, batch, base, block_len = step
        if batch >= len(self._verify):
            sizes = range(len(self._verify), 2 * batch + 1)
            self._verify += [self.capacity.verify_seconds(max(1, size)) for size in sizes]
        if (num, block_len) not in self._by_requests:
            curve = self.capacity
            beside = curve.draft_seconds(num, block_len) + curve.overhead_seconds(num) - curve.plain_overhead.at(num)
            self._by_requests[num, block_len] = beside, num * curve.undrafted_rate(num, num)
        beside, plain_rate = self._by_requests[num, block_len]
        lost = (beside + self._verify[batch] - self._verify[base]) * plain_rate
        return lost + DOUBT * (num + lost)


_kept: dict[int, Prices] = {}


def prices(capacity: Capacity) -> Prices:
    """The prices of a curve, kept by its identity: to hash its points takes longer than what a step looks up.

    The curve is kept with them, so no other can have the same id.
    """
    found = _kept.get(id(capacity))
    if found is None:
        if len(_kept) >= MOST_KEPT:
            _kept.clear()
        found = _kept[id(capacity)] = Prices(capacity)
    return found

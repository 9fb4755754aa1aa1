"""Whether drafting pays at all: tokens and seconds of the drafted steps seen lately, by number of requests.

Draft while (sum of tokens) / (sum of seconds) over drafted steps at this R exceeds R * undrafted_rate(R): the paper's
own stated limitation is that it always drafts [DSpark, section 7; design section 4]. Decided from lagged steps only,
so the answer is known before anything is drawn. Both sides are priced on the capacity curve (its draft seconds count
catching up too): the wall seconds of drafted steps against a plain step profiled in a quieter moment would stop
drafting for no reason but the neighbours' load.

A tau is a noisy number, so 64 request-rounds are remembered. While nothing is drafted they fade four times as fast and
every 64th step is a probe: it meets little but itself, and a text that turned easy is drafted again at once. Steps
that carry prefill are left out: their seconds belong to somebody's prompt.

>>> from sparkit.capacity import flat
>>> Pace().drafts(8, flat(), probe_every=64)
True
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

from sparkit.capacity import Capacity
from sparkit.rounds import Rounds

FORGETTING = 1 - 1 / 64  # weight of a drafted request-round against the next one at the same R
FADING = FORGETTING**4  # of an undrafted step
FORGOTTEN = 1e-3  # a size of this weight is dropped
MIN_ROUNDS = 32  # request-rounds; before that many, drafting has not had its chance


class Sums(NamedTuple):
    """Drafted steps at one number of requests, forgotten exponentially."""

    num_rounds: int  # request-rounds seen, nothing forgotten
    tokens: float
    sizes: tuple[tuple[int, float], ...]  # batch_tokens -> weight of the steps of that size

    def plus(self, num_requests: int, tokens: int, batch_tokens: int) -> "Sums":
        """One more step."""
        kept = self.faded(FORGETTING**num_requests)
        sizes = dict(kept.sizes)
        sizes[batch_tokens] = sizes.get(batch_tokens, 0.0) + 1.0
        return Sums(self.num_rounds + num_requests, kept.tokens + tokens, tuple(sorted(sizes.items())))

    def faded(self, factor: float) -> "Sums":
        """The same with less weight."""
        sizes = tuple((size, factor * weight) for size, weight in self.sizes if weight > FORGOTTEN)
        return Sums(self.num_rounds, factor * self.tokens, sizes)

    def priced(self, num_requests: int, capacity: Capacity) -> float:
        """Seconds of the steps on a curve, size by size: a curve with a cliff says nothing at the mean size."""
        return sum(weight / capacity.rounds_per_second(num_requests, size) for size, weight in self.sizes)


@dataclass(frozen=True, slots=True)
class Pace:
    """A value: schedulers carry it in their memory."""

    by_requests: tuple[tuple[int, Sums], ...] = ()
    num_undrafted: int = 0  # steps since the last drafted one

    def drafts(self, num_requests: int, capacity: Capacity, probe_every: int) -> bool:
        """Whether the next step drafts."""
        if self.num_undrafted + 1 >= probe_every:
            return True
        sums = dict(self.by_requests).get(num_requests)
        if sums is None or sums.num_rounds < MIN_ROUNDS:
            return True
        plain = num_requests * capacity.undrafted_rate(num_requests, num_requests)
        return sums.tokens > plain * sums.priced(num_requests, capacity)

    def after(self, rounds: Rounds) -> "Pace":
        """The memory after a drafted step."""
        num, base = len(rounds.requests), rounds.limits.base_tokens
        if base != num:
            return replace(self, num_undrafted=0)
        accepted = int(rounds.verdict.accepted.sum())
        batch_tokens = base + int(rounds.plan.verify_len.sum())
        table = dict(self.by_requests)
        table[num] = table.get(num, Sums(0, 0.0, ())).plus(num, accepted + num, batch_tokens)
        return Pace(tuple(sorted(table.items())), 0)

    def after_undrafted(self) -> "Pace":
        """The memory after a step that was not drafted."""
        faded = tuple((num, sums.faded(FADING)) for num, sums in self.by_requests)
        return Pace(faded, self.num_undrafted + 1)


def check_probe_every(value: int) -> int:
    """The parameter `undrafted_probe_every`, checked."""
    if value < 1:
        raise ValueError(f"undrafted_probe_every={value}: expected 1 or more steps")
    return value

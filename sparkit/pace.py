"""Whether drafting pays at all: tokens and seconds of the drafted steps seen lately, by number of requests.

Draft while (sum of tokens) / (sum of seconds) over drafted steps at this R exceeds R * undrafted_rate(R): the paper's
own stated limitation is that it always drafts [DSpark, section 7; design section 4]. Decided from lagged steps only,
so the answer is known before anything is drawn. While nothing is drafted every 64th step is a probe, or a change
would never be noticed. Steps that carry prefill are left out: their seconds belong to somebody's prompt.

>>> from sparkit.capacity import flat
>>> Pace().drafts(8, flat(), probe_every=64)
True
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

from sparkit.capacity import Capacity
from sparkit.rounds import Rounds

FORGETTING = 0.9  # weight of a drafted step against the next one at the same R
FORGOTTEN = 1e-6  # a size of this weight is dropped: about 130 steps ago
MIN_STEPS = 8  # before that many, drafting has not had its chance (the first one absorbs whole prompts)


class Sums(NamedTuple):
    """Drafted steps at one number of requests, forgotten exponentially."""

    num_steps: int
    tokens: float
    seconds: float
    sizes: tuple[tuple[int, float], ...]  # batch_tokens -> weight of the steps of that size

    def plus(self, tokens: int, seconds: float, batch_tokens: int) -> "Sums":
        """One more step."""
        sizes = {size: FORGETTING * weight for size, weight in self.sizes if weight > FORGOTTEN}
        sizes[batch_tokens] = sizes.get(batch_tokens, 0.0) + 1.0
        totals = (FORGETTING * self.tokens + tokens, FORGETTING * self.seconds + seconds)
        return Sums(self.num_steps + 1, *totals, tuple(sorted(sizes.items())))

    def priced(self, num_requests: int, capacity: Capacity) -> float:
        """Seconds of the same steps on a curve, size by size: a curve with a cliff says nothing at the mean size."""
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
        if sums is None or sums.num_steps < MIN_STEPS:
            return True
        # an analytic curve's seconds are not this clock's: the same steps are priced on the curve itself
        seconds = sums.seconds if capacity.is_measured else sums.priced(num_requests, capacity)
        plain = num_requests * capacity.undrafted_rate(num_requests, num_requests)
        return sums.tokens > plain * seconds

    def after(self, rounds: Rounds) -> "Pace":
        """The memory after a drafted step."""
        num, base = len(rounds.requests), rounds.limits.base_tokens
        if base != num:
            return replace(self, num_undrafted=0)
        accepted = int(rounds.verdict.accepted.sum())
        batch_tokens = base + int(rounds.plan.verify_len.sum())
        table = dict(self.by_requests)
        sums = table.get(num, Sums(0, 0.0, 0.0, ()))
        table[num] = sums.plus(accepted + num, rounds.seconds, batch_tokens)
        return Pace(tuple(sorted(table.items())), 0)

    def after_undrafted(self) -> "Pace":
        """The memory after a step that was not drafted."""
        return replace(self, num_undrafted=self.num_undrafted + 1)


def check_probe_every(value: int) -> int:
    """The parameter `undrafted_probe_every`, checked."""
    if value < 1:
        raise ValueError(f"undrafted_probe_every={value}: expected 1 or more steps")
    return value

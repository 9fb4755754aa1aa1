"""Whether drafting pays at all: what the drafted steps seen lately brought and cost, by number of requests.

Draft while the tokens beyond plain decoding's one a request exceed those that plain decoding would have made in the
extra seconds of the drafted steps:

    sum (tokens - R)  >  sum (seconds of the drafted step - seconds of the same step undrafted) * R undrafted_rate(R)

which without prefill is tokens per second against tokens per second: the paper's own stated limitation is that it
always drafts [DSpark, section 7; design section 4]. A prompt that is read in the same step costs both sides the same
and drops out. Decided from lagged steps only, so the answer is known before anything is drawn. Both sides are priced on
the capacity curve (its draft seconds count catching up too): the wall seconds of drafted steps against a plain step
profiled in a quieter moment would stop drafting for no reason but the neighbours' load.

A tau is a noisy number, so 64 request-rounds are remembered, of numbers of requests that are about the same. While
nothing is drafted every 64th step is a probe. A request alone fades four times as fast then, so that a probe meets
little but itself, and a text that turned easy is drafted again at once; R requests fade 1/R as fast, since their mean
moves slower. In a probe at most four requests draft and the others rest: a draft needs every feature since the last
one absorbed, which for sixty-four requests costs as much as some plain steps.

>>> from sparkit.capacity import flat
>>> Pace().drafts(8, flat(), probe_every=64)
True
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

from sparkit.capacity import Capacity
from sparkit.rounds import Rounds

FORGETTING = 1 - 1 / 64  # weight of a drafted request-round against the next one
FADING = FORGETTING**4  # of an undrafted step of one request
FORGOTTEN = 1e-3  # a step of this weight is dropped
MIN_ROUNDS = 32  # request-rounds; before that many, drafting has not had its chance
MOST_PROBED = 4  # requests that draft in a probe


class Step(NamedTuple):
    """A drafted step, as far as a curve prices it."""

    num_requests: int
    batch_tokens: int
    base_tokens: int  # of the same step without a draft

    def lost(self, capacity: Capacity) -> float:
        """Tokens that plain decoding would have made in the seconds that the draft and its verification took."""
        num = self.num_requests
        drafted = 1 / capacity.rounds_per_second(num, self.batch_tokens)
        plain = 1 / capacity.undrafted_rate(num, self.base_tokens)
        return (drafted - plain) * num * capacity.undrafted_rate(num, num)


class Sums(NamedTuple):
    """Drafted steps at about one number of requests, forgotten exponentially."""

    num_rounds: int = 0  # request-rounds seen, nothing forgotten
    gain: float = 0.0  # tokens beyond one a request
    steps: tuple[tuple[Step, float], ...] = ()  # with their weights: a curve with a cliff says nothing at a mean size

    def plus(self, step: Step, accepted: int, num_drafted: int | None = None) -> "Sums":
        """One more step, in which all its requests drafted, or only some; so much of it is then known."""
        num = step.num_requests if num_drafted is None else num_drafted
        kept = self.faded(FORGETTING**num)
        steps = dict(kept.steps)
        steps[step] = steps.get(step, 0.0) + num / step.num_requests
        return Sums(self.num_rounds + num, kept.gain + accepted, tuple(sorted(steps.items())))

    def faded(self, factor: float) -> "Sums":
        """The same with less weight."""
        steps = tuple((step, factor * weight) for step, weight in self.steps if weight > FORGOTTEN)
        return Sums(self.num_rounds, factor * self.gain, steps)

    def lost(self, capacity: Capacity) -> float:
        """The price of the steps, in tokens of plain decoding."""
        return sum(weight * step.lost(capacity) for step, weight in self.steps)


@dataclass(frozen=True, slots=True)
class Pace:
    """A value: schedulers carry it in their memory."""

    by_bucket: tuple[tuple[int, Sums], ...] = ()
    num_undrafted: int = 0  # steps since the last drafted one

    def drafts(self, num_requests: int, capacity: Capacity, probe_every: int) -> bool:
        """Whether the next step drafts, for everybody or as a probe."""
        return self.num_undrafted + 1 >= probe_every or self.pays(num_requests, capacity)

    def participants(self, num_requests: int, capacity: Capacity, most_probed: int) -> tuple[bool, ...]:
        """Who drafts in a step that does: everybody while it pays, else a few, side by side, which attend together."""
        if num_requests <= most_probed or self.pays(num_requests, capacity):
            return (True,) * num_requests
        return tuple(row < most_probed for row in range(num_requests))

    def pays(self, num_requests: int, capacity: Capacity) -> bool:
        """Whether what was seen says so, or nothing much was seen."""
        sums = dict(self.by_bucket).get(bucket(num_requests))
        if sums is None or sums.num_rounds < MIN_ROUNDS or not sums.steps:
            return True
        return sums.gain > sums.lost(capacity)

    def after(self, rounds: Rounds) -> "Pace":
        """The memory after a drafted step; one in which some rest is priced as if all had drafted like the others."""
        drafted, base = len(rounds.requests), rounds.limits.base_tokens
        num = drafted + len(rounds.resting)
        verified = int(rounds.plan.verify_len.sum()) * num // drafted
        step, accepted = Step(num, base + verified, base), int(rounds.verdict.accepted.sum())
        table = dict(self.by_bucket)
        table[bucket(num)] = table.get(bucket(num), Sums()).plus(step, accepted, drafted)
        return Pace(tuple(sorted(table.items())), 0)

    def after_undrafted(self, num_requests: int) -> "Pace":
        """The memory after a step that was not drafted."""
        here = bucket(num_requests)
        factor = FADING ** (1 / num_requests)
        faded = tuple((key, sums.faded(factor) if key == here else sums) for key, sums in self.by_bucket)
        return Pace(faded, self.num_undrafted + 1)


def bucket(num_requests: int) -> int:
    """Numbers of requests that share a memory: each alone up to 8, then four to a doubling."""
    return num_requests if num_requests < 8 else 8 + int(4 * math.log2(num_requests / 8))


class Probing(NamedTuple):
    """The parameters `undrafted_probe_every` and `undrafted_probe_size`, checked."""

    every: int
    size: int

    @classmethod
    def of(cls, every: int, size: int) -> "Probing":
        """A `ValueError` below 1."""
        if every < 1:
            raise ValueError(f"undrafted_probe_every={every}: expected 1 or more steps")
        if size < 1:
            raise ValueError(f"undrafted_probe_size={size}: expected 1 or more requests")
        return cls(every, size)

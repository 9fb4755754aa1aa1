"""Whether drafting pays at all: what the drafted steps seen lately brought and cost, by number of requests.

Draft while the tokens beyond plain decoding's one a request exceed those that plain decoding would have made in the
extra seconds of the drafted steps:

    sum (tokens - R)  >  sum (seconds of the drafted step - seconds of the same step undrafted) * R undrafted_rate(R)

which without prefill is tokens per second against tokens per second: the paper's own stated limitation is that it
always drafts [DSpark, section 7; design section 4]. A prompt that is read in the same step costs both sides the same
and drops out. Decided from lagged steps only, so the answer is known before anything is drawn. Both sides are priced on
the capacity curve (its draft seconds count catching up too): the wall seconds of drafted steps against a plain step
profiled in a quieter moment would stop drafting for no reason but the neighbours' load. A curve is known to some
percent only, so drafting has to win 5%: what is in doubt is decoded plainly, and nobody is slower for having a drafter.

A mean over R requests lies near the mean of all requests that come, the nearer the more they are, and a tau is a noisy
number. So two memories speak: what these requests did lately, and what requests usually do, which weighs as much as
`USUAL` rounds of each request (variance within a request over variance between requests). A run of bad rounds alone
does not stop drafting that usually pays, and a few hard texts do not stop it for long: while nothing is drafted the
first memory fades, since requests come and go, and the usual remains. Every 64th step is then a probe all the same, and
a probe after which drafting lately won is followed by a step in which everybody drafts, if it won more than luck does
(`RESUMING`): the features that waited have to be taken in first. In a probe at most four requests draft and the others
rest: a draft needs every feature since the last one absorbed, which for sixty-four requests costs as much as some plain
steps. But four say little, and beside twenty-eight who rest they cost more than they bring, so a row of such probes
would be the worst of both. In a step that reads a prompt fewer decode than in the next one, and another memory speaks:
to resume for that one step would cost the same, so nobody does.

>>> from sparkit.capacity import flat
>>> Pace().drafts(8, flat(), probe_every=64)
True
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

from sparkit.capacity import Capacity
from sparkit.reach import Reach
from sparkit.rounds import Limits, Rounds
from sparkit.winnings import Step, Sums, prices

FORGETTING = 1 - 1 / 64  # weight of a drafted request-round against the next one
FADING = 1 - 1 / 64  # of an undrafted step: the requests that were seen are answered and others come
LASTING = 1 - 1 / 256  # the same two for what requests usually do
LINGERING = 1 - 1 / 1024
USUAL = 6  # rounds of each request; bundled lane: variance 4.9 within a request, 1.5 (all) or 0.2 (a domain) between
MIN_ROUNDS = 32  # request-rounds; before that many, drafting has not had its chance
RESUMING = 0.25  # tokens a request to be won before all draft again: catching up with 64 steps costs 1.4 to 2.1 of them
MOST_PROBED = 4  # requests that draft in a probe


class Known(NamedTuple):
    """What is known of one number of requests."""

    num_rounds: int = 0  # request-rounds seen, nothing forgotten
    lately: Sums = Sums()
    usually: Sums = Sums()
    num_rests: int = 0  # undrafted steps since; both fade by as many when something is added

    def plus(self, step: Step, accepted: int, num_drafted: int | None = None) -> "Known":
        """One more step; `num_drafted` of its requests drafted, or all."""
        num = step.num_requests if num_drafted is None else num_drafted
        lately = self.lately.faded(FADING**self.num_rests).plus(step, accepted, num, FORGETTING)
        usually = self.usually.faded(LINGERING**self.num_rests).plus(step, accepted, num, LASTING)
        return Known(self.num_rounds + num, lately, usually)

    def rested(self) -> "Known":
        """After a step without a draft."""
        return self._replace(num_rests=self.num_rests + 1)

    def won_lately(self, capacity: Capacity) -> float:
        """Tokens beyond plain decoding's, as far as they are remembered."""
        return FADING**self.num_rests * prices(capacity).won(self.lately)

    def pays(self, num_requests: int, capacity: Capacity) -> bool:
        """Whether `num_requests` may expect more from drafting than it costs."""
        if self.num_rounds < MIN_ROUNDS or not self.usually.steps:
            return True
        priced = prices(capacity)
        usual = priced.won(self.usually) / self.usually.num_rounds
        return FADING**self.num_rests * priced.won(self.lately) + USUAL * num_requests * usual > 0


@dataclass(frozen=True, slots=True)
class Pace:
    """A value: schedulers carry it in their memory."""

    by_bucket: tuple[tuple[int, Known], ...] = ()
    num_undrafted: int = 0  # steps since the last drafted one
    reach: tuple[tuple[int, Reach], ...] = ()  # by bucket too; empty where draft tokens have no price

    def drafts(self, num_requests: int, capacity: Capacity, probe_every: int, reads_prompt: bool = False) -> bool:
        """Whether the next step drafts, for everybody or as a probe; nobody resumes in a step that reads a prompt."""
        if self.num_undrafted + 1 >= probe_every:
            return True
        return not (self.num_undrafted and reads_prompt) and self.promises(num_requests, capacity)

    def participants(self, num_requests: int, capacity: Capacity, most_probed: int) -> tuple[bool, ...]:
        """Who drafts in a step that does: everybody while it pays, else a few, side by side, which attend together."""
        if num_requests <= most_probed or self.promises(num_requests, capacity):
            return (True,) * num_requests
        return tuple(row < most_probed for row in range(num_requests))

    def promises(self, num_requests: int, capacity: Capacity) -> bool:
        """Whether it pays, or a probe won though drafting usually does not."""
        if self.pays(num_requests, capacity):
            return True
        return dict(self.by_bucket)[bucket(num_requests)].won_lately(capacity) > RESUMING * num_requests

    def block_lens(self, limits: Limits, capacity: Capacity, gamma: int) -> tuple[int, ...] | None:
        """How long the blocks of these requests are, one length for all; None where draft tokens have no price."""
        if not capacity.prices_blocks:
            return None
        num = len(limits.ceiling) + limits.num_resting  # a probe drafts what everybody would
        known = dict(self.reach).get(bucket(num), Reach())
        return (known.best(num, capacity, gamma) or gamma,) * len(limits.ceiling)

    def pays(self, num_requests: int, capacity: Capacity) -> bool:
        """Whether what was seen says so, or nothing much was seen."""
        return dict(self.by_bucket).get(bucket(num_requests), Known()).pays(num_requests, capacity)

    def after(self, rounds: Rounds) -> "Pace":
        """The memory after a drafted step; one in which some rest is priced as if all had drafted like the others."""
        drafted, base, block_len = len(rounds.requests), rounds.limits.base_tokens, rounds.limits.block_len
        num = drafted + len(rounds.resting)
        verify_len, accepted = rounds.plan.verify_len.tolist(), rounds.verdict.accepted.tolist()
        step = Step(num, base + sum(verify_len) * num // drafted, base, block_len)
        table, reach, here = dict(self.by_bucket), dict(self.reach), bucket(num)
        table[here] = table.get(here, Known()).plus(step, sum(accepted), drafted)
        if block_len is not None:
            reach[here] = reach.get(here, Reach()).plus(block_len, verify_len, accepted, FORGETTING)
        return Pace(tuple(sorted(table.items())), 0, tuple(sorted(reach.items())))

    def after_undrafted(self, num_requests: int) -> "Pace":
        """The memory after a step that was not drafted."""
        here = bucket(num_requests)
        table = tuple((key, known.rested() if key == here else known) for key, known in self.by_bucket)
        return Pace(table, self.num_undrafted + 1, self.reach)


def reads_prompt(limits: Limits) -> bool:
    """Whether the step that everybody who decodes is asked about reads a prompt beside them."""
    return limits.base_tokens > len(limits.ceiling)


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

"""Who asks for what and when: users in a closed loop, or Poisson arrivals; every choice is an addressed decision.

Closed loop: N users, each sends the next request when the last one is answered. Open loop: requests arrive whatever
the engine does and wait for a slot. The n-th request of a user (of the arrivals) is the same under every policy.

>>> Load(users=4).num_slots
4
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sparkit.decisions import hash_address, to_uniform
from sparkit.serving.sources import Blocks

DOMAIN, TEXT, LENGTH, GAP = range(101, 105)  # purposes of this file's uniforms; the engine's end at 6


@dataclass(frozen=True, slots=True)
class Load:
    """A stream of requests; give `users` or `rate`."""

    users: int | None = None  # closed loop
    rate: float | None = None  # open loop, requests a second
    slots: int = 256  # open loop: requests decoded at once
    mix: tuple[tuple[str, float], ...] = ()  # weight by domain; () means every recorded domain alike
    prompt_tokens: int = 128
    new_tokens: int = 256  # mean; lengths are uniform from half to one and a half of it
    prefill_chunk: int = 512  # prompt tokens a step
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.users is None) == (self.rate is None):
            raise ValueError("load: give users=N (closed loop) or rate=REQUESTS_PER_SECOND (open loop), and not both")
        if self.rate is not None and not 0 < self.rate < float("inf"):
            raise ValueError(f"load: rate={self.rate}: expected more than 0 requests a second")
        for name, least in (("users", 1), ("slots", 1), ("prompt_tokens", 1), ("new_tokens", 2), ("prefill_chunk", 1)):
            if (value := getattr(self, name)) is not None and value < least:
                raise ValueError(f"load: {name}={value}: expected {least} or more")
        if any(not weight >= 0 for _, weight in self.mix) or (self.mix and not sum(w for _, w in self.mix) > 0):
            raise ValueError(f"load: mix={dict(self.mix)}: expected weights of 0 or more, not all 0")

    @property
    def num_slots(self) -> int:
        """Requests that can be decoded at once."""
        return self.users if self.users is not None else self.slots

    def weights(self, blocks: Blocks) -> Float[Tensor, " domains"]:
        """Shares of the source's domains.

        Raises:
            LookupError: for a domain that the source does not have.
        """
        if unknown := [name for name, _ in self.mix if name not in blocks.domains]:
            raise LookupError(f"load: no domain {unknown[0]!r} in {blocks.name}; there are {', '.join(blocks.domains)}")
        table = dict(self.mix) or dict.fromkeys(blocks.domains, 1.0)
        present = torch.bincount(blocks.request_domain(), minlength=len(blocks.domains)) > 0
        shares = torch.tensor([table.get(name, 0.0) for name in blocks.domains], dtype=torch.float64) * present
        return shares / shares.sum()

    def arrivals(self, num: int) -> Float[Tensor, " num"]:
        """When the first `num` requests of the open loop arrive."""
        assert self.rate is not None
        number = torch.arange(num)
        return (-torch.log1p(-uniform(self.seed, GAP, number, torch.zeros_like(number))) / self.rate).cumsum(0)


def uniform(seed: int, purpose: int, stream: Int[Tensor, " n"], turn: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
    """The uniform of a request's choice: stream is the user (0: arrivals), turn its how-many-th request."""
    return to_uniform(hash_address(torch.tensor(seed), torch.tensor(purpose), stream, turn))


@dataclass(frozen=True, slots=True)
class Choices:
    """What some requests turned out to be."""

    text: Int[Tensor, " n"]  # a recorded request
    tokens: Int[Tensor, " n"]  # it will generate
    seed: Int[Tensor, " n"]


@dataclass(frozen=True, slots=True)
class Chooser:
    """Draws requests of a load from a source."""

    load: Load
    edges: Float[Tensor, " domains"]
    by_domain: Int[Tensor, " requests"]  # recorded requests, domain by domain
    start: Int[Tensor, " domains"]
    count: Int[Tensor, " domains"]

    @classmethod
    def of(cls, load: Load, blocks: Blocks) -> "Chooser":
        """The source's requests by domain."""
        domain = blocks.request_domain()
        count = torch.bincount(domain, minlength=len(blocks.domains))
        edges = load.weights(blocks).cumsum(0)
        return cls(load, edges, domain.argsort(stable=True), count.cumsum(0) - count, count)

    def choose(self, stream: Int[Tensor, " n"], turn: Int[Tensor, " n"]) -> Choices:
        """The requests at some addresses."""
        seed, load = self.load.seed, self.load
        domain = torch.searchsorted(self.edges, uniform(seed, DOMAIN, stream, turn), right=True)
        domain = domain.clamp(max=len(self.edges) - 1)
        place = (uniform(seed, TEXT, stream, turn) * self.count[domain]).long()
        share = 0.5 + uniform(seed, LENGTH, stream, turn)
        tokens = (load.new_tokens * share).long().clamp(min=2)
        if load.users is not None:  # users meet in the middle of their work, not all at its beginning
            part = uniform(seed, LENGTH, stream, turn - 1)
            tokens = torch.where(turn == 0, (tokens * part).long().clamp(min=2), tokens)
        seeds = hash_address(torch.tensor(seed), stream, turn)
        return Choices(self.by_domain[self.start[domain] + place], tokens, seeds)

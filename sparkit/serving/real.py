"""The same experiment on the real engine: N users in a closed loop, continuous batching, wall seconds.

Compositions and plain decoding take turns in one process, so a slow moment of the machine falls on all; what is
reported are medians over turns of the ratio within a turn.

    measure([composition], prompts, users=(1, 4, 16), turns=12)
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch

from sparkit.compose import Composition
from sparkit.decisions import request_seed
from sparkit.engine import Engine, Request
from sparkit.experiments import in_turn, undisturbed
from sparkit.prompts import Prompt
from sparkit.rounds import Round

LEAST_TOKENS = 256  # of a turn: fewer say little


@dataclass(slots=True)
class RealRun:
    """One composition at one concurrency."""

    name: str
    composition: Composition
    users: int
    rates: list[float] = field(default_factory=list)  # tokens/s of each turn
    rounds: list[Round] = field(default_factory=list)  # of all turns, the uncounted first one too
    prompts: dict[int, Prompt] = field(default_factory=dict)  # by request id
    seeds: dict[int, int] = field(default_factory=dict)

    @property
    def tokens_per_second(self) -> float:
        """The median turn."""
        return statistics.median(self.rates)

    def ratio(self, other: "RealRun") -> float:
        """The median over turns of this run's throughput over another's."""
        return statistics.median(a / b for a, b in zip(self.rates, other.rates, strict=True))

    @property
    def budget(self) -> float:
        """Target tokens of a decoding request and step."""
        decoded = [one for one in self.rounds if one.kind != "prefill"]
        return 1 + sum(one.verify_len for one in decoded) / max(1, len(decoded))


def measure(
    compositions: Sequence[tuple[str, Composition]],
    prompts: Sequence[Prompt],
    users: Sequence[int],
    turns: int = 12,
    turn_tokens: int = 96,
    progress: Callable[[], None] | None = None,
) -> list[RealRun]:
    """Every composition at every concurrency, the same stream of requests to each.

    The loop never drains: between its turns an engine stands still with its requests in flight, and their lengths
    differ, half to one and a half of the recipe's. (Waves of requests of one length would end in one step under plain
    decoding, and their prompts would be read in one: a batch that no server sees.)

    Args:
        compositions: by name.
        prompts: asked over and over, by turns.
        users: how many at once.
        turns: of each composition, in another order each time; one more before them is not counted.
        turn_tokens: a turn ends when there are so many for each user, and 256 in all.
        progress: told of every turn.
    """
    if not compositions or not prompts or turns < 1 or turn_tokens < 1 or min(users, default=0) < 1:
        raise ValueError("real serving: expected a composition, a prompt, and users, turns and tokens of 1 or more")
    runs: list[RealRun] = []
    for num in users:
        group = [RealRun(name, composition, num) for name, composition in compositions]
        loops = [_Loop(run, run.composition.engine(num_slots=num), prompts) for run in group]
        with torch.inference_mode(), undisturbed():
            for loop in loops:
                loop.turn(max(LEAST_TOKENS, num * turn_tokens))
                loop.run.rates.clear()
            for turn in range(turns):
                for loop in in_turn(loops, turn):
                    loop.turn(max(LEAST_TOKENS, num * turn_tokens))
                    if progress is not None:
                        progress()
        runs += group
    return runs


@dataclass(slots=True)
class _Loop:
    """Users who send their next request when the last one is answered."""

    run: RealRun
    engine: Engine
    prompts: Sequence[Prompt]
    encoded: Sequence[Sequence[int]] = field(init=False)  # once: they are asked over and over, and decoding is measured
    num_sent: int = 0
    in_flight: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.encoded = [self.run.composition.encode(prompt.text) for prompt in self.prompts]

    def turn(self, tokens: int) -> None:
        """Goes on until so many tokens are there."""
        rounds: list[Round] = []
        made, begun = 0, time.perf_counter()
        while made < tokens:
            self._send()
            found = self.engine.step()
            made += sum(one.tau for one in found)
            rounds += found
        self.run.rates.append(made / (time.perf_counter() - begun))
        self.run.rounds += rounds

    def _send(self) -> None:
        self.in_flight -= self.engine.finished.keys()
        self.engine.finished.clear()
        while len(self.in_flight) < self.run.users:
            which, composition = self.num_sent % len(self.prompts), self.run.composition
            prompt, seed = self.prompts[which], request_seed(composition.recipe.seed, self.num_sent, 0)
            request = composition.request(self.encoded[which], seed, prompt.domain)
            number = self.engine.add(_of_its_own_length(request))
            self.run.prompts[number], self.run.seeds[number] = prompt, seed
            self.in_flight.add(number)
            self.num_sent += 1


def _of_its_own_length(request: Request) -> Request:
    """Half to one and a half of the recipe's tokens, by the request's seed: nobody's texts are all equally long."""
    if request.max_new_tokens is None:
        return request
    share = 0.5 + (request.seed & 0xFFFF) / 0x10000
    return replace(request, max_new_tokens=max(1, int(share * request.max_new_tokens)))

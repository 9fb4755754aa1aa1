"""The same experiment on the real engine: N users in a closed loop, continuous batching, wall seconds.

Compositions and plain decoding take turns in one process, so a slow moment of the machine falls on all; what is
reported are medians over turns of the ratio within a turn.

    measure([composition], prompts, users=(1, 4, 16), turns=9)
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from sparkit.compose import Composition
from sparkit.decisions import request_seed
from sparkit.engine import Engine
from sparkit.prompts import Prompt
from sparkit.rounds import Round


@dataclass(slots=True)
class RealRun:
    """One composition at one concurrency."""

    name: str
    composition: Composition
    users: int
    rates: list[float] = field(default_factory=list)  # tokens/s of each turn
    rounds: list[Round] = field(default_factory=list)  # of all turns
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
    turns: int = 9,
    requests_per_user: int = 2,
    progress: Callable[[], None] | None = None,
) -> list[RealRun]:
    """Every composition at every concurrency; a turn serves the same requests to each of them."""
    if not compositions or not prompts or turns < 1 or requests_per_user < 1 or min(users, default=0) < 1:
        raise ValueError("real serving: expected a composition, a prompt, and users, turns and requests of 1 or more")
    runs: list[RealRun] = []
    for num in users:
        group = [RealRun(name, composition, num) for name, composition in compositions]
        engines = [run.composition.engine(num_slots=num) for run in group]
        with torch.inference_mode():
            for run, engine in zip(group, engines, strict=True):
                _warm_up(run, engine, prompts[0])
            for turn in range(turns):
                pairs = list(zip(group, engines, strict=True))
                for run, engine in pairs if turn % 2 == 0 else pairs[::-1]:
                    _turn(run, engine, prompts, turn * num * requests_per_user, requests_per_user)
                    if progress is not None:
                        progress()
        runs += group
    return runs


def _warm_up(run: RealRun, engine: Engine, prompt: Prompt) -> None:
    ids = [engine.add(run.composition.request(run.composition.encode(prompt.text), seed=0)) for _ in range(run.users)]
    for _ in range(12):  # the first step is slow
        engine.step()
    for number in ids:
        if number not in engine.finished:
            engine.cancel(number)
    engine.finished.clear()


def _turn(run: RealRun, engine: Engine, prompts: Sequence[Prompt], first: int, per_user: int) -> None:
    """Each user sends `per_user` requests, the next when one is answered: the engine's queue hands them out."""
    composition = run.composition
    requests = []
    for number in range(first, first + run.users * per_user):
        prompt = prompts[number % len(prompts)]
        seed = request_seed(composition.recipe.seed, number, 0)
        requests.append((prompt, seed, composition.request(composition.encode(prompt.text), seed, prompt.domain)))
    begun = time.perf_counter()
    for prompt, seed, request in requests:
        number = engine.add(request)
        run.prompts[number], run.seeds[number] = prompt, seed
    rounds = list(engine.stream())
    seconds = time.perf_counter() - begun
    run.rates.append(sum(one.tau for one in rounds) / seconds)
    run.rounds += rounds
    engine.finished.clear()

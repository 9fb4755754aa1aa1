"""Measures the capacity curve on the engine that will use it: the parts themselves, steered to chosen lengths.

Every (num_requests, verify_len) is one step of the real `Engine`, read by phase off its rounds; a sweep takes all
sizes, and the lengths of each back and forth, so that a slow moment of the machine falls on a sweep and never on all
samples of a size, and the median counts. An undrafted step is one of the "lengths" (None), three times a sweep. The
scheduler's own plan is made and thrown away: its time belongs to the step.
Batches are ragged, as they are in service: contexts from half to one and a half of the length asked for, every other
request verifying more than the mean and the others less; the same tokens in equal rows cost a third less.

Not done here: the curve that the samples make (`sparkit.capacity.samples`).

    profile(parts, gamma=7, num_requests=(1, 4, 16), context_len=128).capacity.save(path)
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from sparkit.capacity import Capacity, Kind, Sample, capacity_of, staircase
from sparkit.decisions import hash_address
from sparkit.engine import Engine, Parts, Request
from sparkit.protocols import Scheduler
from sparkit.rounds import Limits, Plan, Round, Rounds

METHOD = 8
"""Raised when what is measured changes, or what a step costs: curves kept from before are not used."""
WARM_UP = 2  # steps after a prefill: the first absorbs the prompts
IN_A_ROW = 4  # undrafted steps before one counts: the first behind a drafted step takes a fifth longer than the fifth
MIN_SWEEPS = 5  # however late it is: a slow moment must not have the majority

Length = tuple[int | None, int | None]
"""(verify_len, block_len) of a measured step."""
PLAIN: Length = (None, None)


@dataclass(frozen=True, slots=True)
class Profile:
    """What was measured, and the curve made of it."""

    samples: tuple[Sample, ...]
    capacity: Capacity


@dataclass(slots=True)
class Steered:
    """The composition's scheduler, overruled: `verify_len` drafts a request in the mean, in ragged rows."""

    inner: Scheduler
    verify_len: int | None = None
    block_len: int | None = None  # None: gamma
    lossless: bool = field(default=True, init=False)
    batch_independent: bool = field(default=True, init=False)

    def start(self) -> Any:
        """The composition's."""
        return self.inner.start()

    def drafts(self, memory: Any, limits: Limits, capacity: Capacity) -> bool:
        """As told."""
        return self.verify_len is not None

    def block_lens(
        self, memory: Any, requests: Sequence[int], limits: Limits, capacity: Capacity, gamma: int
    ) -> tuple[int, ...]:
        """As told."""
        return (self.block_len or gamma,) * len(requests)

    def plan(
        self, survival: Float[Tensor, "R gamma"], capacity: Capacity, limits: Limits, memory: Any
    ) -> tuple[Plan, Any]:
        """As told, at the cost of the composition's own plan."""
        _, memory = self.inner.plan(survival, capacity, limits, memory)
        gamma = survival.shape[1]
        wanted = torch.tensor(ragged(self.verify_len or 0, gamma, len(survival)), device=limits.ceiling.device)
        return Plan(torch.minimum(limits.ceiling, wanted.to(limits.ceiling))), memory

    def observe(self, memory: Any, rounds: Rounds) -> Any:
        """The composition's."""
        return self.inner.observe(memory, rounds)

    def observe_undrafted(self, memory: Any, num_tokens: int, num_requests: int, seconds: float) -> Any:
        """The composition's."""
        return self.inner.observe_undrafted(memory, num_tokens, num_requests, seconds)


def ragged(mean: int, gamma: int, num: int) -> list[int]:
    """Lengths in 0..gamma of `num` requests, as different as they can be by turns; they sum to mean * num.

    >>> ragged(3, 7, 5)
    [0, 6, 0, 6, 3]
    """
    low, high = max(0, 2 * mean - gamma), min(gamma, 2 * mean)
    return [(low, high)[row % 2] for row in range(num - num % 2)] + [mean] * (num % 2)


def profile(
    parts: Parts,
    *,
    gamma: int,
    num_requests: Sequence[int] = (1,),
    context_len: int = 64,
    repeats: int = 7,
    kind: Kind = "linear",
    source: str = "measured",
    prompts: Sequence[Sequence[int]] = (),
    max_seconds: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Profile:
    """Sweeps every verify_len from 0 to gamma, and undrafted steps, at each number of requests.

    Args:
        parts: the composition; its scheduler is steered, everything else runs as it is.
        gamma: the block length of the engine.
        num_requests: batch sizes R; the table reaches max(R) * (1 + gamma) tokens.
        context_len: prompt tokens of a request, in the mean.
        repeats: sweeps over the lengths; medians are taken over them.
        kind: how the table is read between its points.
        source: names device and model in reports.
        prompts: token ids to repeat or cut to length; () takes hashed tokens.
        max_seconds: sweeps stop when this has passed (five are always made).
        progress: called with steps done and steps planned.

    Raises:
        ValueError: when the context leaves no room for a few rounds, or a size is below 1.
    """
    room = parts.target.max_positions - 4 * (gamma + 1)  # for prompts
    most = room if max(num_requests, default=1) <= 1 else 2 * room // 3  # the longest has one and a half of the mean
    if not 1 <= context_len <= most:
        raise ValueError(
            f"context_len={context_len}: expected 1 to {most}, "
            f"so that a few rounds of {gamma} drafts fit into the target's {parts.target.max_positions} positions"
        )
    if not num_requests or min(num_requests) < 1 or repeats < 1:
        raise ValueError(f"num_requests={list(num_requests)}, repeats={repeats}: expected sizes of 1 or more")
    lengths = _sweep(gamma) if parts.drafter is not None else [PLAIN]
    total, samples = len(num_requests) * repeats * len(lengths), list[Sample]()
    deadline = None if max_seconds is None else time.perf_counter() + max_seconds
    for sweep in range(repeats):  # all sizes in each: a slow moment falls on a sweep, never on all samples of a size
        for index, num in enumerate(num_requests):
            bench = Bench.of(parts, gamma, num, context_len, prompts)
            with torch.inference_mode():  # as in service
                samples += [bench.sample(*length) for length in (lengths if sweep % 2 else lengths[::-1])]
            if progress is not None:
                progress((sweep * len(num_requests) + index + 1) * len(lengths), total)
        if deadline is not None and sweep + 1 >= MIN_SWEEPS and time.perf_counter() > deadline:
            break
    return Profile(tuple(samples), capacity_of(samples, kind, source, gamma if parts.drafter is not None else None))


@dataclass(slots=True)
class Bench:
    """An engine with R requests that never end: they start anew when the context is full."""

    engine: Engine
    scheduler: Steered
    requests: tuple[Request, ...]

    @classmethod
    def of(cls, parts: Parts, gamma: int, num: int, context_len: int, prompts: Sequence[Sequence[int]]) -> "Bench":
        """A fresh engine of `num` slots."""
        scheduler = Steered(parts.scheduler)
        engine = Engine(
            replace(parts, scheduler=scheduler, capacity=_priced(parts)), gamma=gamma, num_slots=num, prefill_chunk=1024
        )
        rows = [_prompt(r, _length(r, num, context_len), prompts, parts.target.vocab_size) for r in range(num)]
        return cls(engine, scheduler, tuple(Request(row, seed=r) for r, row in enumerate(rows)))

    def sample(self, verify_len: int | None, block_len: int | None = None) -> Sample:
        """One step at a length, with shorter blocks than gamma when told."""
        gamma = self.engine.gamma
        if not self.engine.running or min(s.remaining for s in self.engine.running.values()) < max(gamma, IN_A_ROW) + 2:
            self._fill()
        for _ in range(IN_A_ROW if verify_len is None else 0):
            self._step(None)  # steps without a draft follow each other in service: the target is warm in the caches
        context = sum(len(s.tokens) for s in self.engine.running.values()) // len(self.engine.running)
        first = self._step(verify_len, block_len)[0]
        return Sample(first.num_requests, verify_len, first.batch_tokens, context, first.seconds, block_len)

    def _step(self, verify_len: int | None, block_len: int | None = None) -> list[Round]:
        self.scheduler.verify_len, self.scheduler.block_len = verify_len, block_len
        return self.engine.step()

    def _fill(self) -> None:
        for sequence in list(self.engine.running.values()):
            self.engine.cancel(sequence.id)
        for request in self.requests:
            self.engine.add(request)
        self._step(None)
        while self.engine.prefilling():
            self._step(None)
        for _ in range(WARM_UP):
            self._step(0 if self.engine.parts.drafter is not None else None)


def _sweep(gamma: int) -> list[Length]:
    """Every length, three undrafted steps, against which alone is decided whether drafting pays, and shorter blocks."""
    half = (gamma + 1) // 2
    first, second = ([(length, None) for length in part] for part in (range(half), range(half, gamma + 1)))
    short: list[Length] = [(0, max(1, gamma // 3))] if gamma > 1 else []
    return [PLAIN, *first, *short, PLAIN, *short, *second, PLAIN]


def _length(row: int, num: int, mean: int) -> int:
    """From half the mean to one and a half, evenly, never below 1; a request alone has the mean."""
    return mean if num == 1 else max(1, mean // 2 + row * mean // (num - 1))


def _priced(parts: Parts) -> Capacity:
    """Any curve that is not flat, so that nothing is said about a missing profile while one is made."""
    return parts.capacity if not parts.capacity.is_flat else staircase()


def _prompt(row: int, context_len: int, prompts: Sequence[Sequence[int]], vocab_size: int) -> tuple[int, ...]:
    if prompts:
        ids = list(prompts[row % len(prompts)])
        return tuple((ids * (context_len // len(ids) + 1))[:context_len])
    tokens = hash_address(torch.tensor(row), torch.arange(context_len)).remainder(vocab_size)
    return tuple(tokens.tolist())

"""Runs compositions on prompts beside plain decoding of the same target, in one process, in turn.

Every chunk of prompts is decoded by plain decoding and by each composition before the next chunk begins, in another
order each time, so a slow moment of the machine falls on all of them. What is returned are rounds and seconds; the
numbers of `compose --json` are made of them in `sparkit.reports.comparison`.
"""

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import torch

from sparkit.compose import Composition
from sparkit.decisions import request_seed
from sparkit.engine import Engine, Finished
from sparkit.prompts import Prompt, domains_of
from sparkit.rounds import Round

Listener = Callable[["Run", Round], None]
T = TypeVar("T")


@dataclass(slots=True)
class DomainRun:
    """What one composition did on one domain."""

    rounds: list[Round] = field(default_factory=list)
    finished: list[Finished] = field(default_factory=list)
    prompts: list[Prompt] = field(default_factory=list)  # of `finished`, in the same order
    seconds: float = 0.0  # wall time of decoding, prefill included

    @property
    def num_new_tokens(self) -> int:
        """Tokens returned."""
        return sum(len(one.text) for one in self.finished)


@dataclass(slots=True)
class Run:
    """One composition over all domains."""

    composition: Composition
    engine: Engine
    plain: "Run | None" = None  # plain decoding of the same target and sampling
    domains: dict[str, DomainRun] = field(default_factory=dict)

    @classmethod
    def of(cls, composition: Composition, top_tokens: int = 0) -> "Run":
        """A run that has not begun."""
        return cls(composition, composition.engine(top_tokens=top_tokens))

    @property
    def rounds(self) -> list[Round]:
        """Every round, domain by domain."""
        return [one for domain in self.domains.values() for one in domain.rounds]


def with_plain(compositions: Iterable[Composition], top_tokens: int = 0) -> list[Run]:
    """One run a composition; those that share target, sampling, batch and noise share one plain run."""
    plains: dict[tuple[object, ...], Run] = {}
    runs = []
    for composition in compositions:
        recipe = composition.recipe
        noise = composition.parts.verifier.schedule_invariant
        facts = (recipe.target, recipe.device, recipe.dtype, recipe.batch, recipe.seed, recipe.max_new_tokens, noise)
        key = (*facts, recipe.sampling(), recipe.stop, recipe.stop_tokens)
        if key not in plains:
            plains[key] = Run.of(composition.plain())
        run = Run.of(composition, top_tokens)
        run.plain = plains[key]
        runs.append(run)
    return runs


def decode(runs: Sequence[Run], prompts: Sequence[Prompt], listener: Listener | None = None) -> bool:
    """Decodes everything; False when Ctrl-C stopped it (what was decoded until then is kept)."""
    every = [*{id(run.plain): run.plain for run in runs if run.plain is not None}.values(), *runs]
    try:
        with torch.inference_mode(), undisturbed():
            for run in every:
                warm_up(run, prompts[0])
            for turn, (domain, chunk) in enumerate(chunks(prompts, max(run.composition.recipe.batch for run in runs))):
                for run in in_turn(every, turn):
                    _decode_chunk(run, domain, chunk, listener)
    except KeyboardInterrupt:
        return False
    return True


def in_turn(items: Sequence[T], turn: int) -> list[T]:
    """The order of a turn: over 2n turns everybody has every place, and three have each other as predecessor alike.

    What ran before leaves its mark (caches, the heap, a processor slowed down): in back and forth the one in the middle
    always comes behind another, its neighbours half the time behind themselves.

    >>> ["".join(in_turn("abc", turn)) for turn in range(6)]
    ['abc', 'bca', 'cab', 'cba', 'bac', 'acb']
    """
    lap, first = divmod(turn, len(items))
    row = items if lap % 2 == 0 else items[::-1]
    return [*row[first:], *row[:first]]


@contextmanager
def undisturbed() -> Iterator[None]:
    """Keeps what is loaded out of the garbage collector's sight: to look through torch takes it 0.2 s, in any round."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def chunks(prompts: Sequence[Prompt], batch: int) -> Iterator[tuple[str, list[tuple[int, Prompt]]]]:
    """Prompts with their index, domain by domain: one at a time at batch 1, else whole domains (slots stay full)."""
    for domain in domains_of(prompts):
        rows = [(index, prompt) for index, prompt in enumerate(prompts) if prompt.domain == domain]
        size = 1 if batch == 1 else len(rows)
        for first in range(0, len(rows), size):
            yield domain, rows[first : first + size]


def warm_up(run: Run, prompt: Prompt, num_steps: int = 6) -> None:
    """A few rounds that nobody counts: kernels are chosen and memory is had."""
    engine = run.engine
    number = engine.add(run.composition.request(run.composition.encode(prompt.text), seed=0))
    for _ in range(num_steps):
        engine.step()
    if number not in engine.finished:
        engine.cancel(number)
    del engine.finished[number]


def _decode_chunk(run: Run, domain: str, chunk: Sequence[tuple[int, Prompt]], listener: Listener | None) -> None:
    done = run.domains.setdefault(domain, DomainRun())
    composition, engine = run.composition, run.engine
    requests = [
        composition.request(composition.encode(p.text), request_seed(composition.recipe.seed, index, 0), p.domain)
        for index, p in chunk
    ]
    ids: dict[int, Prompt] = {}
    begun = time.perf_counter()
    try:
        for request, (_, prompt) in zip(requests, chunk, strict=True):
            ids[engine.add(request)] = prompt
        while engine.has_work:
            rounds = engine.step()
            done.rounds += rounds
            if listener is not None:
                for one in rounds:
                    listener(run, one)
    finally:
        done.seconds += time.perf_counter() - begun
        for number in [*(n for n, _ in engine.waiting), *(s.id for s in engine.running.values())]:
            engine.cancel(number)
        done.finished += [engine.finished.pop(number) for number in ids]
        done.prompts += list(ids.values())

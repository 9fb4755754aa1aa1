"""Hundreds of requests come, are cancelled and finish for minutes: nothing lost, nothing mixed, memory flat.

    python benchmarks/soak.py --minutes 10 --out benchmarks/results/soak-cpu.json

Random arrivals keep up to `--requests` of them in the engine, random ones are cancelled. At temperature 0 a request's
text does not depend on its company: finished texts of one prompt and length are compared with each other, a sample of
them with solo runs (float32: a difference counts as a near tie when the target's two best logits there say so).
SIGINT and SIGTERM end the run at the next step and write the numbers so far. Exit code 0: all checks held; 1: one did
not; 130 or 143: stopped by a signal, checks held.
"""

import argparse
import json
import random
import resource
import signal
import statistics
import sys
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from sparkit.cli.environment import environment
from sparkit.compose import Composition, assemble
from sparkit.decisions import request_seed
from sparkit.engine import Engine, Finished, Request
from sparkit.files import write_json
from sparkit.prompts import bundled
from sparkit.recipe import Recipe

SCHEMA = "sparkit.soak/1"
NEAR_TIE = 1e-3  # of two best logits, below which float32 may turn
PAGE = resource.getpagesize()


@dataclass(slots=True)
class Tally:
    """What happened so far."""

    added: int = 0
    cancelled: int = 0
    finished: int = 0
    lost: int = 0
    mixed: list[str] = field(default_factory=list)
    compared: int = 0
    differing_near_tie: int = 0
    tokens: int = 0
    steps: int = 0
    most_running: int = 0
    streamed: Counter[int] = field(default_factory=Counter)  # tokens seen in rounds, by request
    memory: list[tuple[float, float]] = field(default_factory=list)  # (seconds, resident MB)


class Soak:
    """The load and its checks."""

    def __init__(self, composition: Composition, num_requests: int, seed: int) -> None:
        self.composition, self.num_requests = composition, num_requests
        self.random = random.Random(seed)
        self.prompts = [tuple(composition.encode(p.text)) for p in bundled("all", 32)]
        room = max(map(len, self.prompts)) + composition.recipe.max_new_tokens
        self.engine: Engine = composition.engine(max_len=room)
        alone = assemble(replace(composition.recipe, batch=1))  # a drafter holds one engine's slots
        self.solo: Engine = alone.engine(max_len=room)
        self.alive: dict[int, tuple[int, int]] = {}  # id -> (prompt, sample)
        self.keep: dict[tuple[int, int], Finished] = {}  # finished texts to compare with a solo run
        self.tally = Tally()
        self.stopped = 0

    def request(self, key: tuple[int, int]) -> Request:
        """The request of a prompt and a sample number; the length is drawn from them too."""
        seed = request_seed(self.composition.recipe.seed, *key)
        limit = 16 + seed % (self.composition.recipe.max_new_tokens - 15)
        return replace(self.composition.request(self.prompts[key[0]], seed), max_new_tokens=limit)

    def arrive(self) -> None:
        """Fills up to the number wanted, a few at a time."""
        room = self.num_requests - len(self.alive)
        for _ in range(min(room, self.random.randint(0, 16))):
            key = (self.random.randrange(len(self.prompts)), self.random.randrange(4))
            self.alive[self.engine.add(self.request(key))] = key
            self.tally.added += 1

    def leave(self) -> None:
        """Now and then somebody hangs up."""
        if self.alive and self.random.random() < 0.5:
            number = self.random.choice(list(self.alive))
            if number not in self.engine.finished:
                self.engine.cancel(number)

    def step(self) -> None:
        """One engine step and its bookkeeping."""
        self.arrive()
        self.leave()
        for one in self.engine.step():
            self.tally.streamed[one.request] += len(one.tokens)
        self.tally.steps += 1
        self.tally.most_running = max(self.tally.most_running, len(self.engine.running))
        self.collect()

    def collect(self) -> None:
        """Takes finished requests out, as a server would, and counts them."""
        for number, done in list(self.engine.finished.items()):
            key = self.alive.pop(number)
            del self.engine.finished[number]
            self.judge(key, done)

    def judge(self, key: tuple[int, int], done: Finished) -> None:
        """What was streamed is what was returned; a text of the same key is the same text."""
        tally = self.tally
        tally.tokens += len(done.text)
        tally.lost += tally.streamed.pop(done.id, 0) != len(done.text)
        if done.stop_reason == "cancelled":
            tally.cancelled += 1
            return
        tally.finished += 1
        before = self.keep.setdefault(key, done)
        if before.token_ids != done.token_ids:
            self.compare(key, done, before.token_ids)

    def compare(self, key: tuple[int, int], done: Finished, expected: list[int]) -> None:
        """A difference is a near tie of float32, or a request that got another's tokens."""
        pairs = zip(expected, done.token_ids, strict=False)
        first = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(expected), len(done.token_ids)))
        if self.is_near_tie(key, expected[:first]):
            self.tally.differing_near_tie += 1
        else:
            self.tally.mixed.append(f"prompt {key[0]}, sample {key[1]}, token {first}")

    def is_near_tie(self, key: tuple[int, int], text: list[int]) -> bool:
        """Whether the target's two best logits after `text` are closer than `NEAR_TIE`."""
        from sparkit.protocols import Span

        tokens = torch.tensor([*self.prompts[key[0]], *text])
        target = self.composition.parts.target
        cache = target.new_cache(1, len(tokens))
        logits = target.forward(tokens, [Span(0, 0, len(tokens))], cache).logits[-1]
        best = logits.topk(2).values
        return bool(best[0] - best[1] < NEAR_TIE)

    def compare_with_solo(self, most: int) -> None:
        """Decodes a sample of the finished texts again, alone."""
        for key in self.random.sample(sorted(self.keep), min(most, len(self.keep))):
            number = self.solo.add(self.request(key))
            while number not in self.solo.finished and not (self.stopped and self.tally.compared):
                self.solo.step()
            if number not in self.solo.finished:
                return  # a signal: one comparison is enough then
            alone = self.solo.finished.pop(number).token_ids
            self.tally.compared += 1
            if alone != self.keep[key].token_ids:
                self.compare(key, self.keep[key], alone)

    def drain(self) -> None:
        """Ends what still runs and takes it out."""
        for number in list(self.alive):
            if number not in self.engine.finished:
                self.engine.cancel(number)
        self.collect()

    def run(self, seconds: float, show: Any) -> float:
        """Steps until the time is over or a signal came; returns the seconds spent."""
        begun = time.perf_counter()
        shown = -1e9
        while (now := time.perf_counter() - begun) < seconds and not self.stopped:
            self.step()
            if now - shown > max(1.0, seconds / 120):
                self.tally.memory.append((round(now, 1), resident()))
                show(self, now)
                shown = now
        self.drain()
        return time.perf_counter() - begun

    @property
    def is_clean(self) -> bool:
        """Whether the engine is as it was before the first request."""
        engine = self.engine
        is_empty = not (engine.running or engine.waiting or engine.finished or self.alive or self.tally.streamed)
        return is_empty and len(engine.free_slots) == self.num_requests and not engine.inbox.features


def resident() -> float:
    """Resident memory of this process in MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 1e6


def growth(memory: list[tuple[float, float]]) -> float | None:
    """Last quarter over second quarter: the first is warm-up."""
    values = [megabytes for _, megabytes in memory]
    if len(values) < 8:
        return None
    quarter = len(values) // 4
    return statistics.median(values[-quarter:]) / statistics.median(values[quarter : 2 * quarter])


def document(soak: Soak, seconds: float) -> dict[str, Any]:
    """The result, whole or partial."""
    tally = soak.tally
    ratio = growth(tally.memory)
    is_lossless = tally.lost == 0 and not tally.mixed
    return {
        "schema": SCHEMA, "environment": environment(soak.composition.recipe.device),
        "recipe": {"drafter": soak.composition.recipe.drafter, "scheduler": soak.composition.recipe.scheduler,
                   "verifier": soak.composition.recipe.verifier, "temperature": soak.composition.recipe.temperature},
        "num_requests": soak.num_requests, "seconds": seconds, "is_complete": not soak.stopped,
        "added": tally.added, "finished": tally.finished, "cancelled": tally.cancelled, "lost": tally.lost,
        "mixed": tally.mixed[:20], "num_mixed": len(tally.mixed), "compared_with_solo": tally.compared,
        "differing_near_tie": tally.differing_near_tie, "num_steps": tally.steps, "num_new_tokens": tally.tokens,
        "most_running": tally.most_running, "tokens_per_second": tally.tokens / seconds if seconds else None,
        "memory_megabytes": tally.memory, "memory_growth": ratio, "is_drained": soak.is_clean,
        "is_good": is_lossless and soak.is_clean and tally.added == tally.finished + tally.cancelled,
    }  # fmt: skip


def show(soak: Soak, now: float) -> None:
    """A line on stderr."""
    tally = soak.tally
    line = f"{now:6.0f} s  {tally.finished} finished  {tally.cancelled} cancelled  {resident():.0f} MB"
    print(line, file=sys.stderr, flush=True)


def main() -> int:
    """Runs as the options say."""
    options = _options()
    recipe = Recipe(
        drafter=options.drafter, scheduler=options.scheduler, verifier=options.verifier,
        temperature=0.0, capacity="staircase", batch=options.requests, max_new_tokens=64,
    )  # fmt: skip
    soak = Soak(assemble(recipe), options.requests, options.seed)

    def stop(number: int, _frame: object) -> None:
        soak.stopped = number

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    with torch.inference_mode():
        seconds = soak.run(60 * options.minutes, show)
        soak.compare_with_solo(2 if soak.stopped else options.solo)
    result = document(soak, seconds)
    if options.out is not None:
        write_json(options.out, result)
    print(json.dumps({key: value for key, value in result.items() if key not in ("memory_megabytes", "environment")}))
    return 1 if not result["is_good"] else 128 + soak.stopped if soak.stopped else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--drafter", default="dspark")
    parser.add_argument("--scheduler", default="threshold:value=0.6")
    parser.add_argument("--verifier", default="rejection")
    parser.add_argument("--solo", type=int, default=24, help="finished texts decoded again alone")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None, help="JSON result; partial numbers too after a signal")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

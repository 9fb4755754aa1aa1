"""The matrix judged, group by group, in one process or several; what is done so far is a document at any time.

Each composition: the exact law of the real classes with seeded weights (R = 1, V = 2, gamma 2, horizon 2), and a short
search on table twins that its group shares.
"""

import functools
import logging
import multiprocessing
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Any

import torch

from sparkit.proofs import real
from sparkit.proofs.choice import chosen
from sparkit.proofs.examples import Limits
from sparkit.proofs.matrix import KINDS, Group
from sparkit.proofs.prove import Verdict, joined, twin_parts, within
from sparkit.proofs.search import search

SCHEMA = "sparkit.prove-all/1"
LIMITS = Limits(max_size=300)
NUM_EXAMPLES = 6
Run = dict[str, Any]


def judge(group: Group, num_examples: int = NUM_EXAMPLES) -> list[Run]:
    """A line of the document for every composition of a group."""
    begun = time.process_time()
    parts = chosen(group.recipes[0])
    limits = within(LIMITS, parts)
    found = search(lambda example: twin_parts(parts, example), limits, num_examples)
    shared, runs = (time.process_time() - begun) / len(group.recipes), []
    for recipe in group.recipes:
        begun, parts = time.process_time(), chosen(recipe)
        seen = real.examine(recipe, parts, limits, found, num_seeds=1)
        runs.append(_run(joined(recipe, parts, found, seen), shared + time.process_time() - begun))
    return runs


def _run(verdict: Verdict, cpu_seconds: float) -> Run:
    is_wrong = verdict.declared_lossless and not verdict.is_lossless
    return {
        "recipe": {kind: getattr(verdict.recipe, kind) for kind in KINDS},
        "lossless": verdict.is_lossless,
        "declared_lossless": verdict.declared_lossless,
        "max_total_variation": verdict.max_total_variation,
        "num_examples": verdict.num_examples,
        "num_branches": verdict.num_paths,
        "cpu_seconds": round(cpu_seconds, 4),
        "classes_run": list(verdict.classes_run),
        "counterexample": verdict.counterexample if is_wrong else None,
    }


def sweep(groups: Sequence[Group], num_examples: int = NUM_EXAMPLES, jobs: int = 1) -> Iterator[list[Run]]:
    """Judges groups as they come (in no order with several processes).

    Args:
        groups: what to judge.
        num_examples: toy worlds of a group's search.
        jobs: processes.

    Raises:
        BrokenProcessPool: when one of them died (killed, out of memory); what came before stands.
    """
    one = functools.partial(judge, num_examples=num_examples)
    if jobs == 1:
        yield from map(one, groups)
        return
    # Not multiprocessing.Pool: it starts a worker that died anew, for ever if all of them die.
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), quiet) as pool:
        try:
            for done in as_completed([pool.submit(one, group) for group in groups]):
                yield done.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in multiprocessing.active_children():
                child.terminate()


def quiet() -> None:
    """A process of its own: one thread, no warnings about toy curves, and Ctrl-C is its parent's to answer."""
    torch.set_num_threads(1)
    logging.getLogger("sparkit.capacity").setLevel(logging.ERROR)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@dataclass(slots=True)
class Report:
    """What is known so far."""

    num_compositions: int
    environment: dict[str, Any]
    jobs: int
    runs: list[Run] = field(default_factory=list)
    begun: float = field(default_factory=time.perf_counter)

    @property
    def is_complete(self) -> bool:
        """Whether every composition was judged."""
        return len(self.runs) == self.num_compositions

    @property
    def wrong(self) -> list[Run]:
        """Declared lossless, measured lossy."""
        return [run for run in self.runs if run["declared_lossless"] and not run["lossless"]]

    def document(self) -> dict[str, Any]:
        """The JSON document `sparkit.prove-all/1`; `max_total_variation` is that of what is declared lossless."""
        exact = [run["max_total_variation"] for run in self.runs if run["declared_lossless"]]
        return {
            "schema": SCHEMA,
            "environment": self.environment,
            "is_complete": self.is_complete,
            "num_compositions": self.num_compositions,
            "max_total_variation": max(exact, default=0.0),
            "jobs": self.jobs,
            "seconds": round(time.perf_counter() - self.begun, 3),
            "cpu_seconds": round(sum(run["cpu_seconds"] for run in self.runs), 3),
            "runs": sorted(self.runs, key=lambda run: [str(run["recipe"][kind]) for kind in KINDS]),
        }

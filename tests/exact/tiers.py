"""The tiers of compositions, without type checks: `python -m tests.exact.tiers NAME`, a name of TIERS below.

A: real modules, R = 1, V = 2, gamma 2, horizon 2: every drafter and head x scheduler x verifier, the other parts at
their defaults, and a pairwise covering array of all kinds.
B: tables at (R = 1, V = 3, gamma 3, horizon 3) and (R = 2, V = 2, gamma 2, horizon 2): scheduler x confidence x
calibrator x verifier, the whole product in thin worlds and a pairwise covering array in rich ones.
C: parts with memory and the undrafted step, over more rounds.
For nights: `full_a` and `full_b` are the whole products in rich worlds, `larger` takes B and C some tokens further.
"""

import itertools
import json
import logging
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from sparkit.proofs import real
from sparkit.proofs.batching import explore_batched
from sparkit.proofs.choice import Chosen, chosen
from sparkit.proofs.examples import Example, Limits
from sparkit.proofs.exploration import explore
from sparkit.proofs.matrix import confidences, covering, drafters, everything
from sparkit.proofs.problem import product, total_variation
from sparkit.proofs.prove import twin_parts
from sparkit.proofs.search import measure, plain_law
from sparkit.proofs.sweep import judge
from sparkit.protocols import CALIBRATORS, SCHEDULERS, VERIFIERS
from sparkit.recipe import Recipe
from tests.exact.tier_memories import LARGER_MEMORIES, MEMORIES, Doubting, Seen, Warm
from tests.exact.tier_worlds import LARGER, THIN, WORLDS, Worlds, long, pair, thin_long, thin_pair


@dataclass(frozen=True, slots=True)
class Line:
    """One composition's result."""

    name: str
    declared_lossless: bool
    total_variation: float
    faults: tuple[str, ...]
    num_paths: int
    seconds: float
    memory_changed_a_plan: bool | None = None
    saw_undrafted: bool | None = None
    saw_mixed: bool | None = None  # some drafted and some rested in one step


def name_of(row: dict[str, Any]) -> str:
    flat = {key: "-".join(map(str, value)) if isinstance(value, tuple) else value for key, value in row.items()}
    return " ".join(f"{key}={value}" for key, value in flat.items())


def tier_a() -> Iterator[Line]:
    rows = [
        {"drafter": drafter, "scheduler": scheduler, "verifier": verifier}
        for drafter, scheduler, verifier in itertools.product(drafters(), SCHEDULERS.names(), VERIFIERS.names())
    ]
    rest = covering(
        {
            "drafter": drafters(),
            "confidence": confidences(),
            "calibrator": [name for name in CALIBRATORS.names() if name != "online"],  # tier C
            "scheduler": SCHEDULERS.names(),
            "verifier": VERIFIERS.names(),
        }
    )
    plains: dict[Any, Any] = {}
    for row in [*rows, *rest]:
        yield _modules(row, plains)


def _modules(row: dict[str, Any], plains: dict[Any, Any]) -> Line:
    begun = time.process_time()
    drafter, head = row["drafter"]
    recipe = Recipe(
        drafter=drafter, head=head, confidence=row.get("confidence"), calibrator=row.get("calibrator"),
        scheduler=row["scheduler"], verifier=row["verifier"],
    )  # fmt: skip
    parts = chosen(recipe)
    with torch.inference_mode():
        made = real.parts_of(recipe, parts, 0, 2)
        problem = real.problem_of(made, Limits(), 2)
        law = explore(problem)
        key = drafter if drafter == "table" else "neural"
        if key not in plains:
            plains[key] = product([explore(replace(problem, parts=replace(made, drafter=None))).marginal(0)])
    off = total_variation(law.probability, plains[key])
    return Line(name_of(row), parts.is_lossless, off, law.faults, law.num_paths, time.process_time() - begun)


def full_a() -> Iterator[Line]:
    """What `sparkit prove --all` judges."""
    for group in everything():
        for run in judge(group):
            faults = tuple((run["counterexample"] or {}).get("faults", ()))
            yield Line(
                name_of(run["recipe"]), run["declared_lossless"], run["max_total_variation"], faults,
                run["num_branches"], run["cpu_seconds"],
            )  # fmt: skip


def tier_b(worlds: Worlds = WORLDS, *, full: bool = False) -> Iterator[Line]:
    axes: dict[str, Any] = {
        "scheduler": SCHEDULERS.names(),
        "confidence": [name for name in confidences() if name != "recurrent"],  # the same table stands in for it
        "calibrator": [name for name in CALIBRATORS.names() if full or name != "online"],  # tier C
        "verifier": VERIFIERS.names(),
    }
    rows = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    for row, (size, example) in itertools.product(rows if full else covering(axes), worlds):
        if row["verifier"] == "coupled" and example.tables.vocab_size > 2:
            continue  # path by path: tests/exact/test_verifiers.py
        begun = time.process_time()
        parts = chosen(Recipe(drafter="table", **row))
        found = measure(example, lambda world: twin_parts(parts, world))  # noqa: B023
        yield Line(
            f"{size} {name_of(row)}", parts.is_lossless, found.total_variation, found.law.faults,
            found.law.num_paths, time.process_time() - begun,
        )  # fmt: skip


def tier_c(memories: tuple[tuple[str, str, int, int], ...] = MEMORIES) -> Iterator[Line]:
    for (scheduler, calibrator, gamma, horizon), verifier in itertools.product(memories, ("rejection", "block")):
        parts = chosen(Recipe(drafter="table", scheduler=scheduler, calibrator=calibrator, verifier=verifier))
        if calibrator.startswith("online"):
            parts = replace(parts, calibrator=Doubting(parts.calibrator, gamma))
        world = thin_long if calibrator.startswith("online") and memories is MEMORIES else long
        yield _remembering(f"{scheduler} {calibrator} {verifier} gamma={gamma}", parts, world(gamma, horizon))
    for scheduler in ("greedy", "delayed", "foresight"):
        parts = chosen(Recipe(drafter="table", scheduler=f"{scheduler}:undrafted_probe_every=2"))
        warm = replace(parts, scheduler=Warm(parts.scheduler))
        yield _remembering(f"warm {scheduler} undrafted", warm, long(2, 5))
    few = "undrafted_probe_every=2,undrafted_probe_size=1"
    for scheduler, verifier in itertools.product(("greedy", "delayed", "foresight"), ("rejection", "block")):
        parts = chosen(Recipe(drafter="table", scheduler=f"{scheduler}:{few}", verifier=verifier))
        warm = replace(parts, scheduler=Warm(parts.scheduler))
        for name, world in (("rich", replace(pair(), horizon=3)), ("thin", replace(thin_pair(), horizon=4))):
            yield _remembering(f"warm {scheduler} {verifier} probing one of two, {name}", warm, world)


def _remembering(name: str, parts: Chosen, example: Example) -> Line:
    begun = time.process_time()
    made = twin_parts(parts, example)
    problem = example.problem(made)
    seen = Seen(made)
    law = explore_batched(problem, watch=seen)
    off = total_variation(law.probability, plain_law(problem))
    return Line(
        name,
        parts.is_lossless,
        off,
        law.faults,
        law.num_paths,
        time.process_time() - begun,
        seen.changed,
        seen.undrafted,
        seen.mixed,
    )


def larger() -> Iterator[Line]:
    yield from tier_b(LARGER)
    yield from tier_c(LARGER_MEMORIES)


TIERS = {
    "a": tier_a, "b": tier_b, "c": tier_c, "full_a": full_a, "full_b": lambda: tier_b(full=True), "larger": larger,
    "wide_product": lambda: tier_b(THIN[:1], full=True), "pair_product": lambda: tier_b(THIN[1:], full=True),
}  # fmt: skip

if __name__ == "__main__":
    torch.set_num_threads(1)
    logging.getLogger("sparkit.capacity").setLevel(logging.ERROR)
    for line in TIERS[sys.argv[1]]():
        print(json.dumps(asdict(line)), flush=True)

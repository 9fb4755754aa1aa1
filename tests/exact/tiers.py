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

from sparkit.engine import Memories, Parts
from sparkit.labels import Records
from sparkit.pace import Pace, Step, Sums
from sparkit.proofs import real
from sparkit.proofs.batching import explore_batched
from sparkit.proofs.choice import Chosen, chosen
from sparkit.proofs.examples import Example, Limits
from sparkit.proofs.exploration import explore
from sparkit.proofs.matrix import confidences, covering, drafters, everything
from sparkit.proofs.paths import Path
from sparkit.proofs.problem import product, total_variation
from sparkit.proofs.prove import twin_parts
from sparkit.proofs.search import measure, plain_law
from sparkit.proofs.sweep import judge
from sparkit.protocols import CALIBRATORS, SCHEDULERS, VERIFIERS
from sparkit.recipe import Recipe
from sparkit.rounds import Limits as PlanLimits
from sparkit.rounds import Round
from sparkit.survival import survival_of
from tests.exact.tier_worlds import LARGER, THIN, WORLDS, Worlds, long, thin_long


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


class Warm:
    """A scheduler that has seen 32 drafted rounds that did not pay."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.lossless, self.batch_independent = inner, inner.lossless, inner.batch_independent

    def start(self) -> Any:
        memory = self.inner.start()
        pace = Pace(((1, Sums(32, 0.0, ((Step(1, 2, 1), 5.0),))),))
        return pace if isinstance(memory, Pace) else replace(memory, pace=pace)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def drafts(self, memory: Any, limits: Any, capacity: Any) -> bool:
        return bool(self.inner.drafts(memory, limits, capacity))

    def plan(self, survival: Any, capacity: Any, limits: Any, memory: Any) -> Any:
        return self.inner.plan(survival, capacity, limits, memory)

    def observe(self, memory: Any, rounds: Any) -> Any:
        return self.inner.observe(memory, rounds)

    def observe_undrafted(self, memory: Any, num_tokens: int, num_requests: int, seconds: float) -> Any:
        return self.inner.observe_undrafted(memory, num_tokens, num_requests, seconds)


class Doubting:
    """An online calibrator with 29 rounds behind it that were accepted less often than they promised.

    The next verified round is the thirtieth, so the first fit happens inside the proof, and moves what follows.
    """

    lossless, batch_independent = True, False

    def __init__(self, inner: Any, gamma: int) -> None:
        self.inner, self.gamma = inner, gamma

    def start(self) -> Any:
        num, gamma = 29, self.gamma
        logits = torch.full((num, gamma), 1.4, dtype=torch.float64)
        accepted = torch.tensor([gamma if i % 4 == 0 else 0 for i in range(num)])
        known = torch.full((num, gamma), 0.3, dtype=torch.float64)
        records = Records(logits, accepted, torch.full((num,), gamma), known)
        return replace(self.inner.start(), records=records)

    def calibrate(self, logits: Any, memory: Any) -> Any:
        return self.inner.calibrate(logits, memory)

    def floor(self, memory: Any, anchors: Any, decisions: Any) -> Any:
        return self.inner.floor(memory, anchors, decisions)

    def observe(self, memory: Any, rounds: Any) -> Any:
        return self.inner.observe(memory, rounds)


MEMORIES = (
    ("delayed:undrafted_probe_every=2", "identity", 2, 5),
    ("foresight:prior_rounds=0.5,undrafted_probe_every=2", "identity", 2, 5),
    ("delayed:undrafted_probe_every=2", "identity", 4, 4),
    ("foresight:prior_rounds=0.5,undrafted_probe_every=2", "identity", 4, 4),
    ("threshold:value=0.7", "online:refit_every=1,probe_every=2", 2, 5),
    ("threshold:value=0.7", "online:refit_every=1,probe_every=2", 4, 4),
)


LARGER_MEMORIES = (
    ("delayed:undrafted_probe_every=2", "identity", 2, 7),
    ("foresight:prior_rounds=0.5,undrafted_probe_every=2", "identity", 2, 7),
    ("delayed:undrafted_probe_every=2", "identity", 4, 5),
    ("foresight:prior_rounds=0.5,undrafted_probe_every=2", "identity", 4, 5),
    ("threshold:value=0.7", "online:refit_every=1,probe_every=2", 2, 4),
)


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
    )


class Seen:
    """Watches for a plan that the first memories would not have made, and for an undrafted step."""

    def __init__(self, parts: Parts) -> None:
        self.parts, self.changed, self.undrafted = parts, False, False

    def __call__(self, memories: Memories, path: Path, rounds: list[Round]) -> None:
        for one in rounds:
            self.undrafted |= one.kind == "undrafted"
            if one.kind == "drafted" and not self.changed and not one.is_probe:
                self.changed = self._fresh(one) != one.verify_len

    def _fresh(self, one: Round) -> int:
        parts = self.parts
        logits = torch.tensor([one.logits], dtype=torch.float64)
        survival = survival_of(parts.calibrator.calibrate(logits, parts.calibrator.start()))
        limits = PlanLimits(1, torch.tensor([one.floor]), torch.tensor([one.ceiling]))
        plan, _ = parts.scheduler.plan(survival, parts.capacity, limits, parts.scheduler.start())
        return int(plan.verify_len)


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

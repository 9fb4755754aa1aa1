"""What the sequential audit costs: its share of a round, on the bundled lane, batch 1 and 32.

Timed on the tensors of real rounds: the bits s(y) and m that the engine takes from the two laws, and the bookkeeping
of `Audit.after`; both against the median round of a run that nobody watches.

    python benchmarks/audit_cost.py --out benchmarks/results/audit-cost-DEVICE-DATE.json
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch

from sparkit.audit import Audit
from sparkit.cli.environment import environment
from sparkit.compose import Composition, assemble
from sparkit.decisions import plain_seeds
from sparkit.engine import outcome
from sparkit.engine.evidence import Judged, audit_bits, evidence
from sparkit.files import write_json
from sparkit.prompts import bundled
from sparkit.recipe import Recipe
from sparkit.rounds import Round


def seconds(call: Callable[[], object]) -> float:
    """The median of five calls."""
    found = []
    for _ in range(5):
        begun = time.perf_counter()
        call()
        found.append(time.perf_counter() - begun)
    return median(found)


def full_steps(composition: Composition, batch: int) -> tuple[list[float], list[list[Round]]]:
    """Seconds and rounds of the drafted steps in which all requests took part."""
    engine, took, rounds = composition.engine(num_slots=batch), list[float](), list[list[Round]]()
    for prompt, seed in zip(bundled("math", batch), plain_seeds(0, batch), strict=True):
        engine.add(composition.request(composition.encode(prompt.text), seed))
    with torch.inference_mode():
        while engine.has_work:
            begun = time.perf_counter()
            step = engine.step()
            if len(step) == batch and step[0].kind == "drafted":
                took.append(time.perf_counter() - begun)
                rounds.append(step)
    return took, rounds


def measure(batch: int) -> dict[str, float]:
    """Seconds a step spends on the audit, beside the median step."""
    composition = assemble(Recipe(scheduler="fixed", capacity="flat", batch=batch, max_new_tokens=64, ignore_eos=True))
    full_steps(composition, batch)  # warm-up
    took, rounds = full_steps(composition, batch)
    audit, bits = Audit(), list[float]()

    def watched(*given: Any) -> Any:
        draft, plan, verdict, p_target = given
        judged = Judged.of(draft, plan, p_target)
        bits.append(seconds(lambda: audit_bits(draft, verdict, judged)))
        return evidence(*given)

    outcome.evidence = watched  # type: ignore[assignment]
    full_steps(composition, batch)
    outcome.evidence = evidence  # type: ignore[assignment]
    books = [seconds(lambda s=step: [audit.after(r.audit_chosen, r.audit_mass) for r in s]) for step in rounds]
    parts = {"step_seconds": median(took), "bits_seconds": median(bits), "books_seconds": median(books)}
    return {**parts, "share": (parts["bits_seconds"] + parts["books_seconds"]) / parts["step_seconds"]}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = {str(batch): measure(batch) for batch in (1, 32)}
    print(json.dumps(found, indent=1))
    if options.out:
        write_json(options.out, {"schema": "sparkit.audit_cost/1", "environment": environment("cpu"), "batch": found})

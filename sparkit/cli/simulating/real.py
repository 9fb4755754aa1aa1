"""The closed loop on the real engine, and its trace."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from sparkit.cli.simulating.options import REAL_USERS, SCHEDULERS, Options, bar, head
from sparkit.compose import Composition, assemble
from sparkit.curves import mispriced
from sparkit.prompts import bundled
from sparkit.recipe import Recipe
from sparkit.serving import real as engine
from sparkit.serving.replay import recorded
from sparkit.traces import TraceHeader, write_trace


def real(options: Options, out: Console, trace: Path | None) -> dict[str, Any]:
    """The closed loop on the engine: every scheduler, fixed gamma and plain decoding in turn."""
    users = options.users or REAL_USERS
    curve = "measured" if options.capacity == "roofline" else options.capacity  # a real engine has its own curve
    recipe = Recipe(
        target=options.target, drafter=options.drafter, head=options.head, confidence=options.confidence,
        gamma=options.gamma, capacity=curve, batch=max(users), seed=options.seed, max_new_tokens=options.max_new_tokens,
    )  # fmt: skip
    with out.status("loading"):
        compositions = [(s, assemble(replace(recipe, scheduler=s))) for s in options.schedulers or SCHEDULERS]
    compositions.append(("plain", compositions[0][1].plain()))
    prompts = bundled("all", 40)
    mixed = [prompts[i] for start in range(40) for i in range(start, len(prompts), 40)]  # domains by turns
    with bar(out, "serving", len(users) * options.turns * len(compositions)) as advance:
        runs = engine.measure(compositions, mixed, users, options.turns, progress=advance)
    first = compositions[0][1]
    plain = (one for run in runs if run.name == "plain" for one in run.rounds)
    if warning := mispriced(first.recipe, first.parts.capacity, plain):
        out.print(f"[yellow]{warning}[/]")
    if trace is not None:
        write_real(trace, [run for run in runs if run.name == compositions[0][0]][-1])
    return {**head(options, "real"), "recipe": asdict(recipe), "runs": [_real_row(run, runs) for run in runs]}


def _real_row(run: engine.RealRun, runs: Sequence[engine.RealRun]) -> dict[str, Any]:
    same = {one.name: one for one in runs if one.users == run.users}
    totals = recorded(run.rounds)
    return {
        "policy": run.name,
        "users": run.users,
        "tokens_per_second": run.tokens_per_second,
        "turns": run.rates,
        "over_plain": run.ratio(same["plain"]),
        "over_fixed": run.ratio(same["fixed"]) if "fixed" in same else None,
        "budget": run.budget,
        "tau": totals.tau,
        "num_rounds": totals.num_rounds,
        "decoded_tokens": totals.tokens,
        "step_seconds": totals.seconds,
    }


def write_real(path: Path, run: engine.RealRun) -> None:
    """The rounds of one real run, for `sparkit replay` and the TUI."""
    composition: Composition = run.composition
    ids = {i for one in run.rounds for i in (one.anchor, one.next_token, *one.drafted, *(t.id for t in one.tokens))}
    tokenizer = composition.tokenizer
    pieces = {i: tokenizer.decode([i]) if tokenizer is not None else str(i) for i in sorted(ids)}
    requests = {n: {"label": p.domain, "prompt": p.text, "seed": run.seeds[n]} for n, p in run.prompts.items()}
    recipe = {k: v for k, v in {**asdict(composition.recipe), **composition.names}.items() if v is not None}
    capacity = composition.parts.capacity.to_json()
    header = TraceHeader(recipe, composition.recipe.gamma, requests, pieces, capacity, composition.recipe.seed)
    write_trace(path, header, run.rounds)

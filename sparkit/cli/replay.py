"""`sparkit replay` decides a recorded run again under other policies, without a model."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from sparkit.cli.documents import JsonOption, console, write_json

SCHEMA = "sparkit.replay/1"
BOUND = "clairvoyant"


def command(
    trace: Annotated[Path, typer.Argument(help="A trace: compose --scheduler fixed --trace FILE, simulate --real.")],
    scheduler: Annotated[list[str] | None, typer.Option(help="Several times to compare; none: as recorded.")] = None,
    calibrator: Annotated[str, typer.Option(help="NAME or NAME:key=value,...")] = "identity",
    capacity: Annotated[str | None, typer.Option(help="A curve or JSON; by default the trace's own.")] = None,
    token_budget: Annotated[int | None, typer.Option(help="Most target tokens of a step.")] = None,
    json: JsonOption = None,
) -> None:
    """Decide the rounds of a trace again under other schedulers and calibrators, without a model.

    Each recorded round is decided where it was recorded; throughput under the curve is an estimate. Rounds must have
    been verified in full by rejection: a draft that nobody verified has no known end, and block verification accepts
    by the whole cut. Below the schedulers stands what one would make that knows what will be accepted: none can do
    better on that curve.

    Examples: `sparkit replay run.jsonl` ·
    `sparkit replay run.jsonl --scheduler greedy --scheduler delayed --calibrator sts:path=sts.json --capacity cpu.json`
    """
    from sparkit.serving.clairvoyant import most
    from sparkit.serving.policy import policy_of
    from sparkit.serving.replay import recorded, replay
    from sparkit.traces import read_trace

    read = read_trace(trace)
    if read.is_cut:
        console(json).print(f"[yellow]{trace} ends in the middle of a line: the whole rounds before it are used[/]")
    if token_budget is not None and token_budget < 1:
        raise ValueError(f"--token-budget {token_budget}: expected 1 or more")
    curve = _curve(capacity, read.header.capacity)
    policies = [
        policy_of(name, calibrator, curve, read.header.gamma, token_budget=token_budget) for name in scheduler or ()
    ]
    rows = [_row("recorded", recorded(read.rounds), None, is_estimate=False)]
    rows += [_row(policy.name, replay(read, policy, str(trace)), calibrator, is_estimate=True) for policy in policies]
    bound = _row(BOUND, most(read, curve, token_budget, str(trace)), None, is_estimate=True) if policies else None
    if json is not None:
        write_json({**_document(trace, read, curve.source, rows), "bound": bound}, json)
    if json != "-":
        _show([*rows, *([bound] if bound else [])], curve.source)


def _curve(spec: str | None, own: dict[str, Any] | None) -> Any:
    from sparkit.capacity import Capacity, flat
    from sparkit.serving.policy import curve_of

    if spec is not None:
        return curve_of(spec)
    return flat() if own is None else Capacity.from_json(own, "the trace's capacity")


def _row(name: str, totals: Any, calibrator: str | None, *, is_estimate: bool) -> dict[str, Any]:
    rates = {key: getattr(totals, key) for key in ("tau", "mean_verify_len", "tokens_per_second")}
    return {"scheduler": name, "calibrator": calibrator, **asdict(totals), **rates, "is_estimate": is_estimate}


def _document(path: Path, trace: Any, source: str, rows: list[dict[str, Any]]) -> dict[str, object]:
    from sparkit.cli.environment import environment

    return {
        "schema": SCHEMA,
        "environment": environment("cpu"),
        "trace": str(path),
        "recipe": trace.header.recipe,
        "gamma": trace.header.gamma,
        "is_cut": trace.is_cut,
        "capacity": source,
        "runs": rows,
    }


def _show(rows: list[dict[str, Any]], source: str) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, title=f"recorded: by its own clock; the others: estimates on the curve {source}")
    table.add_column("scheduler", min_width=len(BOUND))
    for heading in ("rounds", "verified", "accepted", "wasted", "missed", "tau", "tokens/s"):
        table.add_column(heading, justify="right")
    for row in rows:
        counts = [
            str(row[key]) if row[key] is not None else "?" for key in ("verified", "accepted", "wasted", "missed")
        ]
        rates = ["-" if row[key] is None else f"{row[key]:.2f}" for key in ("tau", "tokens_per_second")]
        table.add_row(row["scheduler"], str(row["num_rounds"]), *counts, *rates)
    console(None).print(table)

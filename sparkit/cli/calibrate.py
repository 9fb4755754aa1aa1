"""`sparkit calibrate` fits a calibrator on full-verification rounds and shows what it changed, position by position."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from sparkit.cli.documents import JsonOption, console, out_option, write_json

SCHEMA = "sparkit.calibrate/1"


def command(
    traces: Annotated[
        list[Path] | None, typer.Argument(help="Traces of one composition that verified everything.")
    ] = None,
    calibrator: Annotated[Literal["sts", "platt", "isotonic"], typer.Option(help="What to fit.")] = "sts",
    out: Annotated[Path | None, out_option(help="Write the calibration here, for sts:path=FILE.")] = None,
    plot: Annotated[Path | None, out_option(help="Draw reliability diagrams here (PNG, PDF or SVG).")] = None,
    held_out: Annotated[float, typer.Option(help="Share of the requests kept out of the fit to judge it.")] = 0.5,
    target: Annotated[str, typer.Option(help="As for compose; used when no trace is given.")] = "bundled",
    drafter: Annotated[str, typer.Option()] = "dspark",
    head: Annotated[str | None, typer.Option()] = None,
    confidence: Annotated[str | None, typer.Option()] = None,
    verifier: Annotated[str, typer.Option()] = "rejection",
    gamma: Annotated[int, typer.Option()] = 7,
    temperature: Annotated[float, typer.Option()] = 1.0,
    domain: Annotated[str, typer.Option(help="math, code, chat or all.")] = "all",
    num_prompts: Annotated[int, typer.Option(help="Held-out prompts of each domain.")] = 40,
    max_new_tokens: Annotated[int, typer.Option()] = 128,
    batch: Annotated[int, typer.Option()] = 16,
    seed: Annotated[int, typer.Option()] = 0,
    device: Annotated[str, typer.Option()] = "cpu",
    dtype: Annotated[str, typer.Option()] = "float32",
    json: JsonOption = None,
) -> None:
    """Fit a calibrator on full-verification rounds.

    Without a trace the rounds are recorded now, on the held-out prompts. With traces, record them verifying
    everything: `sparkit compose --scheduler fixed --calibrator identity --trace run.jsonl`. Errors are those of
    requests that the fit has not seen; beside them what a perfect predictor would show.

    Examples: `sparkit calibrate --drafter dspark --out sts.json --plot sts.png` ·
    `sparkit calibrate a.jsonl b.jsonl --calibrator platt --held-out 0.3 --json -`
    """
    from sparkit.calibration import Provenance, report

    if not 0 <= held_out < 1:
        raise ValueError(f"--held-out {held_out}: expected 0 (judge on the fit's own rounds) or more, and below 1")
    if traces:
        recipe, rounds = _read(traces)
    else:
        recipe, rounds = _record(
            domain, num_prompts, json,
            target=target, drafter=drafter, head=head, confidence=confidence, verifier=verifier, gamma=gamma,
            temperature=temperature, max_new_tokens=max_new_tokens, batch=batch, seed=seed, device=device, dtype=dtype,
            scheduler="fixed", calibrator="identity", capacity="flat",
        )  # fmt: skip
    fit, judge = _split(rounds, held_out)
    part, fitted_report = _kind(calibrator).fit(fit, Provenance.of(recipe))
    calibrated = part.calibrate(judge.logits, None)
    positions = report(judge, calibrated, [position.note for position in fitted_report])
    if out is not None:
        part.save(out, positions)
    if plot is not None:
        _plot(judge, calibrator, calibrated, plot)
    if json is not None:
        write_json(_document(calibrator, recipe, len(fit), len(judge), positions, held_out), json)
    if json != "-":
        _show(positions, calibrator, len(fit), len(judge), held_out)


def _record(domain: str, num_prompts: int, json: str | None, **names: Any) -> tuple[dict[str, Any], list[Any]]:
    """The rounds of the held-out prompts, every draft verified."""
    from rich.progress import Progress

    from sparkit.compose import assemble
    from sparkit.decisions import request_seed
    from sparkit.prompts import bundled
    from sparkit.recipe import Recipe

    recipe = Recipe(**names)
    composition, prompts = assemble(recipe, measure=False), bundled(domain, num_prompts)
    engine, rounds = composition.engine(), []
    for number, prompt in enumerate(prompts):
        engine.add(
            composition.request(composition.encode(prompt.text), request_seed(recipe.seed, number, 0), prompt.domain)
        )
    with Progress(console=console(json), transient=True) as progress:
        task = progress.add_task("requests", total=len(prompts))
        for one in engine.stream():
            rounds.append(one)
            progress.update(task, completed=len(engine.finished))
    return {key: value for key, value in asdict(recipe).items() if value is not None}, rounds


def _read(traces: Sequence[Path]) -> tuple[dict[str, Any], list[Any]]:
    """The rounds of all traces, requests kept apart, and the recipe that they share."""
    from dataclasses import replace

    from sparkit.calibration import Provenance
    from sparkit.traces import read_trace

    recipe: dict[str, Any] | None = None
    rounds: list[Any] = []
    for path in traces:
        trace = read_trace(path)
        made = {**trace.header.recipe, "gamma": trace.header.gamma}
        recipe = made if recipe is None else recipe
        if different := Provenance.of(recipe).differences(Provenance.of(made)):
            raise ValueError(f"{path}: not the composition of {traces[0]}: {'; '.join(different)}")
        first = 1 + max((one.request for one in rounds), default=-1)
        _require_full(path, trace.rounds)
        rounds += [replace(one, request=first + one.request) for one in trace.rounds]
    return recipe or {}, rounds


def _require_full(path: Path, rounds: Sequence[Any]) -> None:
    cut = sum(one.verify_len < one.ceiling for one in rounds if one.kind == "drafted")
    if cut:
        raise ValueError(
            f"{path}: {cut} rounds verified less than they could; a calibrator is fitted on full verification: "
            "record with --scheduler fixed and no token budget"
        )


def _split(rounds: Sequence[Any], held_out: float) -> tuple[Any, Any]:
    """Requests by turns, so that both parts see every domain."""
    from sparkit.labels import records_of

    requests = sorted({one.request for one in rounds})
    kept = {request for place, request in enumerate(requests) if int((place + 1) * held_out) > int(place * held_out)}
    fit = [one for one in rounds if one.request not in kept]
    judge = [one for one in rounds if one.request in kept] if kept else fit
    return records_of(fit), records_of(judge)


def _kind(name: str) -> Any:
    from sparkit.calibrators.isotonic import Isotonic
    from sparkit.calibrators.platt import Platt
    from sparkit.calibrators.sts import Sts

    return {"sts": Sts, "platt": Platt, "isotonic": Isotonic}[name]


def _plot(judge: Any, name: str, confidence: Any, path: Path) -> None:
    from sparkit.calibration import to_confidence
    from sparkit.reports.reliability import plot_reliability

    plot_reliability(judge, {"raw": to_confidence(judge.logits, judge.logits), name: confidence}, path)


def _document(
    name: str, recipe: dict[str, Any], num_fit: int, num_judged: int, positions: Sequence[Any], held_out: float
) -> dict[str, object]:
    from sparkit.cli.environment import environment

    means = {key: _mean(positions, key) for key in ("ece_before", "ece_after", "ece_floor", "auc")}
    return {
        "schema": SCHEMA,
        "environment": environment("cpu"),
        "calibrator": name,
        "recipe": recipe,
        "held_out": held_out,
        "num_fitted": num_fit,
        "num_judged": num_judged,
        **means,
        "positions": [asdict(position) for position in positions],
    }


def _mean(positions: Sequence[Any], key: str) -> float | None:
    """Weighted by rounds, like every error over positions."""
    known = [(p.num_rounds, getattr(p, key)) for p in positions if getattr(p, key) is not None]
    total = sum(num for num, _ in known)
    return sum(num * value for num, value in known) / total if total else None


def _show(positions: Sequence[Any], name: str, num_fit: int, num_judged: int, held_out: float) -> None:
    from rich.table import Table

    judged = "the same rounds" if held_out == 0 else f"{num_judged} rounds of other requests"
    table = Table(title=f"{name}: fitted on {num_fit} rounds, judged on {judged}")
    for heading in ("position", "rounds", "ECE raw", f"ECE {name}", "perfect predictor", "AUC", ""):
        table.add_column(heading, justify="left" if not heading else "right")
    for one in positions:
        errors = (_percent(one.ece_before), _percent(one.ece_after), _percent(one.ece_floor))
        area = "" if one.auc is None else f"{one.auc:.3f}"
        table.add_row(str(one.position), str(one.num_rounds), *errors, area, one.note)
    means = [_percent(_mean(positions, key)) for key in ("ece_before", "ece_after", "ece_floor")]
    mean_area = _mean(positions, "auc")
    table.add_row("mean", "", *means, "" if mean_area is None else f"{mean_area:.3f}", "", style="bold")
    console(None).print(table)


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.2f}%"

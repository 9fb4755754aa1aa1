"""`sparkit profile` measures the capacity curve of this device, on the engine and the parts that will use it."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from sparkit.cli.documents import JsonOption, console, out_option, write_json

SCHEMA = "sparkit.profile/1"


def command(
    target: Annotated[str, typer.Option(help="As for compose.")] = "bundled",
    drafter: Annotated[str, typer.Option(help="NAME or NAME:key=value,...")] = "dspark",
    head: Annotated[str | None, typer.Option(help="Serial head, as for compose.")] = None,
    confidence: Annotated[str | None, typer.Option(help="As for compose; its time counts as overhead.")] = None,
    scheduler: Annotated[str, typer.Option(help="Whose planning time counts as overhead.")] = "greedy",
    verifier: Annotated[str, typer.Option()] = "rejection",
    gamma: Annotated[int, typer.Option(help="Draft tokens per round.")] = 7,
    batch: Annotated[
        list[int] | None, typer.Option(help="Requests; several times for several. [1 2 4 8 16 32]")
    ] = None,
    context: Annotated[list[int] | None, typer.Option(help="Prompt tokens of a request; several times. [128]")] = None,
    repeats: Annotated[int, typer.Option(help="Sweeps over all lengths; medians count.")] = 9,
    kind: Annotated[Literal["step", "linear"], typer.Option(help="How the table is read between sizes.")] = "linear",
    device: Annotated[str, typer.Option()] = "cpu",
    dtype: Annotated[str, typer.Option()] = "float32",
    out: Annotated[Path | None, out_option(help="Write the curve here, for --capacity PATH.")] = None,
    plot: Annotated[Path | None, out_option(help="Draw it here (PNG, PDF or SVG).")] = None,
    json: JsonOption = None,
) -> None:
    """Measure the capacity curve of this device.

    Draft, verification and overhead are read off real engine steps: every verify_len from 0 to gamma and undrafted
    steps, at each batch size, in turn. The parts add up to what a step took: verification is what the tokens cost in
    the target's pass (a monotone envelope), overhead all that belongs to the requests.

    Examples: `sparkit profile --out cpu.json --plot cpu.png` ·
    `sparkit profile --batch 1 --batch 8 --context 64 --json -`
    """
    from sparkit.capacity import capacity_of
    from sparkit.cli.environment import device_name
    from sparkit.compose import assemble
    from sparkit.profiling import Profile
    from sparkit.recipe import Recipe

    recipe = Recipe(
        target=target, drafter=drafter, head=head, confidence=confidence, scheduler=scheduler, verifier=verifier,
        gamma=gamma, capacity="flat", device=device, dtype=dtype,
    )  # fmt: skip
    parts = assemble(recipe, measure=False).parts
    source = f"{device_name(device)}, {target}, {drafter}"
    sizes, contexts = batch or [1, 2, 4, 8, 16, 32], context or [128]
    profiles = {length: _measure(parts, gamma, sizes, length, repeats, kind, source, json) for length in contexts}
    samples = tuple(sample for one in profiles.values() for sample in one.samples)
    whole = Profile(samples, capacity_of(samples, kind, source, gamma))
    if out is not None:
        whole.capacity.save(out)
    if plot is not None:
        _plot(whole, plot)
    if json is not None:
        write_json(_document(recipe, whole, profiles), json)
    if json != "-":
        _show(whole.capacity, sizes, gamma)


def _measure(
    parts: Any, gamma: int, sizes: list[int], context_len: int, repeats: int, kind: Any, source: str, json: str | None
) -> Any:
    from rich.progress import Progress

    from sparkit.profiling import profile

    with Progress(console=console(json), transient=True) as progress:
        task = progress.add_task(f"steps at context {context_len}", total=None)
        return profile(
            parts, gamma=gamma, num_requests=sizes, context_len=context_len, repeats=repeats, kind=kind, source=source,
            progress=lambda done, total: progress.update(task, completed=done, total=total),
        )  # fmt: skip


def _plot(whole: Any, path: Path) -> None:
    from sparkit.reports.capacity import plot_capacity

    plot_capacity(whole, path)


def _document(recipe: Any, whole: Any, profiles: dict[int, Any]) -> dict[str, object]:
    from sparkit.cli.environment import environment

    samples = [
        {
            "num_requests": one.num_requests,
            "verify_len": one.verify_len,
            "block_len": one.block_len,
            "batch_tokens": one.batch_tokens,
            "context_len": one.context_len,
            **{f"{phase}_seconds": value for phase, value in asdict(one.seconds).items()},
        }
        for one in whole.samples
    ]
    contexts = [{"context_len": length, "capacity": one.capacity.to_json()} for length, one in profiles.items()]
    return {
        "schema": SCHEMA,
        "environment": environment(recipe.device),
        "recipe": asdict(recipe),
        "capacity": whole.capacity.to_json(),
        "contexts": contexts,
        "samples": samples,
    }


def _show(capacity: Any, sizes: list[int], gamma: int) -> None:
    from rich.table import Table

    out = console(None)
    verify = Table(title=f"verification, {capacity.source}")
    for heading in ("batch tokens", "ms", "ms measured"):
        verify.add_column(heading, justify="right")
    for (size, seconds), (_, raw) in zip(capacity.verify.points, capacity.raw_verify.points, strict=True):
        verify.add_row(str(size), f"{1e3 * seconds:.2f}", f"{1e3 * raw:.2f}")
    out.print(verify)
    steps = Table(title="a step, ms; and when drafting everything pays")
    for heading in (
        "requests",
        "draft",
        "a draft token",
        "overhead",
        "undrafted step",
        f"tau to break even at {gamma}",
    ):
        steps.add_column(heading, justify="right")
    for num in sizes:
        made = (capacity.draft_seconds(num), capacity.draft_token.at(num), capacity.overhead_seconds(num))
        seconds = (*made, 1 / capacity.undrafted_rate(num, num))
        even = 1 + capacity.break_even(num, num * (1 + gamma))
        steps.add_row(str(num), *(f"{1e3 * value:.2f}" for value in seconds), f"{even:.2f}")
    out.print(steps)

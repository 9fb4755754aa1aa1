"""`sparkit prove`: the exact output law of a composition; exit 1 and the smallest counterexample if it is lossy."""

from typing import Annotated, Any

import typer

from sparkit.cli.documents import JsonOption, console, write_json

SAVE_EVERY = 60.0
"""Seconds between two writings of an unfinished matrix."""


def command(
    target: Annotated[
        str, typer.Option(help="table:appendix-a, or a JSON file of tables: the one world to prove in. Else many.")
    ] = "",
    drafter: Annotated[str | None, typer.Option(help="NAME or NAME:key=value,...; by default dspark.")] = None,
    head: Annotated[str | None, typer.Option(help="Serial head; by default the drafter's own.")] = None,
    confidence: Annotated[str | None, typer.Option(help="By default a trained head.")] = None,
    calibrator: Annotated[str | None, typer.Option(help="By default identity.")] = None,
    scheduler: Annotated[str | None, typer.Option(help="Such as threshold:value=0.6; by default greedy.")] = None,
    verifier: Annotated[str | None, typer.Option(help="rejection (the default), block, coupled or lenient.")] = None,
    capacity: Annotated[str, typer.Option(help="Curves to try: any, or flat.")] = "any",
    gamma: Annotated[int | None, typer.Option(help="Draft positions; by default the search varies them.")] = None,
    horizon: Annotated[int | None, typer.Option(help="Tokens after the first anchor.")] = None,
    requests: Annotated[int | None, typer.Option(help="Requests scheduled together.")] = None,
    temperature: Annotated[float | None, typer.Option()] = None,
    top_k: Annotated[int | None, typer.Option()] = None,
    top_p: Annotated[float | None, typer.Option()] = None,
    token_budget: Annotated[int | None, typer.Option(help="Most target tokens of a step.")] = None,
    recipe: Annotated[str | None, typer.Option(metavar="PATH", help="Take the part names from a recipe file.")] = None,
    examples: Annotated[int | None, typer.Option(help="Toy worlds to try: 60, or 6 a group with --all.")] = None,
    appendix_a: Annotated[bool, typer.Option("--appendix-a", help="The paper's example, for every scheduler.")] = False,
    all_: Annotated[bool, typer.Option("--all", help="The full matrix; parts that are named are kept fixed.")] = False,
    jobs: Annotated[int, typer.Option(help="Processes for --all.")] = 1,
    json: JsonOption = None,
) -> None:
    """Compute the exact output law of a composition; exit 1 when it is lossy.

    Examples: `sparkit prove --drafter dspark --scheduler greedy` · `sparkit prove --scheduler lookahead` ·
    `sparkit prove --scheduler lookahead --verifier coupled` · `sparkit prove --target world.json` ·
    `sparkit prove --appendix-a` · `sparkit prove --all --jobs 2 --json matrix.json`
    """
    import logging

    import torch

    torch.set_num_threads(1)  # tiny tensors: more threads only wait for each other
    logging.getLogger("sparkit.capacity").setLevel(logging.ERROR)  # toy curves are flat on purpose
    for name, value in (("examples", examples), ("jobs", jobs), ("gamma", gamma), ("requests", requests)):
        if value is not None and value < 1:
            raise ValueError(f"--{name} {value}: expected 1 or more")
    names = {"drafter": drafter, "head": head, "confidence": confidence, "calibrator": calibrator}
    names |= {"scheduler": scheduler, "verifier": verifier}
    named = {kind: spec for kind, spec in names.items() if spec is not None}
    if appendix_a:
        _appendix_a(json)
    elif all_:
        _all(named, examples, jobs, json)
    else:
        sizes = {"gamma": gamma, "horizon": horizon, "requests": requests, "token_budget": token_budget}
        limits = _limits(sizes, (temperature, top_k, top_p), is_flat=capacity == "flat")
        _one(_recipe(recipe, target, named), limits, examples, json)


def _limits(sizes: dict[str, int | None], sampling: tuple[Any, Any, Any], *, is_flat: bool) -> Any:
    from sparkit.proofs.examples import Limits
    from sparkit.proofs.prove import sampling_of

    return Limits(**sizes, params=sampling_of(*sampling), is_flat=is_flat)  # type: ignore[arg-type]


def _recipe(path: str | None, target: str, named: dict[str, str]) -> Any:
    from pathlib import Path

    from sparkit.proofs.real import given_tables
    from sparkit.recipe import Recipe

    if path is not None:
        read = Recipe.load(Path(path))
        return read if read.target.startswith("table") else Recipe(target="table", **_parts_of(read))
    is_given = bool(target) and given_tables(target) is not None
    if target and not is_given:
        raise ValueError(
            f"--target {target!r}: a proof enumerates small tables; give table:appendix-a or the path of a JSON "
            "file of tables, or leave it out and toy worlds are tried"
        )
    return Recipe(target=target or "table", **{"drafter": "table" if is_given else "dspark", **named})  # type: ignore[arg-type]


def _parts_of(recipe: Any) -> dict[str, Any]:
    from sparkit.proofs.matrix import KINDS

    return {kind: getattr(recipe, kind) for kind in KINDS}


def _one(recipe: Any, limits: Any, examples: int | None, json: str | None) -> None:
    from rich.progress import Progress

    from sparkit.proofs.prove import NUM_EXAMPLES, prove

    out, num_examples = console(json), examples or NUM_EXAMPLES
    with Progress(console=out, transient=True) as progress:
        task = progress.add_task("worlds", total=num_examples)
        verdict = prove(recipe, limits, num_examples, lambda done: progress.update(task, completed=done))
    if json is not None:
        write_json(verdict.document(), json)
    if json != "-":
        _show(verdict, out)
    if not verdict.is_lossless:
        raise typer.Exit(1)


def _show(verdict: Any, out: Any) -> None:
    from sparkit.proofs.reading import tables_of

    word = "[green]exact[/]" if verdict.is_lossless else "[red]LOSSY[/]"
    declared = "lossless" if verdict.declared_lossless else "lossy"
    out.print(
        f"{word}: largest total variation {verdict.max_total_variation:.3g} over {verdict.num_examples} worlds, "
        f"{verdict.num_paths} branches (declared {declared})"
    )
    out.print(f"ran: {', '.join(verdict.classes_run)}")
    for fault in dict.fromkeys(verdict.faults):
        out.print(f"[red]fault[/]: {fault}")
    shown = verdict.counterexample
    for table in [] if shown is None else tables_of(shown):
        out.print(table)


def _appendix_a(json: str | None) -> None:
    from sparkit.proofs.paper import appendix_a, document
    from sparkit.proofs.reading import appendix_table, theta_table

    rows = appendix_a()
    if json is not None:
        write_json(document(rows), json)
    if json != "-":
        out = console(json)
        out.print(theta_table())
        out.print(appendix_table(rows))


def _all(named: dict[str, str], examples: int | None, jobs: int, json: str | None) -> None:
    """What ends early keeps what is done: printed, written, marked as not complete.

    Exit code 130 after Ctrl-C or a polite kill, 3 when a process died; 1 when what was judged already holds a fault.
    """
    from sparkit.cli.environment import environment
    from sparkit.proofs.matrix import everything
    from sparkit.proofs.reading import matrix_summary, matrix_table
    from sparkit.proofs.sweep import NUM_EXAMPLES, Report, sweep

    out, groups = console(json), everything(named)
    report = Report(sum(len(group.recipes) for group in groups), environment("cpu"), jobs)
    code = _fill(report, sweep(groups, examples or NUM_EXAMPLES, jobs), out, json)
    document = report.document()
    if json is not None:
        write_json(document, json)
    if json != "-":
        out.print(matrix_table(document["runs"]))
        for line in matrix_summary(document):
            out.print(line)
    if report.wrong or code:
        raise typer.Exit(1 if report.wrong else code)


def _fill(report: Any, found: Any, out: Any, json: str | None) -> int:
    """Judges one group after the other; returns 0, or the exit code of what ended it early."""
    import signal
    import time
    from concurrent.futures.process import BrokenProcessPool

    from rich.progress import Progress, TimeElapsedColumn

    from sparkit.cli.errors import EXIT_DIED, EXIT_INTERRUPTED

    # a background shell ignores Ctrl-C's signal, and a polite kill should keep as much
    before = [(n, signal.signal(n, signal.default_int_handler)) for n in (signal.SIGINT, signal.SIGTERM)]
    saved = time.monotonic()
    try:
        with Progress(*Progress.get_default_columns(), TimeElapsedColumn(), console=out, transient=True) as progress:
            task = progress.add_task("compositions", total=report.num_compositions)
            for runs in found:
                report.runs.extend(runs)
                progress.advance(task, len(runs))
                if json not in (None, "-") and time.monotonic() - saved > SAVE_EVERY:
                    write_json(report.document(), str(json))
                    saved = time.monotonic()
        return 0
    except KeyboardInterrupt:
        out.print("[yellow]interrupted[/]: what was judged so far is kept")
        return EXIT_INTERRUPTED
    except BrokenProcessPool:
        out.print("[red]a process died[/] (killed, or out of memory): what was judged so far is kept; try fewer --jobs")
        return EXIT_DIED
    finally:
        found.close()
        for number, handler in before:
            signal.signal(number, handler)

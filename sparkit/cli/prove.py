"""`sparkit prove`: the exact output law of a composition; exit 1 and the smallest counterexample if it is lossy."""

from typing import Annotated, Any

import typer

from sparkit.cli.documents import JsonOption, console, write_json


def command(
    target: Annotated[str, typer.Option(help="table:appendix-a proves in that world; by default many are tried.")] = "",
    drafter: Annotated[str, typer.Option(help="NAME or NAME:key=value,...")] = "dspark",
    head: Annotated[str | None, typer.Option(help="Serial head; by default the drafter's own.")] = None,
    confidence: Annotated[str | None, typer.Option(help="By default a trained head.")] = None,
    calibrator: Annotated[str | None, typer.Option(help="By default identity.")] = None,
    scheduler: Annotated[str, typer.Option(help="Such as greedy, threshold:value=0.6, lookahead.")] = "greedy",
    verifier: Annotated[str, typer.Option(help="rejection, block, coupled or lenient.")] = "rejection",
    capacity: Annotated[str, typer.Option(help="Curves to try: any, or flat.")] = "any",
    gamma: Annotated[int | None, typer.Option(help="Draft positions; by default the search varies them.")] = None,
    horizon: Annotated[int | None, typer.Option(help="Tokens after the first anchor.")] = None,
    requests: Annotated[int | None, typer.Option(help="Requests scheduled together.")] = None,
    temperature: Annotated[float | None, typer.Option()] = None,
    top_k: Annotated[int | None, typer.Option()] = None,
    top_p: Annotated[float | None, typer.Option()] = None,
    token_budget: Annotated[int | None, typer.Option(help="Most target tokens of a step.")] = None,
    recipe: Annotated[str | None, typer.Option(metavar="PATH", help="Take the part names from a recipe file.")] = None,
    examples: Annotated[int, typer.Option(help="Toy worlds to try.")] = 60,
    appendix_a: Annotated[bool, typer.Option("--appendix-a", help="The paper's example, for every scheduler.")] = False,
    all_: Annotated[bool, typer.Option("--all", help="The full matrix of parts.")] = False,
    json: JsonOption = None,
) -> None:
    """Compute the exact output law of a composition; exit 1 when it is lossy.

    Examples: `sparkit prove --drafter dspark --scheduler greedy` · `sparkit prove --scheduler lookahead` ·
    `sparkit prove --scheduler lookahead --verifier coupled` · `sparkit prove --appendix-a` · `sparkit prove --all`
    """
    import logging

    import torch

    from sparkit.proofs.examples import Limits
    from sparkit.proofs.prove import sampling_of

    torch.set_num_threads(1)  # tiny tensors: more threads only wait for each other
    logging.getLogger("sparkit.capacity").setLevel(logging.ERROR)  # toy curves are flat on purpose
    if appendix_a:
        _appendix_a(json)
        return
    if all_:
        _all(min(examples, 6), json)
        return
    names = {"drafter": drafter, "head": head, "confidence": confidence, "calibrator": calibrator}
    asked = _recipe(recipe, target, names | {"scheduler": scheduler, "verifier": verifier})
    limits = Limits(
        gamma=gamma,
        horizon=horizon,
        requests=requests,
        params=sampling_of(temperature, top_k, top_p),
        is_flat=capacity == "flat",
        token_budget=token_budget,
    )
    _one(asked, limits, 1 if target else examples, json)


def _recipe(path: str | None, target: str, names: dict[str, Any]) -> Any:
    from pathlib import Path

    from sparkit.recipe import Recipe

    if target not in ("", "table:appendix-a"):
        raise ValueError(f"--target {target!r}: a proof runs in toy worlds; give table:appendix-a, or leave it out")
    return Recipe.load(Path(path)) if path is not None else Recipe(target=target or "table", **names)


def _one(recipe: Any, limits: Any, num_examples: int, json: str | None) -> None:
    from rich.progress import Progress

    from sparkit.proofs.prove import prove

    out = console(json)
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
        f"{verdict.finding.num_paths} branches (declared {declared})"
    )
    out.print(f"ran: {', '.join(verdict.classes_run)}")
    for fault in dict.fromkeys(verdict.faults):
        out.print(f"[red]fault[/]: {fault}")
    if verdict.finding.worst is not None:
        for table in tables_of(verdict.finding.worst):
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


def _all(num_examples: int, json: str | None) -> None:
    from rich.progress import Progress

    from sparkit.proofs.matrix import everything
    from sparkit.proofs.reading import matrix_table

    out, verdicts = console(json), []
    claims = everything()
    with Progress(console=out, transient=True) as progress:
        task = progress.add_task("compositions", total=len(claims))
        for claim in claims:
            verdicts.append(claim.judge(num_examples))
            progress.advance(task)
    if json is not None:
        runs = [verdict.document() for verdict in verdicts]
        write_json({"schema": "sparkit.prove-all/1", "runs": runs}, json)
    if json != "-":
        out.print(matrix_table(verdicts))
    if any(verdict.declared_lossless and not verdict.is_lossless for verdict in verdicts):
        raise typer.Exit(1)

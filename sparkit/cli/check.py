"""`sparkit check KIND NAME` holds one part, ours or a plug-in's, to the laws of its kind."""

from typing import Annotated

import typer

from sparkit.cli.documents import JsonOption, console, write_json


def command(
    kind: Annotated[str, typer.Argument(help="scheduler, calibrator, verifier, confidence, head or drafter.")],
    name: Annotated[str, typer.Argument(help="NAME or NAME:key=value,...")],
    json: JsonOption = None,
) -> None:
    """Hold one part to the laws of its kind; exit 1 when it breaks one.

    Examples: `sparkit check scheduler greedy` · `sparkit check scheduler lookahead` ·
    `sparkit check confidence token_prob --json -`
    """
    from dataclasses import asdict

    from sparkit.proofs.checking import check

    report = check(kind, name)
    if json is not None:
        write_json({"schema": "sparkit.check/1", "lossless": report.is_kept, **asdict(report)}, json)
    if json != "-":
        out = console(json)
        for law in report.kept:
            out.print(f"[green]kept[/]    {law}")
        for broken in report.broken:
            out.print(f"[red]broken[/]  {broken.law}: ", end="")
            out.print(broken.detail, markup=False)
        if report.broken and not report.declared_lossless:
            out.print(f"{report.name} declares itself lossy: this is what it is here for")
    if not report.is_kept:
        raise typer.Exit(1)

"""`sparkit list` shows every part by kind: its name, whether it is lossless, and its one line."""

from typing import Annotated, NamedTuple

import typer

from sparkit.cli.documents import JsonOption, console, write_json
from sparkit.protocols import CALIBRATORS, CONFIDENCES, DRAFTERS, HEADS, SCHEDULERS, TARGETS, VERIFIERS
from sparkit.registry import Part, Registry

REGISTRIES: tuple[Registry[object], ...] = (
    TARGETS,
    DRAFTERS,
    HEADS,
    CONFIDENCES,
    CALIBRATORS,
    SCHEDULERS,
    VERIFIERS,
)


class Broken(NamedTuple):
    """A plug-in that cannot be loaded."""

    kind: str
    name: str
    error: str  # one line


def command(
    kind: Annotated[str | None, typer.Argument(help="Only this kind: target, drafter, head, ...")] = None,
    json: JsonOption = None,
) -> None:
    """List every part by kind, with a line each and its lossless flag.

    Examples: `sparkit list` · `sparkit list scheduler` · `sparkit list --json -`
    """
    parts = [found for registry in chosen(kind) for found in entries(registry)]
    if json is not None:
        write_json({"schema": "sparkit.list/1", "parts": [row(found) for found in parts]}, json)
    if json != "-":
        show(parts)


def chosen(kind: str | None) -> tuple[Registry[object], ...]:
    """The registries asked for; "schedulers" is as good as "scheduler"."""
    kinds = {registry.kind: registry for registry in REGISTRIES}
    if kind is None:
        return REGISTRIES
    if kind.removesuffix("s") not in kinds:
        raise LookupError(f"unknown kind {kind!r}; known: {', '.join(kinds)}")
    return (kinds[kind.removesuffix("s")],)


def entries(registry: Registry[object]) -> list[Part[object] | Broken]:
    """The parts of one kind; a plug-in that cannot be loaded hides nobody else."""
    found: list[Part[object] | Broken] = []
    for name in registry.names():
        try:
            found.append(registry.part(name))
        except LookupError as error:
            found.append(Broken(registry.kind, name, str(error)))
    return found


def row(entry: Part[object] | Broken) -> dict[str, object]:
    """One entry of the JSON document."""
    if isinstance(entry, Broken):
        return entry._asdict()
    parameters = {name: str(parameter) for name, parameter in entry.parameters.items()}
    return {
        "kind": entry.kind,
        "name": entry.name,
        "lossless": entry.lossless,
        "summary": entry.summary,
        "source": entry.source,
        "parameters": parameters,
    }


def show(parts: list[Part[object] | Broken]) -> None:
    """Print the table."""
    from rich.markup import escape
    from rich.table import Table

    table = Table("kind", "name", "lossless", "what it does", box=None, pad_edge=False)
    for part in parts:
        if isinstance(part, Broken):
            table.add_row(part.kind, part.name, "[red]broken[/]", escape(part.error))
        else:
            table.add_row(part.kind, part.name, "yes" if part.lossless else "[red]LOSSY[/]", escape(part.summary))
    console(None).print(table)

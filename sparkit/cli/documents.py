"""`--json PATH|-`: one document a command, written whole or not at all.

>>> write_json({"schema": "sparkit.example/1"}, "-")
{
  "schema": "sparkit.example/1"
}
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from sparkit import files

STDOUT = "-"
JsonOption = Annotated[
    str | None, typer.Option("--json", metavar="PATH|-", help="Write one JSON document to PATH, or to standard output.")
]


def write_json(document: Mapping[str, object], destination: str) -> None:
    """Write `document` to a path, or to standard output for "-"; NaN is refused: an absent number is null."""
    if destination == STDOUT:
        sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
        return
    try:
        files.write_json(Path(destination), document)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(f"cannot write {destination}: {reason}; give --json a path that can be written") from error


def console(destination: str | None) -> Any:
    """The rich console for people: standard output, or stderr when the JSON document takes standard output."""
    from rich.console import Console

    return Console(stderr=destination == STDOUT, highlight=False)

"""`--json PATH|-`: one document a command, written whole or not at all.

>>> write_json({"schema": "sparkit.example/1"}, "-")
{
  "schema": "sparkit.example/1"
}
"""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

STDOUT = "-"
JsonOption = Annotated[
    str | None, typer.Option("--json", metavar="PATH|-", help="Write one JSON document to PATH, or to standard output.")
]


def write_json(document: Mapping[str, object], destination: str) -> None:
    """Write `document` to a path, or to standard output for "-"; NaN is refused: an absent number is null."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    if destination == STDOUT:
        sys.stdout.write(text)
        return
    write_text(Path(destination), text)


def write_text(path: Path, text: str) -> None:
    """Write a file under a temporary name and rename it: readers see the old file or the new one, never half."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(f"cannot write {path}: {reason}; give --json a path in a folder that can be written") from error
    finally:
        temporary.unlink(missing_ok=True)


def console(destination: str | None) -> Any:
    """The rich console for people: standard output, or stderr when the JSON document takes standard output."""
    from rich.console import Console

    return Console(stderr=destination == STDOUT, highlight=False)

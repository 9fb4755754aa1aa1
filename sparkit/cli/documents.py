"""What a command writes: `--json PATH|-`, one document, whole or not at all; and other files that people name.

Where a file is to go is looked at before the work begins, not after it.

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
from typer.core import TyperOption

from sparkit import files
from sparkit.cli import errors

STDOUT = "-"


def _require_folder(param: TyperOption, value: Any) -> Any:
    if value is not None and value != STDOUT:
        with errors.spoken():
            files.require_folder(Path(value), f"{param.opts[0]} {value}")
    return value


def out_option(*names: str, help: str, **more: Any) -> Any:
    """The option for a file to write; a missing folder ends the command before it does anything."""
    return typer.Option(*names, help=help, callback=_require_folder, **more)


JsonOption = Annotated[
    str | None,
    out_option("--json", metavar="PATH|-", help="Write one JSON document to PATH, or to standard output."),
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

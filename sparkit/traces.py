"""A trace is a run on disk: one JSON line for the recipe, then one line a round; it replays without a model.

Traces come from anybody, so a line is data and nothing else: every field is checked against `Round`, and a file that
ends in the middle of a line (a full disk, a killed run) gives the rounds before it and says so.
"""

import dataclasses
import json
import typing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from sparkit.files import parse_json, writing
from sparkit.rounds import Round, Seconds, Token, TopTokens
from sparkit.typed_json import reader

SCHEMA = "sparkit.trace/1"
MAX_LINE_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class TraceHeader:
    """What the rounds of a trace came from."""

    recipe: dict[str, Any]  # the composition's names and parameters
    gamma: int
    requests: dict[int, dict[str, Any]]  # by id: label, prompt (text), seed
    pieces: dict[int, str]  # text of every token id that occurs
    capacity: dict[str, Any] | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Trace:
    """A run read back."""

    header: TraceHeader
    rounds: tuple[Round, ...]
    is_cut: bool = False  # the file ended in the middle of a line


def to_line(value: Any) -> bytes:
    """One JSON line; nan becomes null."""
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value != value:
        return None
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "-inf"
    return value


class TraceWriter:
    """Writes rounds as they come; the file appears whole when the writer closes."""

    def __init__(self, out: BinaryIO, header: TraceHeader) -> None:
        self._out = out
        out.write(to_line({"schema": SCHEMA, **_plain(header)}))

    def add(self, round_: Round) -> None:
        """Appends one round."""
        self._out.write(to_line(round_))


def write_trace(path: Path, header: TraceHeader, rounds: Iterable[Round]) -> None:
    """Writes a whole trace."""
    with writing(path) as out:
        writer = TraceWriter(out, header)
        for one in rounds:
            writer.add(one)


def read_trace(path: Path) -> Trace:
    """Reads a trace back.

    Raises:
        ValueError: naming file and line, for anything that is not a trace of this schema.
    """
    with Path(path).open("rb") as file:
        lines = _lines(file, str(path))
        number, first = next(lines, (1, b""))
        header = _header(parse_json(first, f"{path}, line {number}"), f"{path}, line {number}")
        rounds, is_cut, read_round = [], False, reader(Round)
        for number, line in lines:
            if not line.endswith(b"\n"):
                is_cut = True
                break
            where = f"{path}, line {number}"
            rounds.append(read_round(parse_json(line, where), where))
    return Trace(header, tuple(rounds), is_cut)


def _lines(file: BinaryIO, name: str) -> Iterator[tuple[int, bytes]]:
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            raise ValueError(f"{name}, line {number}: longer than {MAX_LINE_BYTES} bytes")
        yield number, line


def _header(document: Any, where: str) -> TraceHeader:
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        given = document.get("schema") if isinstance(document, dict) else document
        raise ValueError(f"{where}: expected a trace of schema {SCHEMA!r}, found {str(given)[:60]!r}")
    fields = {key: value for key, value in document.items() if key != "schema"}
    return typing.cast("TraceHeader", reader(TraceHeader)(fields, where))


__all__ = ["Seconds", "Token", "TopTokens", "Trace", "TraceHeader", "TraceWriter", "read_trace", "write_trace"]

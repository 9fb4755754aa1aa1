"""A saved trace plays like a run; no model is loaded and nothing is drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparkit_tui.messages import Began, Item, Opened, Stepped
from sparkit_tui.model.header import KINDS, Header, Pieces, short
from sparkit_tui.sources.declared import declare

if TYPE_CHECKING:
    from sparkit.traces import Trace, TraceHeader
    from sparkit_tui.settings import Settings


class ReplaySource:
    """Steps of a trace in order."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._steps: Iterator[Sequence[Item]] = iter(())
        self._trace: Trace | None = None

    def open(self) -> Sequence[Item]:
        """Reads and checks the file."""
        from sparkit.traces import read_trace

        self._trace = read_trace(self.path)
        return self._rewind(self._trace)

    def _rewind(self, trace: Trace) -> Sequence[Item]:
        if not trace.rounds:
            raise ValueError(f"{self.path}: the trace holds no round; record one with `sparkit compose --trace FILE`")
        grouped = groupby(trace.rounds, key=lambda r: r.step)
        self._steps = iter([(Stepped(tuple(rounds)),) for _, rounds in grouped])
        note = "the trace ends in the middle of a line: its last round is missing" if trace.is_cut else ""
        return (Opened(header_of(trace.header, note)), *_begun(trace))

    def step(self) -> Sequence[Item]:
        """The next step."""
        return next(self._steps, ())

    def restart(self) -> Sequence[Item]:
        """From the first round again."""
        return self.open() if self._trace is None else self._rewind(self._trace)

    def reconfigure(self, settings: Settings) -> Sequence[Item]:
        """A recording cannot be changed."""
        raise ValueError("a trace replays as it was recorded; start `sparkit tui` without --replay to change parts")

    def save(self, path: Path) -> None:
        """A copy of the trace."""
        from sparkit.traces import write_trace

        if self._trace is not None:
            write_trace(path, self._trace.header, self._trace.rounds)


def _begun(trace: Trace) -> list[Item]:
    ids = dict.fromkeys(r.request for r in trace.rounds)
    facts = trace.header.requests
    return [Began(i, str(facts.get(i, {}).get("prompt", "")), str(facts.get(i, {}).get("label", ""))) for i in ids]


def header_of(header: TraceHeader, note: str = "") -> Header:
    """A trace's header as the screens read it."""
    recipe = header.recipe
    parts = {kind: _name(recipe.get(kind)) for kind in KINDS}
    declared = declare(recipe)
    return Header(
        parts={kind: name for kind, name in parts.items() if name},
        gamma=header.gamma,
        temperature=_number(recipe.get("temperature"), 1.0),
        batch=int(_number(recipe.get("batch"), 1)),
        seed=header.seed,
        is_lossless=declared.is_lossless,
        lossy_parts=declared.lossy_parts,
        is_schedule_invariant=declared.is_schedule_invariant,
        is_live=False,
        capacity=_capacity(header.capacity),
        pieces=Pieces(header.pieces),
        note=note,
    )


def _name(value: Any) -> str:
    return short(value) if isinstance(value, str) else ""


def _number(value: Any, default: float) -> float:
    return float(value) if isinstance(value, int | float) else default


def _capacity(document: dict[str, Any] | None) -> Any:
    if not document:
        return None
    from sparkit.capacity import Capacity

    return Capacity.from_json(document, "the trace's capacity")

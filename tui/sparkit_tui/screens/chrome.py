"""The lines around every screen: composition and warning above, pages, the keys below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from textual.content import Content

from sparkit_tui.ink import fit, line, link, within
from sparkit_tui.model.header import Header

MIN_WIDTH, MIN_HEIGHT = 80, 24


@dataclass(frozen=True, slots=True)
class Status:
    """What the top line says beside the composition."""

    is_ready: bool
    is_paused: bool
    is_over: bool
    speed: float
    other: str = ""  # "race" while another channel has the engine


def speed_text(speed: float) -> str:
    """4 rounds/s, or full speed."""
    return "full speed" if speed == float("inf") else f"{speed:g} steps/s"


def promise(header: Header | None) -> Content:
    """Lossless, or a warning that names the part."""
    if header is None or header.is_lossless is None:
        return Content("")
    if header.is_lossless:
        return line(("lossless ", "$green"))
    named = ", ".join(header.lossy_parts) or "composition"
    return line((f" ⚠ LOSSY: {named} ", "bold reverse $red"))


def _state(status: Status) -> Content:
    if not status.is_ready:
        return line(("◌ starting ", "$muted"))
    if status.other:
        return line((f"‖ {status.other} runs ", "$muted"))
    if status.is_paused:
        return line(("‖ paused ", "bold $amber"))
    if status.is_over:
        return line(("■ complete ", "$muted"))
    return line(("▶ ", "$green"), (speed_text(status.speed) + " ", "$muted"))


def top_line(header: Header | None, status: Status, width: int) -> Content:
    """Name, composition, state, promise; the warning is never the part that is cut."""
    right = line("  ", _state(status), " ", promise(header))
    chip = " sparkit " if header is None or header.is_live else " replay "
    left = line((chip, "bold reverse $primary"), "  ")
    room = max(width - right.cell_length, 10)
    if header is not None:
        wordings = _wordings(header)
        fitting = (w for w in wordings if left.cell_length + w.cell_length <= room)
        left = line(left, next(fitting, wordings[-1]))
    return fit(line(fit(left, room), right), width)


def _wordings(header: Header) -> list[Content]:
    """The composition from the fullest wording to the shortest: what has no room is left out, not cut in a word."""
    target, scheduler = header.parts.get("target", ""), header.parts.get("scheduler", "")
    rest = [header.parts.get(kind, "") for kind in ("calibrator", "scheduler", "verifier")]
    chain, confidence = [header.drafter, *rest], header.parts.get("confidence", "")
    whole = [header.drafter, f"{confidence} confidence" if confidence else "", *rest]
    law = [f"γ {header.gamma}", f"T {header.temperature:g}"]
    run = [f"batch {header.batch}", f"seed {header.seed}"]
    pairs: tuple[tuple[list[str], list[str]], ...] = (
        ([target, *whole], law + run), (whole, law + run), (whole, law), (chain, law), (chain, []),
        ([header.drafter, scheduler], []), ([header.drafter], []),
    )  # fmt: skip
    return [
        line((" · ".join(filter(None, names)), "bold"), ("   " + "  ".join(facts), "$muted")) for names, facts in pairs
    ]


def tabs(names: tuple[tuple[str, str, str], ...], current: str, width: int) -> Content:
    """The pages with their digits; a narrow terminal shows the short names."""
    full = 1 + sum(len(title) + 5 for _, title, _ in names) <= width
    parts: list[Content | str] = [" "]
    for number, (mode, title, short) in enumerate(names, start=1):
        shown = title if full else short
        style = "bold reverse $primary" if mode == current else "$muted"
        parts += [link(f" {number} {shown} ", style, f"app.page('{mode}')"), " " if full else ""]
    return fit(line(*parts), width)


class Hint(NamedTuple):
    """Keys that belong together, each with its action, and what they do."""

    keys: tuple[tuple[str, str], ...]
    what: str

    def drawn(self) -> Content:
        """The keys and the word; every one answers the mouse."""
        keys = [link(key, "bold $primary", action) for key, action in self.keys]
        return line(*keys, link(f" {self.what}", "$muted", self.keys[-1][1]), "  ")


def hint(key: str, what: str, action: str) -> Hint:
    """One key."""
    return Hint(((key, action),), what)


def keys(hints: Sequence[Hint], always: Sequence[Hint], width: int) -> Content:
    """As many hints as there is room for, and at the right end those that must not be missing."""
    right = line(*(one.drawn() for one in always))
    room = max(width - right.cell_length - 1, 0)
    return fit(line(" ", fit(within([one.drawn() for one in hints], room), room), right), width)


def too_small(width: int, height: int) -> list[Content]:
    """What to say when nothing fits."""
    text = (
        f"sparkit tui needs {MIN_WIDTH}x{MIN_HEIGHT} cells; this terminal has {width}x{height}. Enlarge it, or press q."
    )
    return Content(text).wrap(max(width, 1))

"""The lines around every screen: composition and warning above, pages, the keys below."""

from __future__ import annotations

from dataclasses import dataclass

from textual.content import Content

from sparkit_tui.ink import fit, line, link
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
        return line((f"⏸ {status.other} runs ", "$muted"))
    if status.is_paused:
        return line(("⏸ paused ", "bold $amber"))
    if status.is_over:
        return line(("■ complete ", "$muted"))
    return line(("▶ ", "$green"), (speed_text(status.speed) + " ", "$muted"))


def top_line(header: Header | None, status: Status, width: int) -> Content:
    """Name, composition, state, promise; the warning is never the part that is cut."""
    right = line("  ", _state(status), " ", promise(header))
    left = line((" sparkit ", "bold reverse $primary"), "  ")
    if header is not None:
        sampled = f"γ {header.gamma}  T {header.temperature:g}  batch {header.batch}  seed {header.seed}"
        target = header.parts.get("target", "")
        names = " · ".join(n for n in (target, _composition(header)) if n)
        left = line(left, (names, "bold"), ("   " + sampled, "$muted"), ("" if header.is_live else "   replay", ""))
    room = max(width - right.cell_length, 10)
    return fit(line(fit(left, room), right), width)


def _composition(header: Header) -> str:
    rest = (header.parts.get(kind, "") for kind in ("calibrator", "scheduler", "verifier"))
    return " · ".join([header.drafter, *(name for name in rest if name)])


def tabs(names: tuple[tuple[str, str, str], ...], current: str, width: int) -> Content:
    """The pages with their digits; a narrow terminal shows the short names."""
    full = sum(len(title) + 4 for _, title, _ in names) <= width
    parts: list[Content | str] = [" "]
    for number, (mode, title, short) in enumerate(names, start=1):
        shown = title if full else short
        style = "bold reverse $primary" if mode == current else "$muted"
        parts += [link(f" {number} {shown} ", style, f"app.page('{mode}')"), " " if full else ""]
    return fit(line(*parts), width)


def keys(hints: tuple[tuple[str, str, str], ...], width: int) -> Content:
    """(key, what it does, action) as long as there is room."""
    parts: list[Content | str] = [" "]
    used = 1
    for key, what, action in hints:
        size = len(key) + len(what) + 3
        if used + size > width:
            break
        parts += [link(key, "bold $primary", action), link(f" {what}", "$muted", action), "  "]
        used += size
    return fit(line(*parts), width)


def too_small(width: int, height: int) -> list[Content]:
    """What to say when nothing fits."""
    text = (
        f"sparkit tui needs {MIN_WIDTH}x{MIN_HEIGHT} cells; this terminal has {width}x{height}. Enlarge it, or press q."
    )
    return Content(text).wrap(max(width, 1))

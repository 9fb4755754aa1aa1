"""Text as ink: lines of fixed width, bars, sparklines, columns. Pure; a line is a `Content`.

>>> bar(0.5, 4)
'██  '
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import isfinite

from rich.cells import cell_len, set_cell_size
from textual.content import Content
from textual.style import Style

Part = Content | str | tuple[str, str]
ACTION = "sparkit_action"  # our own key: `@click` would bring the link colours along
EIGHTHS = " ▏▎▍▌▋▊▉█"
LEVELS = " ▁▂▃▄▅▆▇█"


def line(*parts: Part) -> Content:
    """One line out of plain strings, (text, style) pairs and contents."""
    return Content.assemble(*parts)


@lru_cache(maxsize=4096)  # contents never change, and most cells of a frame stood in the one before
def link(text: str, style: str, action: str) -> Content:
    """Text that does something when it is clicked."""
    return Content.styled(text, style).stylize(Style.from_meta({ACTION: action}))


def fit(content: Content, width: int) -> Content:
    """Exactly `width` cells: cut with an ellipsis, or padded."""
    if width <= 0:
        return Content("")
    return content.truncate(width, ellipsis=True, pad=True)


def cell(text: str, width: int, align: str = "left") -> str:
    """Plain text in exactly `width` cells."""
    if width <= 0:
        return ""
    size = cell_len(text)
    if size > width:
        return set_cell_size(text, width - 1) + "…"
    pad = width - size
    left = {"left": 0, "right": pad, "center": pad // 2}[align]
    return " " * left + text + " " * (pad - left)


def beside(blocks: Sequence[tuple[Sequence[Content], int]], gap: Part = "  ") -> list[Content]:
    """(lines, width) side by side; a short block is filled with blanks."""
    height = max(len(lines) for lines, _ in blocks)
    rows: list[list[Part]] = [[] for _ in range(height)]
    for lines, width in blocks:
        for row, shown in zip(rows, [*lines, *[Content("")] * (height - len(lines))], strict=True):
            row += [*([gap] if row else []), fit(shown, width)]
    return [line(*row) for row in rows]


def within(parts: Sequence[Part], width: int) -> Content:
    """As many whole parts as there is room for: nothing is cut in the middle."""
    shown: list[Part] = []
    for part in parts:
        width -= line(part).cell_length
        if width < 0:
            break
        shown.append(part)
    return line(*shown)


def bar(share: float, width: int) -> str:
    """A horizontal bar of exactly `width` cells, in eighths."""
    if not isfinite(share) or width <= 0:
        return " " * max(width, 0)
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (EIGHTHS[rest] if rest else "")).ljust(width)


def level(share: float) -> str:
    """One cell filled from below."""
    if not isfinite(share):
        return " "
    return LEVELS[min(8, max(0, round(share * 8)))]


def spark(values: Iterable[float], top: float) -> str:
    """A sparkline; a missing value is a blank."""
    return "".join(level(v / top) if isfinite(v) and top > 0 else " " for v in values)


def number(value: float | None, digits: int = 2) -> str:
    """A short number; what is unknown is a dash, never a zero."""
    if value is None or value != value:
        return "–"
    if not isfinite(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:.{digits}f}"


def count(num: int, noun: str) -> str:
    """1 request, 2 requests."""
    return f"{num} {noun}{'' if num == 1 else 's'}"


def quantity(value: float | None) -> str:
    """A number of any size in at most seven characters."""
    if value is None or value != value:
        return "–"
    if not isfinite(value):
        return "∞" if value > 0 else "-∞"
    if value != 0 and (abs(value) >= 1e5 or abs(value) < 1e-2):
        return f"{value:.1e}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def piece(text: str) -> str:
    """A token's text on one line: white space made visible."""
    shown = text.replace("\n", "⏎").replace("\t", "⇥").replace("\r", "␍")
    shown = "".join(c if c.isprintable() else "·" for c in shown)
    return shown if shown.strip() else shown.replace(" ", "␣") or "∅"


def words(text: str, width: int, style: str = "") -> list[Content]:
    """A paragraph wrapped at words."""
    return Content.styled(text, style).wrap(max(width, 1))


def printable(text: str) -> str:
    """Text without control characters (a model's output must not drive the terminal); line breaks stay."""
    return "".join(c if c == "\n" or c.isprintable() else "·" for c in text.expandtabs(4))

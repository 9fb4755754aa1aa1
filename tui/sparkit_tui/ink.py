"""Text as ink: lines of fixed width, bars, sparklines, wrapped passages. Pure; a line is a `Content`.

>>> bar(0.5, 4)
'██  '
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from math import isfinite
from operator import itemgetter

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


def beside(left: Sequence[Content], right: Sequence[Content], width: int, gap: int = 2) -> list[Content]:
    """Two columns, the left one `width` wide."""
    rows = max(len(left), len(right))
    blank = Content("")
    pad = Content(" " * gap)
    return [
        fit(left[i] if i < len(left) else blank, width) + pad + (right[i] if i < len(right) else blank)
        for i in range(rows)
    ]


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


def passage(parts: Sequence[tuple[str, str]], width: int, height: int) -> list[Content]:
    """The last `height` lines of a styled text."""
    budget, first = width * height, len(parts)
    while first > 0 and budget > 0:
        first -= 1
        budget -= max(1, len(parts[first][0])) + width * parts[first][0].count("\n")
    runs = groupby(parts[first:], key=itemgetter(1))  # neighbours of one style are one span: a frame costs its spans
    shown = Content.assemble(*((printable("".join(text for text, _ in run)), style) for style, run in runs))
    return shown.wrap(max(width, 1))[-height:] if height > 0 else []

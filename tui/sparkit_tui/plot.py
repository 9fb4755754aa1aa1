"""A figure drawn in characters: curves in braille dots, points as glyphs, steps, rules, axes with numbers.

A `Plot` is filled in data coordinates and becomes lines of text; a value that is not finite is not drawn.

>>> Plot(20, 5, (0, 1), (0, 1)).points([(0.5, 0.5)], Mark("●", "$draft")).lines()
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import isfinite

from textual.content import Content

from sparkit_tui.ink import cell, quantity
from sparkit_tui.palette import Mark

Point = tuple[float, float]
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


class Plot:
    """A grid of `width` x `height` cells, axes included."""

    def __init__(
        self,
        width: int,
        height: int,
        x: Point,
        y: Point,
        *,
        x_label: str = "",
        y_label: str = "",
        is_whole: bool = False,
    ) -> None:
        self.gutter = 7
        rows = max(height - 3, 3)
        self.columns, self.rows = max(width - self.gutter - 1, 4), rows - 1 + rows % 2  # odd: the middle is a row
        self.x, self.y = _widened(x), _widened(y)
        self.x_label, self.y_label, self.is_whole = x_label, y_label, is_whole  # whole: x counts things
        self._glyphs: dict[tuple[int, int], tuple[str, str]] = {}
        self._dots: dict[tuple[int, int], tuple[int, str]] = {}

    def curve(self, points: Sequence[Point], style: str) -> Plot:
        """Straight lines between neighbours, in dots."""
        for (x0, y0), (x1, y1) in pairwise(points):
            if all(map(isfinite, (x0, y0, x1, y1))):
                self._segment(self._fine(x0, y0), self._fine(x1, y1), style)
        return self

    def steps(self, points: Sequence[Point], style: str) -> Plot:
        """A staircase: each value holds until the next x."""
        corners: list[Point] = []
        for point in points:
            if corners:
                corners.append((point[0], corners[-1][1]))
            corners.append(point)
        return self.curve(corners, style)

    def points(self, points: Sequence[Point], mark: Mark, text: str = "") -> Plot:
        """A glyph at each point, with a name beside it; later ones lie on top."""
        for x, y in points:
            if isfinite(x) and isfinite(y):
                column, row = self._cell(x, y)
                self._write(
                    column + 1 if column + len(text) < self.columns else column - len(text), row, text, "$muted"
                )
                self._glyphs[column, row] = (mark.glyph, mark.style)
        return self

    def rule_y(self, y: float, style: str, text: str = "") -> Plot:
        """A horizontal rule with its name at the right end."""
        if not self.y[0] <= y <= self.y[1]:
            return self
        row = self._cell(self.x[0], y)[1]
        for column in range(self.columns):
            self._glyphs.setdefault((column, row), ("╌", style))
        self._write(max(0, self.columns - len(text) - 1), row, text, style)
        return self

    def rule_x(self, x: float, style: str, text: str = "") -> Plot:
        """A vertical rule with its name at the top."""
        if not self.x[0] <= x <= self.x[1]:
            return self
        column = self._cell(x, self.y[0])[0]
        for row in range(self.rows):
            self._glyphs.setdefault((column, row), ("┊", style))
        room = column + len(text) + 1 < self.columns
        self._write(column + 1 if room else max(0, column - len(text)), 0, text, style)
        return self

    def lines(self) -> list[Content]:
        """The figure, `height` lines."""
        head = Content.assemble((cell(self.y_label, self.gutter + 1 + self.columns), "$muted"))
        body = [self._row(row) for row in range(self.rows)]
        return [head, *body, *self._x_axis()]

    @property
    def height(self) -> int:
        """Lines that `lines` returns."""
        return self.rows + 3

    def _row(self, row: int) -> Content:
        share = 1 - row / max(self.rows - 1, 1)
        ticks = {0, self.rows - 1} | ({(self.rows - 1) // 2} if self.rows >= 5 else set())
        value = self.y[0] + share * (self.y[1] - self.y[0])
        label = cell(quantity(value), self.gutter - 1, "right") + " " if row in ticks else " " * self.gutter
        cells = [self._at(column, row) for column in range(self.columns)]
        return Content.assemble((label, "$muted"), ("┤" if row in ticks else "│", "$rule"), *_merged(cells))

    def _at(self, column: int, row: int) -> tuple[str, str]:
        if (column, row) in self._glyphs:
            return self._glyphs[column, row]
        bits, style = self._dots.get((column, row), (0, ""))
        return (chr(0x2800 + bits), style) if bits else (" ", "")

    def _x_axis(self) -> list[Content]:
        middle = float((self.x[0] + self.x[1]) // 2) if self.is_whole else (self.x[0] + self.x[1]) / 2
        left, centre, right = (quantity(v) for v in (self.x[0], middle, self.x[1]))
        width = self.columns
        text = list(left.ljust(width))
        _put(text, self._cell(middle, self.y[0])[0] - (len(centre) - 1) // 2, centre)
        _put(text, width - len(right), right)
        label = f" {self.x_label} " if self.x_label else ""
        before = max(width - len(label), 0) // 2
        after = max(width - len(label) - before, 0)
        blank, start = " " * self.gutter, "╰" + "─" * before
        return [
            Content.assemble(blank, (start, "$rule"), (label, "$muted"), ("─" * after, "$rule")),
            Content.assemble((" " * (self.gutter + 1), ""), ("".join(text), "$muted")),
        ]

    def _write(self, column: int, row: int, text: str, style: str) -> None:
        for i, letter in enumerate(text):
            if 0 <= column + i < self.columns:
                self._glyphs[column + i, row] = (letter, style)

    def _share(self, x: float, y: float) -> tuple[float, float]:
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        return min(max(across, 0.0), 1.0), min(max(up, 0.0), 1.0)

    def _cell(self, x: float, y: float) -> tuple[int, int]:
        column, row = self._fine(x, y)
        return column // 2, row // 4

    def _fine(self, x: float, y: float) -> tuple[int, int]:
        across, up = self._share(x, y)
        return round(across * (self.columns * 2 - 1)), round((1 - up) * (self.rows * 4 - 1))

    def _segment(self, start: tuple[int, int], end: tuple[int, int], style: str) -> None:
        num = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
        for i in range(num + 1):
            x = round(start[0] + (end[0] - start[0]) * i / num)
            y = round(start[1] + (end[1] - start[1]) * i / num)
            key = (x // 2, y // 4)
            self._dots[key] = (self._dots.get(key, (0, style))[0] | DOTS[y % 4][x % 2], style)


def _widened(limits: Point) -> Point:
    low, high = limits
    if not (isfinite(low) and isfinite(high)):
        return 0.0, 1.0
    return (low, high) if high > low else (low, low + 1.0)


def _put(row: list[str], start: int, text: str) -> None:
    for i, letter in enumerate(text):
        if 0 <= start + i < len(row):
            row[start + i] = letter


def _merged(cells: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    merged: list[tuple[str, str]] = []
    for text, style in cells:
        if merged and merged[-1][1] == style:
            merged[-1] = (merged[-1][0] + text, style)
        else:
            merged.append((text, style))
    return merged

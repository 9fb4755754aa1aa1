"""A text that grows: wrapped word by word as it comes, so that a frame costs only its newest words.

>>> flow = Flow(9)
>>> flow.add("half a dozen", "")
>>> [line.plain for line in flow.lines([], 9)]
['half a ', 'dozen']
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from rich.cells import cell_len
from textual.content import Content

from sparkit_tui.ink import printable

Piece = tuple[str, str]  # text, style
CHUNKS = re.compile(r"\n|[^\S\n]|\S+")


class Flow:
    """Lines of at most `width` cells; a word is cut only where it is wider than the line."""

    def __init__(self, width: int) -> None:
        self.width = max(width, 1)
        self._done: list[Content] = []
        self._open: list[Piece] = []
        self._used = self._word_at = 0  # cells of the open line; where in it the unfinished word begins

    def add(self, text: str, style: str) -> None:
        """Goes on with the last line: a piece may end, or begin, in the middle of a word."""
        for chunk in CHUNKS.findall(printable(text)):
            if chunk == "\n":
                self._break()
            elif not chunk.isspace():
                self._add_word(chunk, style)
            elif self._used + len(chunk) > self.width:  # a space at a line's end is the break itself
                self._break()
            else:
                self._put(chunk, style)
                self._word_at = len(self._open)

    def lines(self, last: Iterable[Piece], height: int) -> list[Content]:
        """The newest `height` lines with `last` at their end; `last` is not kept."""
        kept = len(self._done), self._open.copy(), self._used, self._word_at
        for text, style in last:
            self.add(text, style)
        shown = [*self._done[-height:], _assembled(self._open)][-height:] if height > 0 else []
        num, self._open, self._used, self._word_at = kept
        del self._done[num:]
        return shown

    def _add_word(self, chunk: str, style: str) -> None:
        if self._used + cell_len(chunk) > self.width and self._word_at:
            word = self._open[self._word_at :]
            del self._open[self._word_at :]
            self._break()
            for piece in word:
                self._put(*piece)
        while self._used + cell_len(chunk) > self.width:
            num = self._num_fitting(chunk)
            self._put(chunk[:num], style)
            chunk = chunk[num:]
            self._break()
        self._put(chunk, style)

    def _num_fitting(self, chunk: str) -> int:
        room, num = self.width - self._used, 0
        for letter in chunk:
            room -= cell_len(letter)
            if room < 0:
                break
            num += 1
        return max(num, 0 if self._used else 1)  # a letter wider than the whole line still goes on

    def _put(self, text: str, style: str) -> None:
        if text:
            self._open.append((text, style))
            self._used += cell_len(text)

    def _break(self) -> None:
        self._done.append(_assembled(self._open))
        self._open, self._used, self._word_at = [], 0, 0


def _assembled(pieces: Iterable[Piece]) -> Content:
    """Neighbours of one style are one span: a frame costs its spans."""
    merged: list[list[str]] = []
    for text, style in pieces:
        if merged and merged[-1][1] == style:
            merged[-1][0] += text
        else:
            merged.append([text, style])
    return Content.assemble(*((text, style) for text, style in merged))

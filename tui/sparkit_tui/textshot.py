"""The text cells of an SVG screenshot, line by line: what snapshots compare and `S` saves.

Rich's SVG holds one <text> a run of equal style, with its cell in x and its line in the clip path.
"""

from __future__ import annotations

import html
import re

from rich.cells import cell_len

_TEXT = re.compile(
    r'<text class="[^"]*-r\d+" x="([\d.]+)" y="[\d.]+" textLength="[\d.]+" '
    r'clip-path="url\(#[^)]*-line-(\d+)\)">([^<]*)</text>'
)
CELL_WIDTH = 12.2  # of rich's SVG template


def text_of(svg: str, height: int) -> str:
    """The screen as plain text, trailing blanks cut."""
    lines = [""] * height
    for x, row, text in _TEXT.findall(svg):
        if int(row) < height:
            column = round(float(x) / CELL_WIDTH)
            line = lines[int(row)]
            lines[int(row)] = line + " " * (column - cell_len(line)) + html.unescape(text).replace("\xa0", " ")
    return "\n".join(line.rstrip() for line in lines) + "\n"

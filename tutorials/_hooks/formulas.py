"""Formulas become MathML when the site is built, so that a page needs no script and no network to be read."""

import html
import re

from latex2mathml.converter import convert

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, **_: object) -> str:
    """Replace what arithmatex marked (`\\(...\\)` and `\\[...\\]`) by MathML."""
    return FORMULA.sub(_mathml, content)


def _mathml(found: re.Match[str]) -> str:
    display = "inline" if found[1] == "span" else "block"
    return f'<{found[1]} class="formula">{convert(html.unescape(found[2]).strip(), display=display)}</{found[1]}>'

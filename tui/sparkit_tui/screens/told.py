"""A request's text on a screen: the prompt, then every token in the colour and style of its origin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from sparkit_tui.flow import Flow
from sparkit_tui.model.run import ghosts
from sparkit_tui.palette import MARKS

if TYPE_CHECKING:
    from sparkit_tui.model.header import Pieces
    from sparkit_tui.model.run import Passage


def told(seen: Passage, pieces: Pieces, width: int, height: int, *, with_ghosts: bool = True) -> list[Content]:
    """The newest lines; what the last round did not keep stands, struck through, before the token that closed it."""
    settled = max(len(seen.tokens) - 1, 0)
    flow = _flow(seen, width)
    for token, origin in seen.tokens[seen.num_flowed : settled]:
        flow.add(pieces[token], MARKS[origin].style)
    seen.num_flowed = settled
    last = [*(ghosts(seen) if with_ghosts else ()), *seen.tokens[settled:]]
    return flow.lines([(pieces[token], MARKS[name].style) for token, name in last], height)


def _flow(seen: Passage, width: int) -> Flow:
    """What is wrapped already, unless the width or the prompt is new."""
    if seen.flow is None or seen.flow.width != max(width, 1):
        seen.flow, seen.num_flowed = Flow(width), 0
        if seen.prompt:
            seen.flow.add(seen.prompt.rstrip("\n") + "\n", MARKS["prompt"].style)
    return seen.flow

"""A widget that asks a pure function for its lines whenever it is painted: state in, text out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual import events
from textual.app import RenderResult
from textual.content import Content
from textual.widget import Widget

from sparkit_tui.ink import ACTION, fit

Draw = Callable[[int, int], Sequence[Content]]


class Canvas(Widget, inherit_css=False):
    """`draw(width, height)` gives the lines; what is too long or too wide is cut."""

    DEFAULT_CSS = "Canvas { width: 1fr; height: 1fr; }"

    def __init__(self, draw: Draw, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._draw = draw

    def render(self) -> RenderResult:
        """The newest state as text."""
        width, height = self.size
        if width < 1 or height < 1:
            return Content("")
        lines = self._draw(width, height)[:height]
        return Content("\n").join(fit(line, width) for line in lines)

    async def on_click(self, event: events.Click) -> None:
        """Runs the action of the text under the mouse."""
        action = event.style.meta.get(ACTION)
        if action:
            await self.app.run_action(action)

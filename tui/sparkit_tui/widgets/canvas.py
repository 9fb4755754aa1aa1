"""A widget that asks a pure function for its lines whenever it is painted: state in, text out.

The lines become strips once a paint; Textual's own layout of text (wrapping, selection offsets) and its cache of styled
lines are not needed and cost most of a frame.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual import events
from textual.content import Content
from textual.geometry import Region
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from sparkit_tui.ink import ACTION, fit

Draw = Callable[[int, int], Sequence[Content]]


class Canvas(Widget, inherit_css=False):
    """`draw(width, height)` gives the lines; what is too long or too wide is cut."""

    DEFAULT_CSS = "Canvas { width: 1fr; height: 1fr; }"

    def __init__(self, draw: Draw, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._draw = draw
        self._strips: list[Strip] = []
        self._painted_for: object = None
        self._key: object = None  # size, theme and style of the last frame
        self._said: dict[object, Strip] = {}  # its lines by what they say
        self._same: dict[int, tuple[Content, Strip]] = {}  # and by the object they were, which is kept alive here
        self._styles: dict[tuple[str, str | Style], Style] = {}
        self._rich: dict[Style, RichStyle] = {}

    def paint(self) -> None:
        """The newest state at the next frame."""
        self._painted_for = None
        self.refresh()

    def render_lines(self, crop: Region) -> list[Strip]:
        """The visible lines: a canvas without a frame is nothing but its strips."""
        if self.gutter:
            return super().render_lines(crop)
        strips = [self.render_line(y) for y in crop.line_range]
        background = self.background_colors[1]
        for line_filter in self.get_line_filters():
            strips = [strip.apply_filter(line_filter, background) for strip in strips]
        if crop.column_span != (0, self.size.width):
            strips = [strip.crop(*crop.column_span) for strip in strips]
        return strips

    def render_line(self, y: int) -> Strip:
        """One line; all of them are drawn when the state, the size or the theme is new."""
        key = (self.size, self.app.theme, self.visual_style)
        if key != self._painted_for:
            self._strips, self._painted_for = self._lines(key), key
        return self._strips[y] if y < len(self._strips) else Strip.blank(self.size.width, self.rich_style)

    def _lines(self, key: object) -> list[Strip]:
        width, height = self.size
        if width < 1 or height < 1:
            return []
        if key != self._key:
            self._key, self._said, self._same = key, {}, {}
        lines = list(self._draw(width, height)[:height])
        # Most lines of a frame stood in the frame before, perhaps elsewhere: a text and a history scroll.
        said: dict[object, Strip] = {}
        strips = [self._same[id(one)][1] if id(one) in self._same else self._found(one, width, said) for one in lines]
        self._same = {id(one): (one, strip) for one, strip in zip(lines, strips, strict=True)}
        self._said = said
        return strips

    def _found(self, content: Content, width: int, said: dict[object, Strip]) -> Strip:
        one = fit(content, width)
        what = (one.plain, tuple(one.spans))
        said[what] = strip = self._said[what] if what in self._said else self._strip(one, self.visual_style, width)
        return strip

    def _strip(self, line: Content, base: Style, width: int) -> Strip:
        parts = line.render(base, end="", parse_style=self._parse)
        return Strip([Segment(text, self._to_rich(style)) for text, style in parts], width)

    def _parse(self, style: str | Style) -> Style:
        key = (self.app.theme, style)
        if key not in self._styles:
            self._styles[key] = self.app.stylesheet.parse_style(style) if isinstance(style, str) else style
        return self._styles[key]

    def _to_rich(self, style: Style) -> RichStyle:
        if style not in self._rich:
            self._rich[style] = style.rich_style
        return self._rich[style]

    async def on_click(self, event: events.Click) -> None:
        """Runs the action of the text under the mouse."""
        action = event.style.meta.get(ACTION)
        if action:
            await self.app.run_action(action)

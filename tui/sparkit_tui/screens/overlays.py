"""Panels over a screen: a cell inspected, numbers explained, source shown, a failure told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.syntax import Syntax
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from sparkit_tui.widgets.canvas import Canvas

CLOSE: list[BindingType] = [
    Binding("escape", "dismiss(None)", "close"),
    Binding("q", "dismiss(None)", "close", show=False),
]


class Panel(ModalScreen[None]):
    """Scrolling text in a frame; escape or q closes it."""

    DEFAULT_CSS = """
    Panel { align: center middle; background: $background 60%; }
    Panel #panel {
        width: 90%; max-width: 110; height: auto; max-height: 90%;
        border: round $primary; background: $surface; padding: 0 1; scrollbar-size-vertical: 1;
    }
    Panel Static { height: auto; width: 1fr; }
    Panel.-bad #panel { border: round $red; }
    """
    BINDINGS: ClassVar[list[BindingType]] = CLOSE

    def __init__(self, heading: str, body: Content | Syntax, *, is_bad: bool = False) -> None:
        super().__init__(classes="-bad" if is_bad else None)
        self.heading, self.body = heading, body

    def compose(self) -> ComposeResult:
        """The frame."""
        with VerticalScroll(id="panel"):
            yield Static(self.body)

    def on_mount(self) -> None:
        """Names the frame."""
        panel = self.query_one("#panel")
        panel.border_title = self.heading
        panel.border_subtitle = "↑↓ scroll, escape closes"
        panel.focus()

    def on_click(self, event: events.Click) -> None:
        """A click beside the frame closes it."""
        if event.widget is self:
            self.dismiss(None)


class Inspector(ModalScreen[None]):
    """One draft position in full, live under the arrow keys."""

    DEFAULT_CSS = """
    Inspector { align: center middle; background: $background 60%; }
    Inspector #inspector { width: 96%; max-width: 120; height: 20; border: round $primary;
        background: $surface; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *CLOSE,
        Binding("enter", "dismiss(None)", "close", show=False),
        Binding("left", "app.move('cell', -1)", "previous position"),
        Binding("right", "app.move('cell', 1)", "next position"),
        Binding("up", "app.move('round', -1)", "older round"),
        Binding("down", "app.move('round', 1)", "newer round"),
        Binding("left_square_bracket", "app.move('request', -1)", "previous request", show=False),
        Binding("right_square_bracket", "app.move('request', 1)", "next request", show=False),
    ]

    def __init__(self, draw: Callable[[int], Sequence[Content]]) -> None:
        super().__init__()
        self._draw = draw

    def compose(self) -> ComposeResult:
        """One canvas in a frame."""
        canvas = Canvas(self._lines, id="inspector")
        canvas.border_title = "the three laws at one position"
        canvas.border_subtitle = "←→ position  ↑↓ round  [ ] request  escape closes"
        yield canvas

    def on_click(self, event: events.Click) -> None:
        """A click beside the frame closes it."""
        if event.widget is self:
            self.dismiss(None)

    def _lines(self, width: int, height: int) -> Sequence[Content]:
        return self._draw(width)[:height]

    def paint(self) -> None:
        """Shows the newest state."""
        for canvas in self.query(Canvas):  # none yet while the panel is being mounted
            canvas.paint()


def explanation(rows: Sequence[tuple[str, str]]) -> Content:
    """Every number of a screen in a sentence."""
    parts: list[Content | str] = []
    for name, sentence in rows:
        parts += [Content.styled(f"{name}\n", "bold $primary"), f"  {sentence}\n"]
    return Content.assemble(*parts).rstrip()


def failure(doing: str, error: BaseException) -> Content:
    """What went wrong and what to do, without a traceback."""
    text = " ".join(str(error).split()) or type(error).__name__
    return Content.assemble(
        ("While " + doing + ":\n\n", "$muted"),
        (text, "bold $red"),
        ("\n\n" + advice(error), ""),
        ("\n\nThe app goes on: escape closes this panel.", "$muted"),
    )


def advice(error: BaseException) -> str:
    """The next step for a kind of error."""
    if isinstance(error, FileNotFoundError):
        return "Check the path. Weights that are missing can be made with `sparkit train all --preset bundled`."
    if isinstance(error, ImportError):
        return "A package is missing: `sparkit doctor` lists what is installed and what is needed."
    if isinstance(error, MemoryError):
        return "Lower the batch or gamma with e, then press r."
    if isinstance(error, LookupError | ValueError | OSError):
        return "Change what the sentence names with e (parts and numbers) or p (the prompt), or press r to start again."
    return "This looks like a fault in a part. Press r to start again, or e to choose another part; c shows its source."

"""What every screen is: chrome around one canvas, repainted when the session changes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.content import Content
from textual.screen import Screen

from sparkit_tui.ink import fit, line
from sparkit_tui.messages import MAIN
from sparkit_tui.screens import chrome
from sparkit_tui.widgets.canvas import Canvas

if TYPE_CHECKING:
    from sparkit_tui.app import SparkitApp
    from sparkit_tui.model.session import Session

Hint = tuple[str, str, str]  # key, what it does, action
COMMON: tuple[Hint, ...] = (
    ("space", "pause", "app.pause"),
    (".", "step", "app.step"),
    ("+-", "speed", "app.faster"),
    ("e", "edit", "app.edit"),
    ("?", "explain", "app.explain"),
    ("c", "source", "app.source"),
    ("r", "restart", "app.restart"),
    ("p", "prompt", "app.prompt"),
    ("w", "save trace", "app.save_trace"),
    ("s", "screenshot", "app.save_screenshot"),
    ("t", "theme", "app.toggle_theme"),
    ("q", "quit", "app.quit"),
)


class Page(Screen[None]):
    """One idea, one figure. A screen gives its words and `draw`; everything else is here."""

    mode: ClassVar[str]
    title_text: ClassVar[str]
    short_title: ClassVar[str]  # for 80 columns
    idea: ClassVar[str]
    kind: ClassVar[str]  # the part behind the screen, for `c`
    explained: ClassVar[tuple[tuple[str, str], ...]]  # every number of the screen in a sentence
    hints: ClassVar[tuple[Hint, ...]] = ()
    channel: ClassVar[str] = MAIN  # the driver that space, step and restart speak to

    DEFAULT_CSS = """
    Page { layout: vertical; background: $background; }
    Page #top, Page #tabs, Page #idea, Page #keys { height: 1; }
    Page #top { background: $surface; }
    Page #keys { background: $surface; }
    Page #figure { margin: 0 1; }
    Page #small { display: none; }
    Page.-small Canvas { display: none; }
    Page.-small #small { display: block; height: 1fr; }
    """

    @abstractmethod
    def draw(self, width: int, height: int) -> Sequence[Content]:
        """The screen's figure at this size."""
        ...

    @property
    def session(self) -> Session:
        """The state behind all screens."""
        return self.host.session

    @property
    def host(self) -> SparkitApp:
        """The app, by its own type."""
        return cast("SparkitApp", self.app)

    def compose(self) -> ComposeResult:
        """Chrome and canvas."""
        yield Canvas(self._top, id="top")
        yield Canvas(self._tabs, id="tabs")
        yield Canvas(self._idea, id="idea")
        yield Canvas(self.draw, id="figure")
        yield Canvas(self._keys, id="keys")
        yield Canvas(self._small, id="small")

    def on_mount(self) -> None:
        """Fits the terminal."""
        self._fit()

    def on_resize(self) -> None:
        """Fits the terminal again."""
        self._fit()

    def on_screen_resume(self) -> None:
        """Shows what happened meanwhile."""
        self._fit()
        self.paint()

    def _fit(self) -> None:
        width, height = self.app.size
        self.set_class(width < chrome.MIN_WIDTH or height < chrome.MIN_HEIGHT, "-small")

    def paint(self) -> None:
        """Asks every visible canvas for its newest lines."""
        for canvas in self.query(Canvas):
            canvas.paint()

    def _small(self, width: int, height: int) -> list[Content]:
        return chrome.too_small(width, height)

    def _top(self, width: int, height: int) -> list[Content]:
        run = self.session.run()
        return [chrome.top_line(run.header if run else None, self.host.status(), width)]

    def _tabs(self, width: int, height: int) -> list[Content]:
        return [chrome.tabs(self.host.pages, self.mode, width)]

    def _idea(self, width: int, height: int) -> list[Content]:
        return [fit(line((" " + self.idea, "italic $muted")), width)]

    def _keys(self, width: int, height: int) -> list[Content]:
        return [chrome.keys((*self.hints, *COMMON), width)]

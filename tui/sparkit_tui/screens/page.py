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
from sparkit_tui.screens.chrome import Hint, hint
from sparkit_tui.widgets.canvas import Canvas

if TYPE_CHECKING:
    from sparkit_tui.app import SparkitApp
    from sparkit_tui.model.run import Run
    from sparkit_tui.model.session import Session

SPEED = Hint((("+", "app.speed(1)"), ("-", "app.speed(-1)")), "speed")
COMMON = (
    hint("space", "pause", "app.pause"),
    hint(".", "step", "app.step"),
    SPEED,
    hint("e", "edit", "app.edit"),
    hint("p", "prompt", "app.prompt"),
    hint("r", "restart", "app.restart"),
    hint("c", "source", "app.source"),
    hint("t", "theme", "app.toggle_theme"),
    hint("w", "save trace", "app.save_trace"),
    Hint((("s", "app.save_screenshot"), (" S", "app.save_text")), "save screen"),
)
ALWAYS = (
    hint("?", "explain", "app.explain"),
    hint("^p", "more", "app.command_palette"),
    hint("q", "quit", "app.quit"),
)


def arrows(what: str, back: str, on: str, keys: str = "←→") -> Hint:
    """Two arrow keys."""
    return Hint(((keys[0], back), (keys[1], on)), what)


def waiting(width: int) -> list[Content]:
    """Before the first round."""
    text = "  Loading the models in the background: the first token comes in a few seconds."
    return [Content(""), fit(line((text, "$muted")), width)]


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
    needs_run: ClassVar[bool] = True  # nothing to draw before the text's run has opened

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
    def run(self) -> Run:
        """The run of the text; asked only where there is one."""
        run = self.session.run()
        assert run is not None
        return run

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
        yield Canvas(self._figure, id="figure")
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
        """Asks the canvases that change with the state for their newest lines."""
        for canvas in self.query(Canvas):
            if canvas.id in ("top", "figure"):
                canvas.paint()

    def _figure(self, width: int, height: int) -> Sequence[Content]:
        if self.needs_run and self.session.run() is None:
            return waiting(width)
        return self.draw(width, height)

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
        return [chrome.keys((*self.hints, *COMMON), ALWAYS, width)]

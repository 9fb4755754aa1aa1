"""The app: keys and clicks become orders for a worker, feeds become state, state becomes the screen in front.

It is on screen before torch is imported; the worker's thread does that.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from rich.syntax import Syntax
from textual.app import App, SystemCommand
from textual.binding import BindingType
from textual.screen import Screen

from sparkit_tui import palette
from sparkit_tui.crew import Crew
from sparkit_tui.keys import KEYS, commands
from sparkit_tui.messages import MAIN, Failed, FeedAdvanced, Noted, Opened, PartsListed, SourceRead
from sparkit_tui.model.collision import JointLaw
from sparkit_tui.model.session import Session
from sparkit_tui.saving import save_screen, save_trace
from sparkit_tui.screens.chrome import Status
from sparkit_tui.screens.collision import TABLE
from sparkit_tui.screens.controls import Controls, PromptBox
from sparkit_tui.screens.overlays import Inspector, Panel, explanation, failure
from sparkit_tui.screens.page import Page
from sparkit_tui.screens.pages import PAGES
from sparkit_tui.settings import Settings
from sparkit_tui.sources.lab import Lab, read_source
from sparkit_tui.textshot import text_of
from sparkit_tui.worker import DEFAULT_SPEED, Driver, Source


class SparkitApp(App[None]):
    """Watch blocks being drafted, cut, accepted and rejected."""

    TITLE = "sparkit"
    MODES: ClassVar[dict[str, type[Screen[None]]]] = {page.mode: page for page in PAGES}  # type: ignore[assignment]
    DEFAULT_MODE = "round"
    BINDINGS: ClassVar[list[BindingType]] = list(KEYS)

    def __init__(
        self,
        source: Source,
        lab: Lab,
        settings: Settings | None = None,
        *,
        speed: float = DEFAULT_SPEED,
        is_paused: bool = False,
        table: JointLaw | None = None,
    ) -> None:
        super().__init__()
        for theme in palette.THEMES:
            self.register_theme(theme)
        self.theme = palette.DARK_THEME.name
        self.pages = tuple((page.mode, page.title_text, page.short_title) for page in PAGES)
        self.session, self.settings, self.lab = Session(), settings or Settings(), lab
        self.part_names: dict[str, tuple[str, ...]] = {}
        self.folder = Path()
        self.table = dict(table or TABLE)
        self.crew = Crew(self.post_message, self._start, lambda: self.page.channel if self.page else MAIN)
        self.crew.add(MAIN, source, speed).is_paused = is_paused

    # ------------------------------------------------------------------------------------------------- workers
    def on_mount(self) -> None:
        """Starts the worker after the first screen is up."""
        self.call_after_refresh(self._start, self.crew.drivers[MAIN])

    def _start(self, driver: Driver) -> None:
        self.run_worker(driver.run, name=driver.channel, thread=True, exit_on_error=False)

    @property
    def driver(self) -> Driver:
        """The driver that the keys speak to."""
        return self.crew.front

    def launch(self, channel: str, source: Source, speed: float) -> None:
        """Runs a source in a channel of its own, in place of the one before."""
        self.session.retire(channel)
        self.crew.launch(channel, source, speed)

    def status(self) -> Status:
        """What the top line says."""
        driver = self.driver
        ready = self.session.run(driver.channel) is not None
        other = "" if driver.channel == MAIN else driver.channel
        return Status(ready, driver.is_paused, driver.is_exhausted, driver.speed, other)

    def on_feed_advanced(self, message: FeedAdvanced) -> None:
        """Takes in what a worker has sent, and paints the screen in front once."""
        feed = self.crew.drivers[message.channel].feed
        items = feed.drain()
        self.session.apply(message.channel, items)
        if feed.has_more:
            self.post_message(FeedAdvanced(message.channel))
        for note in [item.header.note for item in items if isinstance(item, Opened) and item.header.note]:
            self.notify(note, severity="warning")
        self.crew.share()
        self.paint()

    def paint(self) -> None:
        """Repaints every page and inspector of the stack."""
        for screen in self.screen_stack:
            if isinstance(screen, Page | Inspector):
                screen.paint()

    def on_failed(self, message: Failed) -> None:
        """Tells what went wrong in a panel."""
        self.push_screen(Panel("something went wrong", failure(message.doing, message.error), is_bad=True))

    def on_parts_listed(self, message: PartsListed) -> None:
        """Keeps the names for the controls."""
        self.part_names = {kind: tuple(names) for kind, names in message.names.items()}
        if isinstance(self.screen, Controls):
            self.screen.know(self.part_names)

    def on_noted(self, message: Noted) -> None:
        """A sentence at the edge."""
        self.notify(message.text, severity="warning" if message.is_warning else "information")

    async def action_quit(self) -> None:
        """Ends the workers after the round in progress, then the app."""
        self.crew.stop()
        self.exit()

    def on_unmount(self) -> None:
        """No thread outlives the app, however it ends."""
        self.crew.stop()

    # ------------------------------------------------------------------------------------------------ controls
    def action_page(self, mode: str) -> None:
        """Shows another screen; an engine of the screen's own takes over, or gives back."""
        if any(not isinstance(screen, Page) for screen in self.screen_stack[1:]):
            return
        self.switch_mode(mode)
        self.call_after_refresh(self.crew.share)

    def action_pause(self) -> None:
        """Pauses, or goes on."""
        self.driver.pause(not self.driver.is_paused)
        self.paint()

    def action_step(self) -> None:
        """One round, then pause."""
        self.driver.single_step()
        self.paint()

    def action_speed(self, by: int) -> None:
        """Faster or slower."""
        self.crew.change_speed(by)
        self.paint()

    def action_restart(self) -> None:
        """The same seed from the beginning."""
        self.driver.order("starting again", lambda source: source.restart())

    def action_move(self, what: str, by: int) -> None:
        """Another request, round, cell or position."""
        self.session.move(what, by)
        self.paint()

    def action_open_round(self, step: int) -> None:
        """The clicked round of the history."""
        self.session.open_round(step)
        self.paint()

    # ------------------------------------------------------------------------------------- changing what runs
    def action_edit(self) -> None:
        """Every part and number."""
        if not self.part_names:
            self.run_worker(lambda: self.post_message(PartsListed(self.lab.part_names())), thread=True)
        self.push_screen(Controls(self.settings, self.part_names), self.change)

    def action_prompt(self) -> None:
        """A prompt of the user's own."""

        def chosen(text: str | None) -> None:
            self.change(None if text is None else self.settings.changed(prompt=text))

        self.push_screen(PromptBox(self.settings.prompt), chosen)

    def change(self, settings: Settings | None) -> None:
        """Orders another composition of the text's driver; None changes nothing."""
        if settings is None or settings == self.settings:
            return
        self.settings = settings
        self.crew.drivers[MAIN].order("changing the composition", lambda source: source.reconfigure(settings))

    # ----------------------------------------------------------------------------------------- words and files
    @property
    def page(self) -> Page | None:
        """The page under any panel."""
        return next((s for s in reversed(self.screen_stack) if isinstance(s, Page)), None)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Every key of the app and of the page, for the command palette."""
        return commands(self, screen, [*self.BINDINGS, *screen.BINDINGS])

    def action_explain(self) -> None:
        """Every number on the screen in a sentence."""
        if self.page is not None:
            self.push_screen(Panel(f"{self.page.title_text}: what the numbers say", explanation(self.page.explained)))

    def action_source(self) -> None:
        """The source of the part behind the screen, read in a thread: its module may still be unloaded."""
        page, run = self.page, self.session.run()
        if page is None or run is None:
            self.notify("no part is loaded yet: its source can be read when the text has started")
            return
        kind, spec = page.kind, run.header.parts.get(page.kind, "")
        self.run_worker(lambda: self.post_message(read_source(self.lab, kind, spec)), thread=True)

    def on_source_read(self, message: SourceRead) -> None:
        """Shows it."""
        theme = "ansi_dark" if self.current_theme.dark else "ansi_light"
        self.push_screen(Panel(message.place, Syntax(message.text, "python", theme=theme, word_wrap=True)))

    def action_toggle_theme(self) -> None:
        """Light or dark."""
        self.theme = next(theme.name for theme in palette.THEMES if theme.dark != self.current_theme.dark)

    def action_save_screenshot(self) -> None:
        """An SVG of what is on the screen."""
        self.post_message(save_screen(self.folder, "svg", self.export_screenshot(title="sparkit")))

    def action_save_text(self) -> None:
        """The screen as plain text."""
        self.post_message(save_screen(self.folder, "txt", self.screen_text()))

    def action_save_trace(self) -> None:
        """The run so far as a trace."""
        self.driver.order("saving the trace", lambda source: save_trace(source, self.folder, self.post_message))

    def screen_text(self) -> str:
        """The text cells of the screen, line by line."""
        return text_of(self.export_screenshot(simplify=True), self.size.height)

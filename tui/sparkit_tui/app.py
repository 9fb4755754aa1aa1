"""The app: keys and clicks become orders for a worker, feeds become state, state becomes the screen in front.

It is on screen before torch is imported; the worker's thread does that.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from rich.syntax import Syntax
from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import Screen

from sparkit_tui import palette
from sparkit_tui.messages import MAIN, Failed, FeedAdvanced, Noted, Opened, PartsListed, SourceRead
from sparkit_tui.model.collision import JointLaw
from sparkit_tui.model.session import Session
from sparkit_tui.screens import inspect as inspection
from sparkit_tui.screens.acceptance import AcceptanceScreen
from sparkit_tui.screens.calibration import CalibrationScreen
from sparkit_tui.screens.chrome import Status
from sparkit_tui.screens.collision import COLLISION, CollisionScreen
from sparkit_tui.screens.controls import Controls, PromptBox
from sparkit_tui.screens.lossless import LAB, LosslessScreen
from sparkit_tui.screens.overlays import Inspector, Panel, explanation, failure
from sparkit_tui.screens.page import Page
from sparkit_tui.screens.race import RACE, RaceScreen
from sparkit_tui.screens.round import RoundScreen
from sparkit_tui.screens.scheduler import SchedulerScreen
from sparkit_tui.screens.serving import LEVELS, ServingScreen
from sparkit_tui.settings import Settings
from sparkit_tui.sources.lab import Lab
from sparkit_tui.textshot import text_of
from sparkit_tui.worker import DEFAULT_SPEED, SPEEDS, Driver, Source

PAGES: tuple[type[Page], ...] = (
    RoundScreen,
    AcceptanceScreen,
    CalibrationScreen,
    SchedulerScreen,
    ServingScreen,
    RaceScreen,
    LosslessScreen,
    CollisionScreen,
)
TABLE_STEP = 0.05
COURSE, PROBLEM = ("of", "course"), ("no", "problem")


class SparkitApp(App[None]):
    """Watch blocks being drafted, cut, accepted and rejected."""

    TITLE = "sparkit"
    ENABLE_COMMAND_PALETTE = True
    MODES: ClassVar[dict[str, type[Screen[None]]]] = {page.mode: page for page in PAGES}  # type: ignore[assignment]
    DEFAULT_MODE = "round"
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(i), f"page('{p.mode}')", p.title_text) for i, p in enumerate(PAGES, start=1)),
        Binding("space", "pause", "pause or go on", priority=False),
        Binding("full_stop", "step", "one round"),
        Binding("plus,equals_sign", "faster", "faster"),
        Binding("minus", "slower", "slower"),
        Binding("left_square_bracket", "request(-1)", "previous request"),
        Binding("right_square_bracket", "request(1)", "next request"),
        Binding("question_mark", "explain", "explain every number"),
        Binding("c", "source", "source of the part"),
        Binding("r", "restart", "restart with the same seed"),
        Binding("e", "edit", "change the composition"),
        Binding("p", "prompt", "type a prompt"),
        Binding("w", "save_trace", "save a trace"),
        Binding("s", "save_screenshot", "save an SVG screenshot"),
        Binding("S", "save_text", "save a text screenshot"),
        Binding("t", "toggle_theme", "light or dark"),
        Binding("q", "quit", "quit"),
    ]

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
        self.theme = "sparkit-dark"
        self.pages = tuple((page.mode, page.title_text, page.short_title) for page in PAGES)
        self.session = Session()
        self.settings = settings or Settings()
        self.part_names: dict[str, tuple[str, ...]] = {}
        self.drivers: dict[str, Driver] = {}
        self.folder = Path()
        self.lab, self.table = lab, dict(table or {COURSE: 0.55, PROBLEM: 0.45})
        self.num_paints = 0
        driver = self._drive(MAIN, source)
        driver.speed, driver.is_paused = speed, is_paused

    # ------------------------------------------------------------------------------------------------- workers
    def _drive(self, channel: str, source: Source) -> Driver:
        driver = Driver(channel, source, self.post_message)
        self.drivers[channel] = driver
        return driver

    def on_mount(self) -> None:
        """Starts the worker after the first screen is up."""
        self.call_after_refresh(self._start, MAIN)

    def _start(self, channel: str) -> None:
        self.run_worker(self.drivers[channel].run, name=channel, thread=True, exit_on_error=False)

    @property
    def driver(self) -> Driver:
        """The driver that the keys speak to: the page's own, else the text's."""
        page = self.page
        own = self.drivers.get(page.channel) if page is not None else None
        return own if own is not None and not own.is_exhausted else self.drivers[MAIN]

    def _share_engine(self) -> None:
        """One driver runs at a time, so that no clock counts another's work."""
        front = self.driver
        for driver in self.drivers.values():
            driver.hold(driver is not front)

    def _launch(self, channel: str, source: Source, speed: float) -> None:
        """Runs a source in its own channel, in place of the one before."""
        if channel in self.drivers:
            self.drivers[channel].stop()
        self.session.retire(channel)
        self._drive(channel, source).speed = speed
        self._share_engine()
        self._start(channel)

    def status(self) -> Status:
        """What the top line says."""
        driver = self.driver
        ready = self.session.run(driver.channel) is not None
        other = "" if driver.channel == MAIN else driver.channel
        return Status(ready, driver.is_paused, driver.is_exhausted, driver.speed, other)

    def on_feed_advanced(self, message: FeedAdvanced) -> None:
        """Takes in what a worker has sent, and paints the screen in front once."""
        driver = self.drivers[message.channel]
        items = driver.feed.drain()
        self.session.apply(message.channel, items)
        if driver.feed.has_more:
            self.post_message(FeedAdvanced(message.channel))
        for note in [item.header.note for item in items if isinstance(item, Opened) and item.header.note]:
            self.notify(note, severity="warning")
        self._share_engine()
        self.paint()

    def paint(self) -> None:
        """Repaints every page and inspector of the stack."""
        self.num_paints += 1
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
        for driver in self.drivers.values():
            driver.stop()
        self.exit()

    def on_unmount(self) -> None:
        """No thread outlives the app, however it ends."""
        for driver in self.drivers.values():
            driver.stop()

    # ------------------------------------------------------------------------------------------------ controls
    def action_page(self, mode: str) -> None:
        """Shows another screen; an engine of the screen's own takes over, or gives back."""
        if any(not isinstance(screen, Page) for screen in self.screen_stack[1:]):
            return
        self.switch_mode(mode)
        self.call_after_refresh(self._share_engine)

    def action_pause(self) -> None:
        """Pauses, or goes on."""
        self.driver.pause(not self.driver.is_paused)
        self.paint()

    def action_step(self) -> None:
        """One round, then pause."""
        self.driver.single_step()
        self.paint()

    def action_faster(self) -> None:
        """The next speed."""
        self._set_speed(+1)

    def action_slower(self) -> None:
        """The speed before."""
        self._set_speed(-1)

    def _set_speed(self, by: int) -> None:
        current = self.driver.speed
        index = min(range(len(SPEEDS)), key=lambda i: abs(min(SPEEDS[i], 1e9) - min(current, 1e9)))
        for driver in self.drivers.values():
            driver.set_speed(SPEEDS[min(max(index + by, 0), len(SPEEDS) - 1)])
        self.paint()

    def action_restart(self) -> None:
        """The same seed from the beginning."""
        self.driver.order("starting again", lambda source: source.restart())

    def action_request(self, by: int) -> None:
        """Another of the concurrent requests."""
        self.session.next_request(by)
        self.paint()

    def action_round(self, by: int) -> None:
        """An older or newer round."""
        self.session.move_round(by)
        self.paint()

    def action_cell(self, by: int) -> None:
        """Another draft position."""
        self.session.move_cell(by)
        self.paint()

    def action_select_cell(self, index: int) -> None:
        """The clicked draft position; a second click inspects it."""
        if self.session.selection.cell == index:
            self.action_inspect()
        self.session.selection = replace(self.session.selection, cell=index)
        self.paint()

    def action_position(self, by: int) -> None:
        """Another position of the calibration figure."""
        self.session.move_position(by)
        self.paint()

    def action_select_position(self, position: int) -> None:
        """The clicked position of the calibration figure."""
        self.session.selection = replace(self.session.selection, position=position)
        self.paint()

    def action_inspect(self) -> None:
        """The three laws at the selected position."""
        self.session.selection = replace(self.session.selection, pinned=self.session.shown_round())
        self.push_screen(Inspector(lambda width: inspection.draw(self.session, width)))

    # ------------------------------------------------------------------------------------- changing what runs
    def action_edit(self) -> None:
        """Every part and number."""
        if not self.part_names:
            self.run_worker(lambda: self.post_message(PartsListed(self.lab.part_names())), thread=True)
        self.push_screen(Controls(self.settings, self.part_names), self._apply)

    def action_prompt(self) -> None:
        """A prompt of the user's own."""

        def chosen(text: str | None) -> None:
            self._apply(None if text is None else self.settings.changed(prompt=text))

        self.push_screen(PromptBox(self.settings.prompt), chosen)

    def _apply(self, settings: Settings | None) -> None:
        if settings is None or settings == self.settings:
            return
        self.settings = settings
        self.drivers[MAIN].order("changing the composition", lambda source: source.reconfigure(settings))

    def action_users(self, by: int) -> None:
        """More or fewer users."""
        nearest = min(range(len(LEVELS)), key=lambda i: abs(LEVELS[i] - self.settings.batch))
        self.action_set_users(LEVELS[min(max(nearest + by, 0), len(LEVELS) - 1)])

    def action_set_users(self, users: int) -> None:
        """That many users."""
        self._apply(self.settings.changed(batch=users))

    def action_start_race(self) -> None:
        """Real engines in turn."""
        self._launch(RACE, self.lab.race(self.settings), float("inf"))

    def action_start_lab(self, verifier: str) -> None:
        """Appendix A under a scheduler that looks ahead."""
        self._launch(LAB, self.lab.appendix_a(verifier), float("inf"))

    def action_start_collision(self) -> None:
        """The table decoded with both drafters."""
        self._launch(COLLISION, self.lab.collision(self.table), 8.0)

    def action_shift_table(self, by: int) -> None:
        """Moves weight between the two answers."""
        total = sum(self.table.values())
        first = self.table.get(COURSE, 0.0) / total + by * TABLE_STEP
        self.table = {COURSE: round(min(max(first, 0.05), 0.95), 4), PROBLEM: round(1 - min(max(first, 0.05), 0.95), 4)}
        self.paint()

    # ----------------------------------------------------------------------------------------- words and files
    @property
    def page(self) -> Page | None:
        """The page under any panel."""
        return next((s for s in reversed(self.screen_stack) if isinstance(s, Page)), None)

    def action_explain(self) -> None:
        """Every number on the screen in a sentence."""
        if self.page is not None:
            self.push_screen(Panel(f"{self.page.title_text}: what the numbers say", explanation(self.page.explained)))

    def action_source(self) -> None:
        """The source of the part behind the screen, read in a thread: its module may still be unloaded."""
        page, run = self.page, self.session.run()
        if page is None or run is None:
            return
        kind, spec = page.kind, run.header.parts.get(page.kind, "")

        def read() -> None:
            try:
                place, text = self.lab.source_of(kind, spec)
            except (LookupError, OSError, TypeError, ImportError) as error:
                self.post_message(Noted(f"no source for {kind} {spec!r}: {error}", is_warning=True))
            else:
                self.post_message(SourceRead(f"{kind} {spec}: {place}", text))

        self.run_worker(read, thread=True)

    def on_source_read(self, message: SourceRead) -> None:
        """Shows it."""
        theme = "ansi_light" if self.theme == "sparkit-light" else "ansi_dark"
        self.push_screen(Panel(message.place, Syntax(message.text, "python", theme=theme, word_wrap=True)))

    def action_toggle_theme(self) -> None:
        """Light or dark."""
        self.theme = "sparkit-light" if self.theme == "sparkit-dark" else "sparkit-dark"

    def action_save_screenshot(self) -> None:
        """An SVG of what is on the screen."""
        path = self._free_path("sparkit-screen", "svg")
        path.write_text(self.export_screenshot(title="sparkit"), "utf-8")
        self.notify(f"saved {path}")

    def action_save_text(self) -> None:
        """The screen as plain text."""
        path = self._free_path("sparkit-screen", "txt")
        path.write_text(self.screen_text(), "utf-8")
        self.notify(f"saved {path}")

    def action_save_trace(self) -> None:
        """The run so far as a trace."""
        path = self._free_path("sparkit-trace", "jsonl")

        def save(source: Source) -> tuple[()]:
            source.save(path)
            self.post_message(Noted(f"saved {path}: replay it with `sparkit tui --replay {path}`"))
            return ()

        self.driver.order("saving the trace", save)

    def _free_path(self, stem: str, suffix: str) -> Path:
        return next(p for i in range(1, 10_000) if not (p := self.folder / f"{stem}-{i}.{suffix}").exists())

    def screen_text(self) -> str:
        """The text cells of the screen, line by line."""
        return text_of(self.export_screenshot(simplify=True), self.size.height)

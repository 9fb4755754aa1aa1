"""A stage for the app: runs it headless at a size, feeds it, presses keys, reads the text cells."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from sparkit_tui.app import SparkitApp
from sparkit_tui.messages import MAIN, Item
from sparkit_tui.worker import Source
from textual.pilot import Pilot

from tests.tui.fakes import FakeLab, StillSource

SIZES = ((80, 24), (120, 40), (200, 60))


@asynccontextmanager
async def stage(
    source: Source | None = None, size: tuple[int, int] = (120, 40), folder: Path | None = None, **options
) -> AsyncIterator[tuple[SparkitApp, Pilot]]:
    """The app with a fake laboratory; without a source nothing moves but what the test feeds."""
    app = SparkitApp(source or StillSource(), FakeLab(), **options)
    app.animation_level = "none"
    app.NOTIFICATION_TIMEOUT = 600  # no clock decides what a test sees
    app.folder = folder or Path()
    async with app.run_test(size=size, notifications=True) as pilot:
        await pilot.pause()
        yield app, pilot


async def feed(app: SparkitApp, pilot: Pilot, items: Sequence[Item], channel: str = MAIN) -> None:
    """Items as if a worker had sent them."""
    app.session.apply(channel, items)
    app.paint()
    await pilot.pause()


def flat(app: SparkitApp) -> str:
    """The screen's words on one line, frames left out."""
    return " ".join(app.screen_text().replace("│", " ").replace("▌", " ").replace("▐", " ").split())


async def until(pilot: Pilot, condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Waits for the worker's thread; a condition that never comes is a failure."""
    for _ in range(int(seconds / 0.01)):
        if condition():
            return
        await pilot.pause(0.01)
    raise AssertionError("the worker did not get there")

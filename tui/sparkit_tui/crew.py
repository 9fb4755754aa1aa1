"""The drivers by channel: one has the engine at a time, so that no clock counts another's work."""

from __future__ import annotations

from collections.abc import Callable

from textual.message import Message

from sparkit_tui.messages import MAIN
from sparkit_tui.worker import SPEEDS, Driver, Source


class Crew:
    """The text's driver, and those of the screens with an engine of their own.

    Args:
        post: takes the drivers' messages, from any thread.
        start: runs a driver in a thread of its own, under its channel's name.
        front: the channel of the screen in front.
    """

    def __init__(
        self,
        post: Callable[[Message], object],
        start: Callable[[Driver], object],
        front: Callable[[], str],
    ) -> None:
        self._post, self._start, self._front = post, start, front
        self.drivers: dict[str, Driver] = {}

    def add(self, channel: str, source: Source, speed: float) -> Driver:
        """A driver in place of the channel's one before; it does not run yet."""
        if channel in self.drivers:
            self.drivers[channel].stop()
        driver = self.drivers[channel] = Driver(channel, source, self._post)
        driver.speed = speed
        return driver

    def launch(self, channel: str, source: Source, speed: float) -> None:
        """Adds a driver and runs it."""
        driver = self.add(channel, source, speed)
        self.share()
        self._start(driver)

    @property
    def front(self) -> Driver:
        """The driver that the keys speak to: the screen's own while it has something to do, else the text's."""
        own = self.drivers.get(self._front())
        return own if own is not None and not own.is_exhausted else self.drivers[MAIN]

    def share(self) -> None:
        """Gives the engine to the one in front."""
        front = self.front
        for driver in self.drivers.values():
            driver.hold(driver is not front)

    def change_speed(self, by: int) -> None:
        """All drivers to the next speed up or down."""
        current = min(self.front.speed, 1e9)
        nearest = min(range(len(SPEEDS)), key=lambda i: abs(min(SPEEDS[i], 1e9) - current))
        for driver in self.drivers.values():
            driver.set_speed(SPEEDS[min(max(nearest + by, 0), len(SPEEDS) - 1)])

    def stop(self) -> None:
        """No thread outlives the app: each ends after the round in progress."""
        for driver in self.drivers.values():
            driver.stop()

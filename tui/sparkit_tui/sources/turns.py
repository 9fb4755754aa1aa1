"""Engines in turn, one step each: a race, a toy, two drafters of one table. Each is a way to build its lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from sparkit_tui.messages import Item, Over
from sparkit_tui.settings import Settings
from sparkit_tui.sources.decoding import Decoding


class Turns:
    """A source out of lanes that take turns; a lane that has nothing left says so and leaves.

    Args:
        build: makes the lanes and announces them; called again for a restart.
    """

    def __init__(self, build: Callable[[], tuple[list[Decoding], list[Item]]]) -> None:
        self._build = build
        self._lanes: list[Decoding] = []
        self._turn = 0

    def open(self) -> Sequence[Item]:
        """New lanes at their start."""
        self._lanes, items = self._build()
        self._turn = 0
        return items

    def step(self) -> Sequence[Item]:
        """A step of the lane whose turn it is."""
        if not self._lanes:
            return ()
        lane = self._lanes[self._turn % len(self._lanes)]
        items = lane.step()
        if items:
            self._turn += 1
            return items
        self._lanes.remove(lane)
        return (Over(lane.lane),)

    def restart(self) -> Sequence[Item]:
        """From the first seed again."""
        return self.open()

    def reconfigure(self, settings: Settings) -> Sequence[Item]:
        """The lanes are what they are; another race is launched anew."""
        return ()

    def save(self, path: Path) -> None:
        """No trace: its rounds belong to several compositions, or to a toy."""
        raise ValueError("only the text is saved as a trace: open the round screen with 1 and press w there")

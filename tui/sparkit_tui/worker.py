"""A driver runs one source in a thread: paced, paused, stepped, changed and stopped from outside, between two rounds.

    source.open() -> items;  source.step() -> items, () when nothing is left;  orders in between

An error inside the source becomes `Failed` and the driver waits for the next order: the screens never see a traceback.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from textual.message import Message

from sparkit_tui.feed import Feed
from sparkit_tui.messages import Failed, FeedAdvanced, Item
from sparkit_tui.settings import Settings

SPEEDS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 100.0, float("inf"))  # steps a second
DEFAULT_SPEED = 4.0


class Source(Protocol):
    """Where rounds come from."""

    def open(self) -> Sequence[Item]:
        """Makes ready: imports, loads, announces."""
        ...

    def step(self) -> Sequence[Item]:
        """One engine step; () when nothing is left."""
        ...

    def restart(self) -> Sequence[Item]:
        """From the beginning, with the same seed."""
        ...

    def reconfigure(self, settings: Settings) -> Sequence[Item]:
        """Another composition: swapped between two rounds where that is possible, else the text starts again."""
        ...

    def save(self, path: Path) -> None:
        """Writes what has run so far as a trace."""
        ...


class Order(NamedTuple):
    """Something to do to a source between two rounds, in the worker's thread."""

    doing: str  # "changing the composition", for a failure's panel
    action: Callable[[Source], Sequence[Item]]


class Driver:
    """One source, one thread, and the controls around it."""

    def __init__(self, channel: str, source: Source, post: Callable[[Message], object]) -> None:
        self.channel, self.source, self.feed = channel, source, Feed()
        self._post = post
        self._wake = threading.Condition()
        self._orders: deque[Order] = deque()
        self._permits = 0
        self._is_stopped = self._is_broken = False
        self.is_paused = self.is_held = self.is_exhausted = False
        self.speed = DEFAULT_SPEED

    # ------------------------------------------------------------------ called by the screens, from any thread
    def pause(self, is_paused: bool) -> None:
        """Stops between two rounds, or goes on."""
        with self._wake:
            self.is_paused, self._permits = is_paused, 0
            self._wake.notify_all()

    def hold(self, is_held: bool) -> None:
        """Waits while another driver has the engine; what the user paused stays paused."""
        if self.is_held == is_held:
            return  # asked at every frame: a lock taken for nothing would slow both threads
        with self._wake:
            self.is_held = is_held
            self._wake.notify_all()

    def single_step(self) -> None:
        """One round, then pause."""
        with self._wake:
            self.is_paused, self._permits = True, self._permits + 1
            self._wake.notify_all()

    def set_speed(self, speed: float) -> None:
        """Steps a second; infinity runs as fast as the engine does."""
        with self._wake:
            self.speed = speed
            self._wake.notify_all()

    def order(self, doing: str, action: Callable[[Source], Sequence[Item]]) -> None:
        """Queues an order; it is carried out before the next round, paused or not."""
        with self._wake:
            self._orders.append(Order(doing, action))
            self._wake.notify_all()

    def stop(self) -> None:
        """Ends the thread after the round in progress."""
        with self._wake:
            self._is_stopped = True
            self._wake.notify_all()

    # ------------------------------------------------------------------------------------------ in the thread
    def run(self) -> None:
        """The thread's life."""
        self._guarded("starting", self.source.open)
        while self._await_turn():
            order = self._next_order()
            if order is not None:
                self.is_exhausted = self._is_broken = False
                self._guarded(order.doing, partial(order.action, self.source))
            else:
                self.is_exhausted = not self._guarded("decoding a round", self.source.step)

    def _guarded(self, doing: str, action: Callable[[], Sequence[Item]]) -> bool:
        try:
            items = action()
        except Exception as error:  # shown in a panel with what to do; the app lives on
            self._is_broken = True
            self._tell(Failed(self.channel, doing, error))
            return False
        if self.feed.put(items):
            self._tell(FeedAdvanced(self.channel))
        return bool(items)

    def _tell(self, message: Message) -> None:
        if not self._is_stopped:
            self._post(message)

    def _next_order(self) -> Order | None:
        with self._wake:
            return self._orders.popleft() if self._orders else None

    def _await_turn(self) -> bool:
        """Blocks until there is something to do; False when stopped."""
        with self._wake:
            if self._may_run() and self.speed != float("inf"):
                self._wake.wait_for(lambda: self._is_stopped or bool(self._orders), timeout=1 / self.speed)
            self._wake.wait_for(lambda: self._is_stopped or bool(self._orders) or self._may_run())
            if not self._orders and self.is_paused and self._permits:
                self._permits -= 1
            return not self._is_stopped

    def _may_run(self) -> bool:
        if self._is_broken or self.is_exhausted or self.is_held:
            return False
        return not self.is_paused or self._permits > 0

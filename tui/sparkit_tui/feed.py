"""A thread-safe queue of items: a worker puts, the screens drain."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable

from sparkit_tui.messages import Item


class Feed:
    """Items in order; `put` says whether the reader must be woken."""

    def __init__(self) -> None:
        self._items: deque[Item] = deque()
        self._lock = threading.Lock()
        self._is_announced = False

    def put(self, items: Iterable[Item]) -> bool:
        """Appends; True when nobody has been told since the last drain."""
        with self._lock:
            self._items.extend(items)
            wakes = bool(self._items) and not self._is_announced
            self._is_announced = self._is_announced or wakes
            return wakes

    def drain(self, limit: int = 500) -> list[Item]:
        """Takes out up to `limit` items; what stays is announced again by the caller."""
        with self._lock:
            taken = [self._items.popleft() for _ in range(min(limit, len(self._items)))]
            self._is_announced = bool(self._items)
            return taken

    @property
    def has_more(self) -> bool:
        """Whether items wait."""
        with self._lock:
            return bool(self._items)

"""Throughput against speed per user: one measured point for every concurrency that was run, never an estimate.

tokens/s counts emitted tokens over engine seconds; tokens/s/user divides by the mean number of decoding requests.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparkit.rounds import Round

WARM_UP = 2  # steps at a new concurrency that are not counted


@dataclass(slots=True)
class Load:
    """What was measured at one number of users with one composition."""

    label: str
    users: int
    num_steps: int = 0
    num_skipped: int = 0
    num_tokens: int = 0
    num_request_rounds: int = 0
    num_verified: int = 0
    seconds: float = 0.0

    def add(self, rounds: Sequence[Round]) -> None:
        """Counts one engine step in which every user decodes."""
        decoding = [r for r in rounds if r.kind != "prefill"]
        if len(decoding) != self.users or len(rounds) != len(decoding):
            return
        if self.num_skipped < WARM_UP:
            self.num_skipped += 1
            return
        self.num_steps += 1
        self.seconds += rounds[0].seconds.total
        self.num_tokens += sum(len(r.tokens) for r in decoding)
        self.num_request_rounds += len(decoding)
        self.num_verified += sum(r.verify_len for r in decoding)

    @property
    def throughput(self) -> float:
        """Tokens a second of the whole batch."""
        return self.num_tokens / self.seconds if self.seconds > 0 else nan

    @property
    def per_user(self) -> float:
        """Tokens a second that each user sees."""
        return self.throughput / self.users

    @property
    def budget(self) -> float:
        """Target positions a request and round: 1 + verify_len [DSpark fig. 8]."""
        return 1 + self.num_verified / self.num_request_rounds if self.num_request_rounds else nan


class LoadTable:
    """Points by composition and number of users, in the order of users."""

    def __init__(self) -> None:
        self._loads: dict[tuple[str, int], Load] = {}

    def at(self, label: str, users: int) -> Load:
        """The point to count into."""
        return self._loads.setdefault((label, users), Load(label, users))

    def labels(self) -> list[str]:
        """Compositions that have a point, oldest first."""
        return list(dict.fromkeys(label for (label, _), load in self._loads.items() if load.num_steps))

    def curve(self, label: str) -> list[Load]:
        """One composition's points by number of users."""
        found = [load for (name, _), load in self._loads.items() if name == label and load.num_steps]
        return sorted(found, key=lambda load: load.users)

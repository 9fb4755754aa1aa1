"""Everything that crosses from a worker thread to the screens, and from a key to the worker.

Items travel in a `Feed` and are never lost; `FeedAdvanced` only says that there are some, so a fast worker's messages
replace each other and the screens paint the newest state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from sparkit.rounds import Round
    from sparkit_tui.model.header import Header

MAIN = "main"  # the channel of the live text or the replayed trace


# ------------------------------------------------------------------------------------------- items of a feed
@dataclass(frozen=True, slots=True)
class Opened:
    """A composition runs from here on; a new run begins."""

    header: Header
    lane: str = ""  # of a race
    keeps_text: bool = False  # parts were swapped between two rounds: the texts go on, counts and audit begin anew


@dataclass(frozen=True, slots=True)
class Began:
    """A request entered."""

    request: int
    prompt: str
    label: str = ""
    lane: str = ""


@dataclass(frozen=True, slots=True)
class Stepped:
    """One engine step's rounds."""

    rounds: Sequence[Round]
    lane: str = ""


@dataclass(frozen=True, slots=True)
class Compared:
    """A finished text was held against plain decoding of the same seed."""

    num_equal: int
    first_difference: int | None
    lane: str = ""


@dataclass(frozen=True, slots=True)
class Over:
    """A lane, or the whole source, has nothing left to do."""

    lane: str = ""


@dataclass(frozen=True, slots=True)
class LawKnown:
    """The exact law of a toy composition was computed."""

    label: str
    tokens: tuple[str, ...]
    target: tuple[float, ...]
    output: tuple[float, ...]
    is_equal: bool
    lane: str = ""


Item = Opened | Began | Stepped | Compared | Over | LawKnown


# --------------------------------------------------------------------------------------- messages to the app
@dataclass
class FeedAdvanced(Message):
    """There is something new in a channel's feed."""

    channel: str

    def can_replace(self, message: Message) -> bool:
        """A newer one of the same channel says the same."""
        return isinstance(message, FeedAdvanced) and message.channel == self.channel


@dataclass
class Failed(Message):
    """A worker raised; the app lives on."""

    channel: str
    doing: str
    error: BaseException


@dataclass
class PartsListed(Message):
    """The names of every kind of part, for the controls."""

    names: Mapping[str, Sequence[str]]


@dataclass
class Noted(Message):
    """A sentence for the user."""

    text: str
    is_warning: bool = False


@dataclass
class SourceRead(Message):
    """The source text of a part."""

    place: str
    text: str

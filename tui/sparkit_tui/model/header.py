"""What is known of a run before its first round: the composition, its promises, and the words of its tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

KINDS = ("target", "drafter", "head", "confidence", "calibrator", "scheduler", "verifier", "capacity")


def short(spec: str) -> str:
    """A part as the screens print it: options yes, paths no."""
    name, _, options = spec.partition(":")
    kept = [option for option in options.split(",") if option and not option.startswith(("path=", "source="))]
    return f"{name}:{','.join(kept)}" if kept else name


class Rates(Protocol):
    """The part of a capacity that screens read."""

    def rounds_per_second(self, num_requests: int, batch_tokens: int) -> float:
        """Engine steps a second at this size."""
        ...


class Pieces:
    """Token id to text; an unknown id shows as a number."""

    def __init__(self, texts: Mapping[int, str] | None = None) -> None:
        self._texts = dict(texts or {})

    def __getitem__(self, token: int) -> str:
        return self._texts.get(token, f"‹{token}›")

    def __contains__(self, token: int) -> bool:
        return token in self._texts

    def learn(self, texts: Mapping[int, str]) -> None:
        """Adds words; the worker calls it before it sends the rounds that use them."""
        self._texts.update(texts)

    def all(self) -> dict[int, str]:
        """Every word so far, for a trace."""
        return dict(sorted(self._texts.items()))


@dataclass(frozen=True, slots=True)
class Header:
    """One composition as the screens name it."""

    parts: Mapping[str, str]  # kind -> name with parameters
    gamma: int
    temperature: float = 1.0
    batch: int = 1
    seed: int = 0
    is_lossless: bool | None = True  # declared by the composition; None: nobody said (an old trace)
    lossy_parts: tuple[str, ...] = ()  # "scheduler lookahead"
    is_schedule_invariant: bool = False
    is_live: bool = True  # False: a trace replays
    capacity: Rates | None = None
    pieces: Pieces = field(default_factory=Pieces)
    note: str = ""  # shown once: a cut trace, a missing calibration

    @property
    def label(self) -> str:
        """The composition in a line: what distinguishes it."""
        names = (self.parts.get(kind, "") for kind in ("drafter", "calibrator", "scheduler", "verifier"))
        return " · ".join(name for name in names if name)

    @property
    def drafter(self) -> str:
        """The drafter's name, with the head where it has one."""
        name, head = self.parts.get("drafter", "?"), self.parts.get("head", "")
        return f"{name}-{head}" if head and head != "none" and not name.endswith(head) else name

"""What the app needs from the world of engines; `sources.live` is the real one, tests bring their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from sparkit_tui.messages import Noted, SourceRead
from sparkit_tui.model.collision import JointLaw
from sparkit_tui.settings import Settings
from sparkit_tui.worker import Source


class Lab(Protocol):
    """Makes sources; nothing heavy happens before a source is opened."""

    def race(self, settings: Settings) -> Source:
        """Real engines in turn on one prompt."""
        ...

    def appendix_a(self, verifier: str) -> Source:
        """The toy of Appendix A with a scheduler that looks ahead, and its exact law."""
        ...

    def collision(self, table: JointLaw) -> Source:
        """A table target decoded with its marginals and with its conditionals."""
        ...

    def part_names(self) -> Mapping[str, Sequence[str]]:
        """Registered names by kind; imports torch, so it is called in a thread."""
        ...

    def source_of(self, kind: str, spec: str) -> tuple[str, str]:
        """Where a part is written, and its source text; called in a thread."""
        ...


def read_source(lab: Lab, kind: str, spec: str) -> SourceRead | Noted:
    """The source of a part, or why there is none."""
    try:
        place, text = lab.source_of(kind, spec)
    except (LookupError, OSError, TypeError, ImportError) as error:
        return Noted(f"no source for {kind} {spec!r}: {error}", is_warning=True)
    return SourceRead(f"{kind} {spec}: {place}", text)

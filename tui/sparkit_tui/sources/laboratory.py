"""Real engines for the screens, and the names and sources of the parts; nothing heavy before a source is opened."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from sparkit_tui.model.collision import JointLaw
from sparkit_tui.model.header import KINDS
from sparkit_tui.settings import Settings
from sparkit_tui.sources import declared
from sparkit_tui.sources.race import starters
from sparkit_tui.sources.toys import appendix_a_lane, collision_lanes
from sparkit_tui.sources.turns import Turns
from sparkit_tui.worker import Source


class LiveLab:
    """Real engines for the screens that have one of their own."""

    def race(self, settings: Settings) -> Source:
        """Real engines in turn."""
        return Turns(lambda: starters(settings))

    def appendix_a(self, verifier: str) -> Source:
        """The toy under a scheduler that looks ahead."""
        return Turns(lambda: appendix_a_lane(verifier))

    def collision(self, table: JointLaw) -> Source:
        """The table and its two drafters."""
        return Turns(lambda: collision_lanes(table))

    def part_names(self) -> Mapping[str, Sequence[str]]:
        """Registered names by kind."""
        return {kind: declared.registry(kind).names() for kind in KINDS if kind != "capacity"}

    def source_of(self, kind: str, spec: str) -> tuple[str, str]:
        """The module of a part."""
        module = _module(kind, spec)
        file = inspect.getsourcefile(module)
        if file is None:
            raise LookupError("it is not written in Python")
        return file, inspect.getsource(module)


def _module(kind: str, spec: str) -> Any:
    if kind == "capacity":
        from sparkit import capacity

        return capacity
    made = declared.factory(kind, spec)
    if made is None:
        from sparkit.engine import steps

        return steps  # plain decoding, or a part that is not registered here: the step that would call it
    return inspect.getmodule(made)

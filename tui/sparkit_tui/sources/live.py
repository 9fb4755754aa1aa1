"""The live engine: a composition starts its texts, and parts are swapped between rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sparkit_tui.messages import Item, Opened
from sparkit_tui.model.header import Pieces
from sparkit_tui.settings import Settings
from sparkit_tui.sources.composed import decoding_of, header_of, named, recipe_of
from sparkit_tui.sources.decoding import Decoding

if TYPE_CHECKING:
    from sparkit.compose import Composition

STEPS_BEFORE_MEASURING = 8  # the first tokens are on the screen before the device is measured


class LiveSource:
    """One composition, decoding for ever."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._composition: Composition | None = None
        self._decoding: Decoding | None = None
        self._pieces = Pieces()
        self._steps_to_measure: int | None = None

    def open(self) -> Sequence[Item]:
        """Imports torch, loads the models, announces the run; the device is measured later."""
        from sparkit.compose import assemble
        from sparkit.curves import capacity_file

        recipe = recipe_of(self.settings)
        is_known = recipe.capacity != "measured" or capacity_file(recipe).is_file()
        self._composition = assemble(recipe, measure=is_known)
        is_bare = self._composition.tokenizer is None  # a table brings its own curve
        self._steps_to_measure = None if is_known or is_bare else STEPS_BEFORE_MEASURING
        self._pieces = Pieces()
        self._decoding = decoding_of(self._composition, self.settings, self._pieces)
        return [Opened(header_of(self._composition, self._composition.parts, self._pieces))]

    def step(self) -> Sequence[Item]:
        """One engine step, and once the measurement that `open` put off."""
        if self._decoding is None:
            return ()
        items: list[Item] = list(self._decoding.step())
        if self._steps_to_measure is not None:
            self._steps_to_measure -= 1
            if self._steps_to_measure == 0:
                items += self._measure()
        return items

    def _measure(self) -> Sequence[Item]:
        """The capacity curve of this device, taken on parts of its own: the running drafter's slots stay untouched."""
        from sparkit.compose import assemble

        self._steps_to_measure = None
        measured = assemble(recipe_of(self.settings))
        return self._swap(measured, "the capacity curve of this device has been measured; the scheduler uses it now")

    def _swap(self, composition: Composition, note: str = "") -> Sequence[Item]:
        assert self._decoding is not None
        running = self._decoding.parts
        parts = replace(composition.parts, target=running.target, drafter=running.drafter)
        self._decoding.swap(parts)
        self._decoding.reshape(composition.recipe.sampling())
        self._composition = composition
        header = header_of(composition, parts, self._pieces, note)
        return [Opened(header, keeps_text=True), *self._decoding.begun()]

    def restart(self) -> Sequence[Item]:
        """The same seed from the first prompt."""
        return self.open()

    def reconfigure(self, settings: Settings) -> Sequence[Item]:
        """Swaps parts between two rounds where the texts can go on, else starts them again."""
        from sparkit.compose import assemble

        is_hot = self._decoding is not None and not self.settings.restarts(settings)
        before, self.settings = self.settings, settings
        try:
            return self._swap(assemble(recipe_of(settings))) if is_hot else self.open()
        except (ValueError, LookupError, OSError):
            self.settings = before  # what runs goes on
            raise

    def save(self, path: Path) -> None:
        """Everything since the start as a trace."""
        from sparkit.traces import TraceHeader, write_trace

        if self._decoding is None or self._composition is None:
            raise ValueError("nothing has run yet: there is no trace to save")
        seen = self._decoding
        requests = {
            number: {"label": entry.label, "prompt": entry.prompt, "seed": entry.request.seed}
            for number, entry in seen.entries.items()
        }
        recipe = {**asdict(self._composition.recipe), **named(self._composition)}
        header = TraceHeader(
            recipe, seen.gamma, requests, self._pieces.all(), seen.parts.capacity.to_json(), self.settings.seed
        )
        write_trace(path, header, seen.rounds)

"""The live engine: settings become a composition (`sparkit.compose`), texts start, parts are swapped between rounds.

Nothing of torch is imported before a source is opened, in the worker's thread.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import count, cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparkit_tui.messages import Item, Opened, Over
from sparkit_tui.model.collision import JointLaw
from sparkit_tui.model.header import Header, Pieces
from sparkit_tui.settings import AUTO, Settings
from sparkit_tui.sources import declared
from sparkit_tui.sources.decoding import Decoding, Entry
from sparkit_tui.sources.toys import AppendixASource, CollisionSource
from sparkit_tui.worker import Source

if TYPE_CHECKING:
    from sparkit.compose import Composition
    from sparkit.engine import Parts
    from sparkit.recipe import Recipe

RACERS = ("plain", "mtp", "dflash", "eagle3", "dspark")
STEPS_BEFORE_MEASURING = 8  # the first tokens are on the screen before the device is measured
KINDS = ("target", "drafter", "head", "confidence", "calibrator", "scheduler", "verifier")


def recipe_of(settings: Settings) -> Recipe:
    """Settings as `sparkit compose` would read them."""
    from sparkit.recipe import Recipe

    chosen: dict[str, Any] = {name: None if value == AUTO else value for name, value in asdict(settings).items()}
    return Recipe(**{name: value for name, value in chosen.items() if name not in ("domain", "prompt")})


def named(composition: Composition) -> dict[str, str]:
    """The part of each kind as the screens print it: options yes, paths no."""
    recipe = composition.recipe
    names = {"target": recipe.target, **composition.names, "capacity": recipe.capacity}
    return {kind: _short(name) for kind, name in names.items()}


def _short(spec: str) -> str:
    name, _, options = spec.partition(":")
    kept = [option for option in options.split(",") if option and not option.startswith(("path=", "source="))]
    return f"{name}:{','.join(kept)}" if kept else name


def header_of(composition: Composition, parts: Parts, pieces: Pieces, note: str = "") -> Header:
    """What the screens say of a composition."""
    recipe, names = composition.recipe, named(composition)
    chain = ("confidence", "calibrator", "scheduler")
    judged = ("verifier",) if parts.verifier.schedule_invariant else (*chain, "verifier")
    lossy = tuple(f"{kind} {names.get(kind, '?')}" for kind in judged if not getattr(parts, kind).lossless)
    return Header(
        parts=names,
        gamma=recipe.gamma,
        temperature=recipe.temperature,
        batch=recipe.batch,
        seed=recipe.seed,
        is_lossless=parts.is_lossless,
        lossy_parts=lossy,
        is_schedule_invariant=parts.verifier.schedule_invariant,
        capacity=parts.capacity,
        pieces=pieces,
        note=note,
    )


def entries(composition: Composition, settings: Settings) -> Iterator[Entry]:
    """The user's prompt, or the held-out prompts of the domain in order, for ever, each time with another seed."""
    from sparkit.decisions import request_seed

    prompts = prompts_of(composition, settings)
    for index, (text, label) in zip(count(), cycle(prompts), strict=False):
        ids = composition.encode(text) if composition.tokenizer is not None else [0]
        seed = request_seed(settings.seed, index % len(prompts), index // len(prompts))
        yield Entry(composition.request(ids, seed, label), text + "\n", label)


def prompts_of(composition: Composition, settings: Settings) -> list[tuple[str, str]]:
    """(text, domain) of every prompt."""
    from sparkit.compose import ASSETS

    if composition.tokenizer is None:
        return [("", "table")]
    if settings.prompt:
        return [(settings.prompt, "yours")]
    lines = (ASSETS / "bundled" / "prompts.jsonl").read_text("utf-8").splitlines()
    found = [(str(p["prompt"]), str(p["domain"])) for p in map(json.loads, lines)]
    chosen = [p for p in found if settings.domain in ("all", p[1])]
    if not chosen:
        known = ", ".join(sorted({domain for _, domain in found}))
        raise ValueError(f"domain={settings.domain!r}: expected all, {known}")
    return _mixed(chosen)


def _mixed(prompts: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Domains in turn, so that a batch of four shows all of them."""
    by_domain = {domain: [p for p in prompts if p[1] == domain] for _, domain in prompts}
    most = max(map(len, by_domain.values()))
    return [group[i] for i in range(most) for group in by_domain.values() if i < len(group)]


def decoding_of(
    composition: Composition, settings: Settings, pieces: Pieces, lane: str = "", batch: int = 0
) -> Decoding:
    """An engine on its prompts."""
    tokenizer, parts = composition.tokenizer, composition.parts
    vocab = getattr(getattr(parts.target, "tables", None), "vocab", ())
    text_of = vocab.__getitem__ if tokenizer is None else lambda token: tokenizer.decode([token])
    return Decoding(
        parts,
        entries(composition, settings),
        gamma=composition.recipe.gamma,
        batch=batch or settings.batch,
        pieces=pieces,
        text_of=text_of,
        lane=lane,
    )


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
        from sparkit.compose import assemble, capacity_file

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


class RaceSource:
    """Real engines on one prompt, one step each in turn."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._lanes: list[Decoding] = []
        self._turn = 0

    def open(self) -> Sequence[Item]:
        """Every racer that this target has; one that is missing is left out and named."""
        self._lanes, items, missing = [], [], []
        for name in RACERS:
            try:
                decoding, header = self._lane(name)
            except (ValueError, LookupError, OSError):
                missing.append(name)
                continue
            self._lanes.append(decoding)
            items.append(Opened(header, name))
        if not self._lanes:
            raise ValueError(f"no racer fits target {self.settings.target!r}; train drafters for it, or use bundled")
        if missing:
            note = f"left out, not trained for this target: {', '.join(missing)}"
            items[0] = replace(items[0], header=replace(items[0].header, note=note))
        return items

    def _lane(self, name: str) -> tuple[Decoding, Header]:
        from sparkit.compose import assemble

        drafter = "dspark" if name == "dspark" else name
        gamma = 1 if name == "mtp" else self.settings.gamma
        head = self.settings.head if drafter == self.settings.drafter else AUTO
        chosen = self.settings.changed(
            drafter=drafter, gamma=gamma, head=head, batch=1, scheduler="fixed", confidence=AUTO, calibrator=AUTO,
            capacity="flat",
        )  # fmt: skip
        composition = assemble(recipe_of(chosen), measure=False)
        pieces = Pieces()
        decoding = decoding_of(composition, chosen, pieces, name, 1)
        decoding.only_one()
        return decoding, header_of(composition, composition.parts, pieces)

    def step(self) -> Sequence[Item]:
        """A step of the lane whose turn it is; a lane that has ended says so and leaves."""
        if not self._lanes:
            return ()
        self._turn += 1
        lane = self._lanes[self._turn % len(self._lanes)]
        items = lane.step()
        if items:
            return items
        self._lanes.remove(lane)
        return (Over(lane.lane),)

    def restart(self) -> Sequence[Item]:
        """From the start line."""
        return self.open()

    def reconfigure(self, settings: Settings) -> Sequence[Item]:
        """Another race."""
        self.settings = settings
        return self.open()

    def save(self, path: Path) -> None:
        """A race keeps no trace."""
        raise ValueError("a race is not saved; open the round screen with 1 and press w there")


class LiveLab:
    """Real engines for the screens that have one of their own."""

    def race(self, settings: Settings) -> Source:
        """Real engines in turn."""
        return RaceSource(settings)

    def appendix_a(self, verifier: str) -> Source:
        """The toy under a scheduler that looks ahead."""
        return AppendixASource(verifier)

    def collision(self, table: JointLaw) -> Source:
        """The table and its two drafters."""
        return CollisionSource(table)

    def part_names(self) -> Mapping[str, Sequence[str]]:
        """Registered names by kind."""
        return {kind: declared.registry(kind).names() for kind in KINDS}

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

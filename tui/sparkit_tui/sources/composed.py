"""Settings become a composition (`sparkit.compose`): its recipe, the words for it, its prompts, an engine on them.

Nothing of torch is imported before a function is called, in the worker's thread.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from itertools import count, cycle
from typing import TYPE_CHECKING, Any

from sparkit_tui.model.header import Header, Pieces, short
from sparkit_tui.settings import AUTO, Settings
from sparkit_tui.sources.decoding import Decoding, Entry

if TYPE_CHECKING:
    from sparkit.compose import Composition
    from sparkit.engine import Parts
    from sparkit.recipe import Recipe


def recipe_of(settings: Settings) -> Recipe:
    """Settings as `sparkit compose` would read them."""
    from sparkit.recipe import Recipe

    chosen: dict[str, Any] = {name: None if value == AUTO else value for name, value in asdict(settings).items()}
    return Recipe(**{name: value for name, value in chosen.items() if name not in ("domain", "prompt")})


def named(composition: Composition) -> dict[str, str]:
    """The part of each kind as the screens print it: options yes, paths no."""
    recipe = composition.recipe
    names = {"target": recipe.target, **composition.names, "capacity": recipe.capacity}
    return {kind: short(name) for kind, name in names.items()}


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
        yield Entry(composition.request(ids, seed, label), text, label)


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

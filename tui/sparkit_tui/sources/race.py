"""The race: every drafter that the target has decodes one prompt, each in an engine of its own."""

from __future__ import annotations

from dataclasses import replace

from sparkit_tui.messages import Item, Opened
from sparkit_tui.model.header import Pieces
from sparkit_tui.settings import AUTO, Settings
from sparkit_tui.sources.composed import decoding_of, header_of, recipe_of
from sparkit_tui.sources.decoding import Decoding

RACERS = ("plain", "mtp", "dflash", "eagle3", "dspark")


def starters(settings: Settings) -> tuple[list[Decoding], list[Item]]:
    """The lanes; a drafter that this target does not have is left out and named."""
    lanes: list[Decoding] = []
    opened: list[Opened] = []
    missing: dict[str, Exception] = {}
    for name in RACERS:
        try:
            decoding, one = _lane(name, settings)
        except (ValueError, LookupError, OSError) as error:
            missing[name] = error
            continue
        lanes.append(decoding)
        opened.append(one)
    if not lanes:
        raise ValueError(f"no racer fits target {settings.target!r}; train drafters for it, or use bundled")
    if missing:
        note = f"left out: {', '.join(missing)} ({next(iter(missing.values()))})"
        opened[0] = replace(opened[0], header=replace(opened[0].header, note=note))
    return lanes, list[Item](opened)


def _lane(name: str, settings: Settings) -> tuple[Decoding, Opened]:
    from sparkit.compose import assemble

    gamma = 1 if name == "mtp" else settings.gamma
    head = settings.head if name == settings.drafter else AUTO
    chosen = settings.changed(
        drafter=name, gamma=gamma, head=head, batch=1, scheduler="fixed", confidence=AUTO, calibrator=AUTO,
        capacity="flat",
    )  # fmt: skip
    composition = assemble(recipe_of(chosen), measure=False)
    pieces = Pieces()
    decoding = decoding_of(composition, chosen, pieces, name, 1)
    decoding.only_one()
    return decoding, Opened(header_of(composition, composition.parts, pieces), name)

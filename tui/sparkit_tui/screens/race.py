"""The race: real engines on one prompt, in turn; each clock counts the seconds of its own engine only."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from math import isfinite
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from sparkit_tui.ink import Part, bar, cell, fit, line, number, passage
from sparkit_tui.model.race import Standing, standings
from sparkit_tui.model.run import Run, spans
from sparkit_tui.palette import MARKS, SERIES, Mark
from sparkit_tui.screens.page import Hint, Page

if TYPE_CHECKING:
    from sparkit_tui.model.session import Session

RACE = "race"
MEDALS = {1: "1st", 2: "2nd", 3: "3rd"}


class RaceScreen(Page):
    """Lanes, clocks and texts."""

    mode = "race"
    title_text = "Race"
    short_title = "Race"
    idea = "Same target, same prompt; only the guessing differs. Whose clock stops first?"
    kind = "drafter"
    channel = RACE
    hints: ClassVar[tuple[Hint, ...]] = (("enter", "start the race", "app.start_race"),)
    explained = (
        (
            "lanes",
            "plain decoding, MTP with one draft, dflash, eagle3 and dspark, each with its own engine and caches.",
        ),
        (
            "clock",
            "seconds of this lane's own engine steps; the lanes take turns, and nobody waits on another's clock.",
        ),
        ("tokens/s", "tokens of this lane over its own clock."),
        ("speedup", "this lane's tokens/s over plain decoding's."),
        ("tau", "tokens committed per round, bonus included; plain decoding has 1."),
        ("place", "by tokens/s among the lanes that have finished: texts may stop at different lengths."),
        (
            "texts",
            "texts may differ between lanes (each draws its own tokens from the same law); with T 0 they are equal.",
        ),
    )
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "app.start_race", "start the race")]

    def draw(self, width: int, height: int) -> Sequence[Content]:
        """The whole figure."""
        return draw(self.session, self.host.settings.max_new_tokens, width, height)


def draw(session: Session, limit: int, width: int, height: int) -> list[Content]:
    """Standings on top, texts below."""
    lanes = session.channel(RACE).lanes
    if not lanes:
        return invitation(width)
    table = standings(list(lanes.items()), limit)
    marks = dict(zip(lanes, cycle(SERIES), strict=False))
    head = f"{'':<14}{'':<{_track(width)}}{'tokens':>8}{'clock':>9}{'tokens/s':>10}{'speedup':>9}{'tau':>6}  place"
    rows = [fit(line((head, "$muted")), width), *(fit(_lane(s, marks[s.name], width), width) for s in table)]
    room = height - len(rows) - 2
    return [
        *rows,
        Content(""),
        *(_columns(lanes, marks, width, room) if width >= 110 else _stack(lanes, marks, width, room)),
    ]


def invitation(width: int) -> list[Content]:
    """Before the first race."""
    text = "Press enter: plain, mtp, dflash, eagle3 and dspark decode the prompt in turn, each on its own clock."
    return [Content(""), *Content.styled("  " + text, "$muted").wrap(max(width, 1))]


def _track(width: int) -> int:
    return max(width - 64, 6)


def _lane(one: Standing, mark: Mark, width: int) -> Content:
    place = MEDALS.get(one.place or 0, f"{one.place}th" if one.place else "")
    speedup = f"{one.speedup:.2f}x" if isfinite(one.speedup) else "–"
    facts = (
        f"{one.num_tokens:>8}{one.seconds:>8.2f}s{number(one.tokens_per_second, 0):>10}{speedup:>9}{number(one.tau):>6}"
    )
    parts: list[Part] = [(mark.glyph + " ", mark.style), (cell(one.name, 12), "bold")]
    parts += [(bar(one.share, _track(width) - 1) + " ", mark.style), facts, ("  " + place, "bold $bonus")]
    return line(*parts)


def _text(run: Run, width: int, height: int) -> list[Content]:
    seen = next(iter(run.passages.values()), None)
    if seen is None:
        return [Content("")] * height
    parts = [(text, MARKS[name].style) for text, name in spans(seen, run.header, with_ghost=not run.is_over)]
    shown = passage(parts, width, height)
    return [*shown, *([Content("")] * (height - len(shown)))]


def _columns(lanes: dict[str, Run], marks: dict[str, Mark], width: int, height: int) -> list[Content]:
    size = (width - 3 * (len(lanes) - 1)) // len(lanes)
    texts = [_text(run, size, max(height - 1, 1)) for run in lanes.values()]
    heads = [fit(line((f"{marks[name].glyph} {name}", marks[name].style)), size) for name in lanes]
    rows = [heads, *([column[i] for column in texts] for i in range(max(height - 1, 1)))]
    return [_joined(row, size) for row in rows]


def _joined(row: Sequence[Content], size: int) -> Content:
    parts: list[Part] = []
    for i, text in enumerate(row):
        parts += [*([(" │ ", "$rule")] if i else []), fit(text, size)]
    return line(*parts)


def _stack(lanes: dict[str, Run], marks: dict[str, Mark], width: int, height: int) -> list[Content]:
    each = max(height // len(lanes), 1)
    lines: list[Content] = []
    for name, run in lanes.items():
        texts = _text(run, width - 10, each)
        lines += [line((cell(name if i == 0 else "", 9), marks[name].style), " ", x) for i, x in enumerate(texts)]
    return lines

"""The race: real engines on one prompt, in turn; each clock counts the seconds of its own engine only."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from sparkit_tui.ink import Part, bar, beside, cell, fit, line, number
from sparkit_tui.model.race import Standing, standings
from sparkit_tui.model.run import Run
from sparkit_tui.palette import Mark, series
from sparkit_tui.screens.chrome import Hint, hint
from sparkit_tui.screens.page import Page
from sparkit_tui.screens.told import told

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
    needs_run = False
    hints: ClassVar[tuple[Hint, ...]] = (hint("enter", "start the race", "screen.start"),)
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
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "screen.start", "start the race")]

    def draw(self, width: int, height: int) -> Sequence[Content]:
        """The whole figure."""
        return draw(self.session, self.host.settings.max_new_tokens, width, height)

    def action_start(self) -> None:
        """Real engines in turn."""
        self.host.launch(RACE, self.host.lab.race(self.host.settings), float("inf"))


def draw(session: Session, limit: int, width: int, height: int) -> list[Content]:
    """Standings on top, texts below."""
    lanes = session.channel(RACE).lanes
    if not lanes:
        return invitation(width)
    table = standings(list(lanes.items()), limit)
    marks = series(lanes)
    head = f"{'':<14}{'':<{_track(width)}}{'tokens':>8}{'clock':>9}{'tokens/s':>10}{'speedup':>9}{'tau':>6}  place"
    rows = [fit(line((head, "$muted")), width), *(fit(_lane(s, marks[s.name], width), width) for s in table)]
    room = height - len(rows) - 2
    texts = _columns(lanes, marks, width, room) if width >= 110 else _stack(lanes, marks, width, room)
    return [*rows, Content(""), *texts]


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
    shown = told(seen, run.header.pieces, width, height, with_ghosts=not run.is_over) if seen is not None else []
    return [*shown, *([Content("")] * (height - len(shown)))]


def _columns(lanes: dict[str, Run], marks: dict[str, Mark], width: int, height: int) -> list[Content]:
    size = (width - 3 * (len(lanes) - 1)) // len(lanes)
    heads = {name: line((f"{marks[name].glyph} {name}", marks[name].style)) for name in lanes}
    columns = [([heads[name], *_text(run, size, max(height - 1, 1))], size) for name, run in lanes.items()]
    return beside(columns, (" │ ", "$rule"))


def _stack(lanes: dict[str, Run], marks: dict[str, Mark], width: int, height: int) -> list[Content]:
    each, spare = divmod(height, len(lanes))
    lines: list[Content] = []
    for i, (name, run) in enumerate(lanes.items()):
        texts = _text(run, width - 10, max(each + (i < spare), 1))
        lines += [line((cell(name if j == 0 else "", 9), marks[name].style), " ", x) for j, x in enumerate(texts)]
    return lines

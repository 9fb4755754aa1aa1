"""Serving: more users share each pass of the target; the draft budget of each shrinks as the batch fills."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from sparkit_tui.ink import Part, bar, beside, cell, fit, line, link, number, quantity
from sparkit_tui.palette import Mark, series
from sparkit_tui.plot import Plot
from sparkit_tui.screens.chrome import Hint
from sparkit_tui.screens.page import Page, arrows

if TYPE_CHECKING:
    from sparkit_tui.model.run import Run
    from sparkit_tui.model.serving import Load, LoadTable
    from sparkit_tui.model.session import Session

LEVELS = (1, 2, 4, 8, 16, 32)


class ServingScreen(Page):
    """Throughput against speed per user, with a slider for concurrency."""

    mode = "serving"
    title_text = "Serving"
    short_title = "Serve"
    idea = "Light load: draft boldly. Heavy load: a draft takes the place of a user."
    kind = "capacity"
    hints: ClassVar[tuple[Hint, ...]] = (arrows("users", "screen.users(-1)", "screen.users(1)"),)
    explained = (
        ("users", "requests decoding at the same time; the slider starts the text again with that many."),
        (
            "tokens/s",
            "tokens of all users over engine seconds, measured here while you watch; warm-up steps are left out.",
        ),
        ("tokens/s/user", "the same divided by the users: the speed that each of them sees."),
        ("budget", "target positions spent per request and round: the anchor and the drafts sent, 1 + verify_len."),
        ("points", "one for every number of users, printed beside it, that has run; move the slider to add more."),
        ("steps", "engine steps in which every user was decoding; only those are counted."),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "screen.users(-1)", "fewer users"),
        Binding("right", "screen.users(1)", "more users"),
    ]

    def draw(self, width: int, height: int) -> Sequence[Content]:
        """The whole figure."""
        return draw(self.session, self.run, width, height)

    def action_users(self, by: int) -> None:
        """More or fewer users."""
        nearest = min(range(len(LEVELS)), key=lambda i: abs(LEVELS[i] - self.host.settings.batch))
        self.action_set_users(LEVELS[min(max(nearest + by, 0), len(LEVELS) - 1)])

    def action_set_users(self, users: int) -> None:
        """That many users."""
        self.host.change(self.host.settings.changed(batch=users))


def draw(session: Session, run: Run, width: int, height: int) -> list[Content]:
    """Slider, two plots, table."""
    loads, marks = session.loads, series(session.loads.labels())
    slider = [_slider(run.header.batch, width), Content("")]
    table = _table(loads, marks, run, width)[: max(height // 2 - 2, 3)]
    room, half = height - len(slider) - len(table) - 1, (width - 2) // 2
    speed, total, users, budget = (attrgetter(name) for name in ("per_user", "throughput", "users", "budget"))
    trade = Plot(
        half, room, (0, _top(loads, speed, 1.0)), (0, _top(loads, total, 1.0)),
        x_label="tokens/s/user", y_label="tokens/s of the whole batch",
    )  # fmt: skip
    share = Plot(
        width - half - 2, room, (0, _top(loads, users, 2)), (0, _top(loads, budget, 8.0)),
        x_label="users", y_label="budget per request: 1 + drafts sent",
    )  # fmt: skip
    for label, mark in marks.items():
        _curve(trade, loads.curve(label), speed, total, mark)
        _curve(share, loads.curve(label), users, budget, mark)
    return [*slider, *beside([(trade.lines(), half), (share.lines(), width - half - 2)]), Content(""), *table]


def _top(loads: LoadTable, read: Callable[[Load], float], least: float) -> float:
    return 1.1 * max((read(load) for label in loads.labels() for load in loads.curve(label)), default=least)


def _curve(
    plot: Plot, loads: Sequence[Load], x: Callable[[Load], float], y: Callable[[Load], float], mark: Mark
) -> None:
    points = [(x(load), y(load)) for load in loads]
    plot.curve(points, mark.style)
    for load, point in zip(loads, points, strict=True):
        plot.points([point], mark, f"{load.users}")


def _slider(users: int, width: int) -> Content:
    parts: list[Part] = [("concurrency  ", "$muted")]
    for value in LEVELS:
        chosen = value == users
        parts += [link(f" {value} ", "bold reverse $primary" if chosen else "", f"screen.set_users({value})")]
        parts += [("──", "$rule")] if value != LEVELS[-1] else []
    if users not in LEVELS:
        parts += [(f"   now {users}", "bold")]
    return fit(line(*parts), width)


def _table(loads: LoadTable, marks: dict[str, Mark], run: Run, width: int) -> list[Content]:
    head = f"{'':<2}{'users':>6}{'tokens/s':>10}{'/user':>9}{'budget':>8}{'steps':>7}  "
    rows = [fit(line((head, "$muted")), width)]
    for label, mark in sorted(marks.items(), key=lambda entry: entry[0] != run.header.label):
        rows.append(fit(line((mark.glyph, mark.style), " ", (label, "bold")), width))
        rows += [fit(_row(load, width), width) for load in loads.curve(label)]
    if not marks:
        rows.append(line(("  measuring …", "$muted")))
    return rows


def _row(load: Load, width: int) -> Content:
    facts = f"{load.users:>8}{quantity(load.throughput):>10}{quantity(load.per_user):>9}{number(load.budget):>8}"
    return line(
        facts, cell(str(load.num_steps), 7, "right"), "  ", (bar((load.budget - 1) / 8, min(24, width - 44)), "$draft")
    )

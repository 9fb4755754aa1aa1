"""Serving: more users share each pass of the target; the draft budget of each shrinks as the batch fills."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from sparkit_tui.ink import Part, bar, cell, fit, line, link, number, quantity
from sparkit_tui.palette import SERIES, Mark
from sparkit_tui.plot import Plot
from sparkit_tui.screens.page import Hint, Page
from sparkit_tui.screens.round import waiting

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
    hints: ClassVar[tuple[Hint, ...]] = (("←→", "users", "app.users(1)"),)
    explained = (
        ("users", "requests decoding at the same time; the slider starts the text again with that many."),
        (
            "tokens/s",
            "tokens of all users over engine seconds, measured here while you watch; warm-up steps are left out.",
        ),
        ("tokens/s/user", "the same divided by the users: the speed that each of them sees."),
        ("budget", "target positions spent per request and round: the anchor and the drafts sent, 1 + verify_len."),
        ("points", "one for every number of users that has run with a composition; move the slider to add more."),
        ("steps", "engine steps in which every user was decoding; only those are counted."),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "app.users(-1)", "fewer users"),
        Binding("right", "app.users(1)", "more users"),
    ]

    def draw(self, width: int, height: int) -> Sequence[Content]:
        """The whole figure."""
        return draw(self.session, width, height)


def draw(session: Session, width: int, height: int) -> list[Content]:
    """Slider, plot, table."""
    run = session.run()
    if run is None:
        return waiting(width)
    series = dict(zip(session.loads.labels(), cycle(SERIES), strict=False))
    slider = [_slider(run.header.batch, width), Content("")]
    table = _table(session.loads, series, run, width)[: max(height // 2 - 2, 3)]
    room = height - len(slider) - len(table) - 1
    if width >= 100:
        half = (width - 2) // 2
        left = _trade(session.loads, series, half, room)
        right = _budgets(session.loads, series, width - half - 2, room)
        figure = [line(fit(a, half), "  ", b) for a, b in zip(left, right, strict=True)]
    else:
        figure = _trade(session.loads, series, width, room)
    return [*slider, *figure, Content(""), *table]


def _slider(users: int, width: int) -> Content:
    parts: list[Part] = [("concurrency  ", "$muted")]
    for value in LEVELS:
        chosen = value == users
        parts += [link(f" {value} ", "bold reverse $primary" if chosen else "", f"app.set_users({value})")]
        parts += [("──", "$rule")] if value != LEVELS[-1] else []
    if users not in LEVELS:
        parts += [(f"   now {users}", "bold")]
    return fit(line(*parts), width)


def _trade(loads: LoadTable, series: dict[str, Mark], width: int, height: int) -> list[Content]:
    points = [load for label in series for load in loads.curve(label)]
    right = max((load.per_user for load in points), default=1.0)
    top = max((load.throughput for load in points), default=1.0)
    plot = Plot(
        width, height, (0, right * 1.1), (0, top * 1.1),
        x_label="tokens/s/user", y_label="tokens/s of the whole batch",
    )  # fmt: skip
    for label, mark in series.items():
        curve = [(load.per_user, load.throughput) for load in loads.curve(label)]
        plot.curve(curve, mark.style).points(curve, mark)
    return plot.lines()


def _budgets(loads: LoadTable, series: dict[str, Mark], width: int, height: int) -> list[Content]:
    points = [load for label in series for load in loads.curve(label)]
    most = max((load.users for load in points), default=2)
    top = max((load.budget for load in points), default=8.0)
    plot = Plot(
        width, height, (0, most * 1.05), (0, top * 1.1),
        x_label="users", y_label="budget per request: 1 + drafts sent",
    )  # fmt: skip
    for label, mark in series.items():
        curve = [(load.users, load.budget) for load in loads.curve(label)]
        plot.curve(curve, mark.style).points(curve, mark)
    return plot.lines()


def _table(loads: LoadTable, series: dict[str, Mark], run: Run, width: int) -> list[Content]:
    head = f"{'':<2}{'users':>6}{'tokens/s':>10}{'/user':>9}{'budget':>8}{'steps':>7}  "
    rows = [fit(line((head, "$muted")), width)]
    for label, mark in sorted(series.items(), key=lambda entry: entry[0] != run.header.label):
        rows.append(fit(line((mark.glyph, mark.style), " ", (label, "bold")), width))
        rows += [fit(_row(load, width), width) for load in loads.curve(label)]
    if not series:
        rows.append(line(("  measuring …", "$muted")))
    return rows


def _row(load: Load, width: int) -> Content:
    facts = f"{load.users:>8}{quantity(load.throughput):>10}{quantity(load.per_user):>9}{number(load.budget):>8}"
    return line(
        facts, cell(str(load.num_steps), 7, "right"), "  ", (bar((load.budget - 1) / 8, min(24, width - 44)), "$draft")
    )

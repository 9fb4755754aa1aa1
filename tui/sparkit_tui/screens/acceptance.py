"""Acceptance by position: how far into the block the drafter can still be trusted, drafters side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.content import Content

from sparkit_tui.ink import beside, cell, fit, line, number
from sparkit_tui.model.tally import LEAST_ROUNDS, Tally
from sparkit_tui.palette import Mark, series
from sparkit_tui.plot import Plot
from sparkit_tui.screens.page import Page

if TYPE_CHECKING:
    from sparkit_tui.model.run import Run
    from sparkit_tui.model.session import Session


class AcceptanceScreen(Page):
    """Conditional and prefix acceptance, one curve a drafter."""

    mode = "acceptance"
    title_text = "Acceptance"
    short_title = "Accept"
    idea = "Parallel drafters tire along the block: no position knows the one before."
    kind = "drafter"
    explained = (
        (
            "conditional acceptance",
            "among rounds whose first k-1 drafts were accepted and whose draft k was sent: how often k was.",
        ),
        (
            "prefix acceptance",
            "among rounds that sent at least k drafts: how often the whole prefix up to k was accepted.",
        ),
        ("selection", f"positions that were cut say nothing; a rate is shown from {LEAST_ROUNDS} rounds on."),
        ("tau", "tokens committed per round, bonus included; the prompt's own token is not counted."),
        (
            "verified acceptance",
            "(accepted + 1) / (sent + 1) over all rounds, the target's own token counted on both sides.",
        ),
        ("sent", "mean drafts sent to the target per round."),
        (
            "drafters",
            "every drafter that has run in this session, the lanes of a race included; counts are kept over restarts.",
        ),
    )

    def draw(self, width: int, height: int) -> Sequence[Content]:
        """The whole figure."""
        return draw(self.session, self.run, width, height)


def draw(session: Session, run: Run, width: int, height: int) -> list[Content]:
    """Two plots and a table."""
    marks = series(session.drafters)
    table = _table(session.drafters, marks, run.header.drafter, width)
    room, half = height - len(table) - 1, (width - 2) // 2
    conditional = {name: tally.conditional_acceptance() for name, tally in session.drafters.items()}
    prefix = {name: tally.prefix_acceptance() for name, tally in session.drafters.items()}
    left = _plot("conditional acceptance", conditional, marks, half, room)
    right = _plot("prefix acceptance", prefix, marks, width - half - 2, room)
    return [*beside([(left, half), (right, width - half - 2)]), Content(""), *table]


def _plot(name: str, rates: dict[str, list[float]], marks: dict[str, Mark], width: int, height: int) -> list[Content]:
    gamma = max(map(len, rates.values()), default=7)
    plot = Plot(width, height, (1, max(gamma, 2)), (0, 1), x_label="position in the block", y_label=name, is_whole=True)
    for drafter, values in rates.items():
        points = [(k, rate) for k, rate in enumerate(values, start=1)]
        plot.curve(points, marks[drafter].style).points(points, marks[drafter])
    return plot.lines()


NAME, RATE, FACTS = 15, 5, 28  # cells of the table's columns: 80 columns hold seven positions


def _table(drafters: dict[str, Tally], marks: dict[str, Mark], current: str, width: int) -> list[Content]:
    size = NAME if width < 100 else NAME + 9
    gamma = min(max((t.gamma for t in drafters.values()), default=7), max((width - size - FACTS) // RATE, 3))
    head = cell("  conditional", size) + "".join(f"{k:>{RATE}}" for k in range(1, gamma + 1))
    rows = [fit(line((f"{head}{'rounds':>7}{'tau':>6}{'sent':>6}{'verified':>9}", "$muted")), width)]
    for name, tally in drafters.items():
        rates = "".join(f"{number(r):>{RATE}}" for r in [*tally.conditional_acceptance(), *([None] * gamma)][:gamma])
        facts = f"{tally.num_rounds:>7}{number(tally.tau):>6}{number(tally.mean_verify_len):>6}"
        facts += f"{number(tally.verified_acceptance):>9}"
        style = "bold" if name == current else ""
        mark = (marks[name].glyph + " ", marks[name].style)
        rows.append(fit(line(mark, (cell(name, size - 2), style), (rates + facts, style)), width))
    if not drafters:
        rows.append(line(("  no drafted round yet", "$muted")))
    return rows

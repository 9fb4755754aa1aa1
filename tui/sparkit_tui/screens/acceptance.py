"""Acceptance by position: how far into the block the drafter can still be trusted, drafters side by side."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING

from textual.content import Content

from sparkit_tui.ink import cell, fit, line, number
from sparkit_tui.model.tally import LEAST_ROUNDS, Tally
from sparkit_tui.palette import SERIES, Mark
from sparkit_tui.plot import Plot
from sparkit_tui.screens.page import Page
from sparkit_tui.screens.round import waiting

if TYPE_CHECKING:
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
        return draw(self.session, width, height)


def draw(session: Session, width: int, height: int) -> list[Content]:
    """Two plots and a table."""
    run = session.run()
    if run is None:
        return waiting(width)
    series = dict(zip(session.drafters, cycle(SERIES), strict=False))
    table = _table(session.drafters, series, run.header.drafter, width)
    room = height - len(table) - 1
    if width >= 100:
        half = (width - 2) // 2
        left = _plot("conditional acceptance", session.drafters, series, half, room, is_conditional=True)
        right = _plot("prefix acceptance", session.drafters, series, width - half - 2, room, is_conditional=False)
        figure = [line(fit(a, half), "  ", b) for a, b in zip(left, right, strict=True)]
    else:
        figure = _plot("conditional acceptance", session.drafters, series, width, room, is_conditional=True)
    return [*figure, Content(""), *table]


def _plot(
    name: str, drafters: dict[str, Tally], series: dict[str, Mark], width: int, height: int, *, is_conditional: bool
) -> list[Content]:
    gamma = max((t.gamma for t in drafters.values()), default=7)
    plot = Plot(width, height, (1, max(gamma, 2)), (0, 1), x_label="position in the block", y_label=name)
    for drafter, tally in drafters.items():
        rates = tally.conditional_acceptance() if is_conditional else tally.prefix_acceptance()
        points = [(k, rate) for k, rate in enumerate(rates, start=1)]
        plot.curve(points, series[drafter].style).points(points, series[drafter])
    return plot.lines()


def _table(drafters: dict[str, Tally], series: dict[str, Mark], current: str, width: int) -> list[Content]:
    gamma = min(max((t.gamma for t in drafters.values()), default=7), max((width - 50) // 6, 3))
    head = "".join(cell(str(k), 6, "right") for k in range(1, gamma + 1))
    titles = f"{'rounds':>8}{'tau':>7}{'sent':>7}{'verified':>10}"
    rows = [fit(line((cell("  conditional", 20) + head + titles, "$muted")), width)]
    for name, tally in drafters.items():
        rates = "".join(
            cell(number(r), 6, "right") for r in [*tally.conditional_acceptance(), *([None] * gamma)][:gamma]
        )
        facts = f"{tally.num_rounds:>8}{number(tally.tau):>7}{number(tally.mean_verify_len):>7}"
        facts += f"{number(tally.verified_acceptance):>10}"
        mark = series[name]
        style = "bold" if name == current else ""
        rows.append(fit(line((mark.glyph + " ", mark.style), (cell(name, 18), style), (rates + facts, style)), width))
    if not drafters:
        rows.append(line(("  no drafted round yet", "$muted")))
    return rows

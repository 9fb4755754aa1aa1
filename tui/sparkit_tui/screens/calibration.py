"""Calibration: of the prefixes that were given 70%, do 70% survive? Before and after the calibrator, and over time."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from sparkit_tui.ink import beside, cell, fit, line, link, spark
from sparkit_tui.model.tally import DRIFT_WINDOW, Bins, merged, over_positions
from sparkit_tui.palette import Mark
from sparkit_tui.plot import Plot
from sparkit_tui.screens.chrome import Hint
from sparkit_tui.screens.page import Page, arrows

if TYPE_CHECKING:
    from sparkit_tui.model.run import Run
    from sparkit_tui.model.session import Session
    from sparkit_tui.model.tally import Tally

RAW = Mark("△", "$correction")
CALIBRATED = Mark("●", "$draft")
SIDE = 42  # cells of the table


class CalibrationScreen(Page):
    """The reliability diagram, by position."""

    mode = "calibration"
    title_text = "Calibration"
    short_title = "Calib"
    idea = "What was given 70% must survive 70% of the time, or no scheduler can weigh it."
    kind = "calibrator"
    hints: ClassVar[tuple[Hint, ...]] = (arrows("position", "app.move('position', -1)", "app.move('position', 1)"),)
    explained = (
        (
            "reliability",
            "each point is one of 10 equal bins: mean survival predicted against the share that did survive.",
        ),
        ("△ raw", "survival from the uncorrected confidences: the product of their sigmoids."),
        ("● calibrated", "survival after the calibrator; the scheduler works with this one."),
        ("diagonal", "where a perfect predictor lies; below it is overconfident, above it too shy."),
        (
            "ECE",
            "expected calibration error: mean |predicted - observed| over bins, and over positions, by counts.",
        ),
        ("floor", "the ECE that a perfect predictor would still show with these counts, by chance alone."),
        ("n", "rounds that sent at least k drafts: only those tell whether the prefix up to k survives."),
        (
            "drift",
            f"ECE of each window of {DRIFT_WINDOW} verified rounds, oldest left: does the correction stay right?",
        ),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "app.move('position', -1)", "previous position"),
        Binding("right", "app.move('position', 1)", "next position"),
    ]

    def draw(self, width: int, height: int) -> Sequence[Content]:
        """The whole figure."""
        return draw(self.session, self.run, width, height)

    def action_select_position(self, position: int) -> None:
        """The clicked row."""
        self.session.select_position(position)
        self.paint()


def draw(session: Session, run: Run, width: int, height: int) -> list[Content]:
    """Diagram left, table right, drift below; a wide screen adds a small diagram for each position."""
    tally = run.tally
    position = min(session.selection.position, tally.gamma)  # chosen in a run that drafted longer blocks, perhaps
    drift = _drift(tally, width)
    room = height - len(drift) - 1
    is_wide = width >= 150 and room >= 30
    side = width // 2 if is_wide else min(SIDE, width // 2)
    chosen = slice(0, tally.gamma) if position == 0 else slice(position - 1, position)
    where = f"share that survived, {f'position {position}' if position else 'all positions'}"
    main = _diagram(merged(tally.raw[chosen]), merged(tally.calibrated[chosen]), where, width - side - 2, room)
    table = _table(tally, position, side, min(tally.gamma + 4, room // 2) if is_wide else room)
    right = [*table, *_small(tally, side, room - len(table))] if is_wide else table
    return [*beside([(main, width - side - 2), (right, side)])[:room], Content(""), *drift]


def _small(tally: Tally, width: int, height: int) -> list[Content]:
    """One diagram a position, as many as there is room for."""
    columns = max(width // 30, 1)
    num = min(tally.gamma, columns * max(height // 9, 1))
    size, tall = width // columns - 2, height // max(-(-num // columns), 1)
    lines: list[Content] = []
    for first in range(0, num, columns):
        shown = range(first, min(first + columns, num))
        plots = [_diagram(tally.raw[k], tally.calibrated[k], f"k = {k + 1}", size, tall - 1, "") for k in shown]
        lines += [Content(""), *beside([(plot, size) for plot in plots])]
    return lines


def _diagram(
    raw: Bins, calibrated: Bins, name: str, width: int, height: int, x_label: str = "survival predicted"
) -> list[Content]:
    plot = Plot(width, height, (0, 1), (0, 1), x_label=x_label, y_label=name)
    plot.curve([(0, 0), (1, 1)], "$rule")
    for bins, mark in ((raw, RAW), (calibrated, CALIBRATED)):
        points = [(predicted, observed) for predicted, observed, _ in bins.points()]
        plot.curve(points, mark.style).points(points, mark)
    return plot.lines()


def _table(tally: Tally, position: int, width: int, height: int) -> list[Content]:
    positions = range(1, tally.gamma + 1)
    head = fit(line((f"{'':<8}{'n':>7}{'ECE raw':>9}{'→ cal.':>8}{'floor':>7}", "$muted")), width)
    rows = [_row("all", tally.raw, tally.calibrated, position == 0, 0)]
    rows += [_row(f"k = {k}", tally.raw[k - 1 : k], tally.calibrated[k - 1 : k], position == k, k) for k in positions]
    room = max(height - 3, 1)
    first = min(max(position - room + 1, 0), max(len(rows) - room, 0))
    key = line(
        (RAW.glyph, RAW.style), (" raw    ", "$muted"), (CALIBRATED.glyph, CALIBRATED.style), (" calibrated", "$muted")
    )
    return [head, *(fit(r, width) for r in rows[first : first + room]), Content(""), key]


def _row(name: str, raw: Sequence[Bins], calibrated: Sequence[Bins], is_selected: bool, position: int) -> Content:
    before, after = (over_positions(bins, lambda b: b.ece) for bins in (raw, calibrated))
    floor = over_positions(calibrated, lambda b: b.floor)
    values = f"{sum(b.total for b in raw):>7}{percent(before):>9}{percent(after):>8}{percent(floor):>7}"
    style = "bold on $panel" if is_selected else ""
    return link(cell(name, 8) + values, style, f"screen.select_position({position})")


def percent(value: float) -> str:
    """A share in percent, or a dash."""
    return f"{100 * value:.1f}%" if isfinite(value) else "–"


def _drift(tally: Tally, width: int) -> list[Content]:
    room = max(width - 30, 8)
    points = list(tally.drift)[-room:]
    top = max((v for pair in points for v in pair if isfinite(v)), default=0.1)
    latest = points[-1] if points else (float("nan"), float("nan"))
    note = f"drift: ECE of every {DRIFT_WINDOW} rounds, top of the scale {percent(top)}"
    return [
        line((note if points else f"drift: a first point after {DRIFT_WINDOW} verified rounds", "$muted")),
        *(
            line(
                (f"{name:<11}", "$muted"),
                (f"{percent(latest[i]):>7}  ", ""),
                (spark((p[i] for p in points), top), mark.style),
            )
            for i, (name, mark) in enumerate((("raw", RAW), ("calibrated", CALIBRATED)))
        ),
    ]

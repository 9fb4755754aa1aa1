"""Calibration: of the prefixes that were given 70%, do 70% survive? Before and after the calibrator, and over time."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from sparkit_tui.ink import cell, fit, line, link, spark
from sparkit_tui.model.tally import DRIFT_WINDOW, Bins, merged, over_positions
from sparkit_tui.palette import Mark
from sparkit_tui.plot import Plot
from sparkit_tui.screens.page import Hint, Page
from sparkit_tui.screens.round import waiting

if TYPE_CHECKING:
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
    hints: ClassVar[tuple[Hint, ...]] = (("←→", "position", "app.position(1)"),)
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
        Binding("left", "app.position(-1)", "previous position"),
        Binding("right", "app.position(1)", "next position"),
    ]

    def draw(self, width: int, height: int) -> Sequence[Content]:
        """The whole figure."""
        return draw(self.session, width, height)


def draw(session: Session, width: int, height: int) -> list[Content]:
    """Diagram left, table right, drift below."""
    run = session.run()
    if run is None:
        return waiting(width)
    tally = run.tally
    position = min(session.selection.position, tally.gamma)  # chosen in a run that drafted longer blocks, perhaps
    side = min(SIDE, width // 2)
    drift = _drift(tally, width)
    room = height - len(drift) - 1
    raw = merged(tally.raw) if position == 0 else tally.raw[position - 1]
    calibrated = merged(tally.calibrated) if position == 0 else tally.calibrated[position - 1]
    figure = _diagram(raw, calibrated, position, width - side - 2, room)
    table = _table(tally, position, side, room)
    table += [Content("")] * (room - len(table))
    rows = [line(fit(a, width - side - 2), "  ", b) for a, b in zip(figure, table, strict=False)]
    return [*rows, Content(""), *drift]


def _diagram(raw: Bins, calibrated: Bins, position: int, width: int, height: int) -> list[Content]:
    where = f"position {position}" if position else "all positions"
    plot = Plot(width, height, (0, 1), (0, 1), x_label="survival predicted", y_label=f"share that survived, {where}")
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
    return link(cell(name, 8) + values, style, f"app.select_position({position})")


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

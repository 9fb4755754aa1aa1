"""The scheduler: all draft tokens of the batch in one queue, and the point where one more would slow the batch down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.content import Content

from sparkit_tui.ink import Part, beside, cell, count, fit, level, line, quantity
from sparkit_tui.model.admission import Admission, admission_of
from sparkit_tui.palette import SERIES, Mark
from sparkit_tui.plot import Plot
from sparkit_tui.screens.page import Page

if TYPE_CHECKING:
    from sparkit.rounds import Round
    from sparkit_tui.model.run import Run
    from sparkit_tui.model.session import Session

LABEL = 10  # cells of the row names

CUT = Mark("◆", "bold $correction")
BEST = Mark("★", "bold $bonus")
STOP = Mark("▲", "bold $rejected")


class SchedulerScreen(Page):
    """The pool, Theta along the admission path, the capacity curve."""

    mode = "scheduler"
    title_text = "Scheduler"
    short_title = "Sched"
    idea = "A draft token gets a place in the batch while it is worth more than it costs."
    kind = "scheduler"
    explained = (
        ("pool", "every draft token of every request, by survival, largest first; ties by position, then by request."),
        (
            "filled / hollow",
            "sent to the target / cut; the line below says whose token it is, the one below that its position.",
        ),
        (
            "Theta",
            "expected tokens a second after admitting the first l of the pool: expected tokens times steps a second.",
        ),
        ("◆ sent", "how many drafts the scheduler admitted in this step."),
        ("▲ early stop", "where Algorithm 1 breaks: Theta would not rise with the next candidate."),
        (
            "★ maximum",
            "the best point of the whole path; to look for it is to look ahead, which only a delayed plan may.",
        ),
        (
            "steps a second",
            "the capacity curve at this number of requests, by tokens in the batch; its cliffs are the tiles.",
        ),
        ("B", "tokens in the target's pass: one anchor a request, prompt pieces, and the admitted drafts."),
        ("probes", "rounds that send everything whatever the plan, so that calibration also sees what is usually cut."),
    )

    def draw(self, width: int, height: int) -> Sequence[Content]:
        """The whole figure."""
        return draw(self.session, self.run, width, height)


def draw(session: Session, run: Run, width: int, height: int) -> list[Content]:
    """Pool on top, Theta and capacity below."""
    admission = admission_of(_rounds(session, run, session.shown_round()), run.header.capacity)
    if admission is None:
        return [
            line(("no draft in this step: the scheduler judged plain decoding faster, or the prompt is read", "$muted"))
        ]
    pool = _pool(admission, width, max((height - 16) // 8, 1))
    return [_facts(admission, width), *pool, Content(""), *_figures(admission, width, height - len(pool) - 2)]


def _rounds(session: Session, run: Run, round_: Round | None) -> Sequence[Round]:
    if round_ is None:
        return ()
    if session.selection.pinned is None:  # the newest step that drafted: an undrafted one has no pool
        drafted = (s for s in reversed(run.steps) if any(r.kind == "drafted" for r in s.rounds))
        step = next(drafted, None)
    else:
        step = run.step_of(round_)
    return step.rounds if step is not None else ()


def _facts(seen: Admission, width: int) -> Content:
    parts: list[Part] = [
        (f"step {seen.step}", "bold"),
        f"   {count(seen.num_requests, 'request')}, {count(len(seen.candidates), 'candidate')}, ",
    ]
    parts += [(f"{seen.num_admitted} sent", "bold"), f", B = {seen.base_tokens + seen.num_admitted}"]
    if seen.throughput:
        here = seen.throughput[min(seen.num_admitted, len(seen.throughput) - 1)]
        parts += [("   Theta ", "$muted"), quantity(here), ("  best ", "$muted"), quantity(seen.throughput[seen.best])]
    if seen.num_probes:
        parts += [(f"   {count(seen.num_probes, 'probe')}", "$amber")]
    return fit(line(*parts), width)


def _pool(seen: Admission, width: int, height: int) -> list[Content]:
    """The survivals as columns, `height` lines tall, then what became of each and whose it is."""
    room = max(width - LABEL - 2, 1)
    size = min(max(room // max(len(seen.candidates), 1), 1), 3)
    shown = seen.candidates[: room // size]
    more = " …" if len(shown) < len(seen.candidates) else ""
    ids = {request: i for i, request in enumerate(sorted({c.request for c in seen.candidates}))}
    tones = ["$draft" if c.is_admitted else "$cut" for c in shown]
    bars = [[level(c.survival * height - row) for c in shown] for row in reversed(range(height))]
    rows = [("survival" if row == height - 1 else "", glyphs, tones) for row, glyphs in enumerate(bars)]
    rows += [
        ("sent", ["●" if c.is_admitted else "·" for c in shown], tones),
        ("request", [_letter(ids[c.request]) for c in shown], [SERIES[ids[c.request] % 6].style for c in shown]),
        ("position", [f"{c.position % 10}" if size < 3 else f"{c.position}" for c in shown], ["$muted"] * len(shown)),
    ]
    return [
        _pool_row(name, glyphs, styles, size, more if name == "sent" else "", width) for name, glyphs, styles in rows
    ]


def _pool_row(name: str, glyphs: Sequence[str], styles: Sequence[str], size: int, more: str, width: int) -> Content:
    cells: list[Part] = [(glyph.ljust(size), style) for glyph, style in zip(glyphs, styles, strict=True)]
    return fit(line((cell(name, LABEL), "$muted"), *cells, more), width)


def _letter(index: int) -> str:
    return "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"[index % 52]


def _figures(seen: Admission, width: int, height: int) -> list[Content]:
    if not seen.throughput:
        return [line(("this run carries no capacity curve, so Theta cannot be drawn", "$muted"))]
    side = max(width // 3, 28)
    legend = line(
        *((CUT.glyph, CUT.style), (" sent  ", "$muted"), (STOP.glyph, STOP.style), (" early stop  ", "$muted")),
        *((BEST.glyph, BEST.style), (" maximum of the whole path", "$muted")),
    )
    theta, rates = _theta(seen, width - side - 2, height - 1), _capacity(seen, side, height - 1)
    return [*beside([(theta, width - side - 2), (rates, side)]), legend]


def _around(values: Sequence[float]) -> tuple[float, float]:
    """Limits of an axis that leave a margin."""
    low, high = min(values), max(values)
    margin = (high - low) * 0.08 or abs(high) * 0.1 or 1.0
    return low - margin, high + margin


def _theta(seen: Admission, width: int, height: int) -> list[Content]:
    theta = seen.throughput
    label = "drafts admitted, in the order of the pool" if width >= 60 else "drafts admitted"
    plot = Plot(
        width, height, (0, max(len(theta) - 1, 1)), _around(theta),
        x_label=label, y_label="Theta: expected tokens a second", is_whole=True,
    )  # fmt: skip
    plot.curve(list(enumerate(theta)), "$draft")
    plot.rule_x(seen.num_admitted, "$correction")
    cut = min(seen.num_admitted, len(theta) - 1)
    for index, mark in ((seen.early_stop, STOP), (seen.best, BEST), (cut, CUT)):
        plot.points([(index, theta[index])], mark)
    return plot.lines()


def _capacity(seen: Admission, width: int, height: int) -> list[Content]:
    first, last = seen.speed[0][0], seen.speed[-1][0]
    plot = Plot(
        width, height, (first, max(last, first + 1)), _around([speed for _, speed in seen.speed]),
        x_label="B", y_label="steps a second", is_whole=True,
    )  # fmt: skip
    plot.steps(list(seen.speed), "$draft")
    here = seen.base_tokens + seen.num_admitted
    return plot.rule_x(here, "$correction").points([(s, v) for s, v in seen.speed if s == here], CUT).lines()

"""The scheduler: all draft tokens of the batch in one queue, and the point where one more would slow the batch down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.content import Content

from sparkit_tui.ink import Part, cell, fit, level, line, quantity
from sparkit_tui.model.admission import Admission, admission_of
from sparkit_tui.palette import SERIES, Mark
from sparkit_tui.plot import Plot
from sparkit_tui.screens.page import Page
from sparkit_tui.screens.round import waiting

if TYPE_CHECKING:
    from sparkit.rounds import Round
    from sparkit_tui.model.session import Session

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
        return draw(self.session, width, height)


def draw(session: Session, width: int, height: int) -> list[Content]:
    """Pool on top, Theta and capacity below."""
    run, round_ = session.run(), session.shown_round()
    if run is None:
        return waiting(width)
    admission = admission_of(_rounds(session, round_), run.header.capacity)
    if admission is None:
        return [
            line(("no draft in this step: the scheduler judged plain decoding faster, or the prompt is read", "$muted"))
        ]
    pool = _pool(admission, width)
    room = height - len(pool) - 2
    return [_facts(admission, width), *pool, Content(""), *_figures(admission, width, room)]


def _rounds(session: Session, round_: Round | None) -> Sequence[Round]:
    run = session.run()
    if run is None or round_ is None:
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
        f"   {seen.num_requests} requests, {len(seen.candidates)} candidates, ",
    ]
    parts += [(f"{seen.num_admitted} sent", "bold"), f", B = {seen.base_tokens + seen.num_admitted}"]
    if seen.throughput:
        here = seen.throughput[min(seen.num_admitted, len(seen.throughput) - 1)]
        parts += [("   Theta ", "$muted"), quantity(here), ("  best ", "$muted"), quantity(seen.throughput[seen.best])]
    if seen.num_probes:
        parts += [(f"   {seen.num_probes} probe", "$amber")]
    return fit(line(*parts), width)


def _pool(seen: Admission, width: int) -> list[Content]:
    label = 12
    shown = seen.candidates[: max(width - label - 1, 1)]
    more = "…" if len(shown) < len(seen.candidates) else ""
    ids = {request: i for i, request in enumerate(dict.fromkeys(sorted(c.request for c in seen.candidates)))}
    bars: list[Part] = [(cell("survival", label), "$muted")]
    sent: list[Part] = [(cell("sent", label), "$muted")]
    whose: list[Part] = [(cell("request", label), "$muted")]
    place: list[Part] = [(cell("position", label), "$muted")]
    for c in shown:
        style = "$draft" if c.is_admitted else "$cut"
        bars.append((level(c.survival), style))
        sent.append(("●" if c.is_admitted else "·", style))
        whose.append((_letter(ids[c.request]), SERIES[ids[c.request] % len(SERIES)].style))
        place.append((f"{c.position % 10}", "$muted"))
    return [fit(line(*row, more), width) for row in (bars, sent, whose, place)]


def _letter(index: int) -> str:
    return "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"[index % 52]


def _figures(seen: Admission, width: int, height: int) -> list[Content]:
    if not seen.throughput:
        return [line(("this run carries no capacity curve, so Theta cannot be drawn", "$muted"))]
    side = width // 3 if width >= 100 else 0
    legend = line(
        *((CUT.glyph, CUT.style), (" sent  ", "$muted"), (STOP.glyph, STOP.style), (" early stop  ", "$muted")),
        *((BEST.glyph, BEST.style), (" maximum of the whole path", "$muted")),
    )
    left = [*_theta(seen, width - side - 2 if side else width, height - 1), legend]
    if not side:
        return left
    right = _capacity(seen, side, height - 1)
    return [line(fit(a, width - side - 2), "  ", b) for a, b in zip(left, [*right, Content("")], strict=False)]


def _theta(seen: Admission, width: int, height: int) -> list[Content]:
    theta = seen.throughput
    low, high = min(theta), max(theta)
    margin = (high - low) * 0.08 or abs(high) * 0.1 or 1.0
    plot = Plot(
        width, height, (0, max(len(theta) - 1, 1)), (low - margin, high + margin),
        x_label="drafts admitted, in the order of the pool", y_label="Theta: expected tokens a second",
    )  # fmt: skip
    plot.curve(list(enumerate(theta)), "$draft")
    plot.rule_x(seen.num_admitted, "$correction")
    cut = min(seen.num_admitted, len(theta) - 1)
    for index, mark in ((seen.early_stop, STOP), (seen.best, BEST), (cut, CUT)):
        plot.points([(index, theta[index])], mark)
    return plot.lines()


def _capacity(seen: Admission, width: int, height: int) -> list[Content]:
    speeds = [speed for _, speed in seen.speed]
    sizes = [size for size, _ in seen.speed]
    low, high = min(speeds), max(speeds)
    margin = (high - low) * 0.08 or abs(high) * 0.1 or 1.0
    plot = Plot(
        width, height, (sizes[0], max(sizes[-1], sizes[0] + 1)), (low - margin, high + margin),
        x_label="B", y_label="steps a second",
    )  # fmt: skip
    plot.steps(list(seen.speed), "$draft")
    here = seen.base_tokens + seen.num_admitted
    return plot.rule_x(here, "$correction").points([(s, v) for s, v in seen.speed if s == here], CUT).lines()

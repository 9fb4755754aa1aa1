"""Losslessness: an audit bets against the target's law on every token; an honest composition never lets it get rich."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from sparkit_tui.ink import Part, bar, cell, fit, line, number
from sparkit_tui.model.audit import ALARM, Audit, AuditReading, Light
from sparkit_tui.palette import Mark
from sparkit_tui.plot import Plot
from sparkit_tui.screens.page import Hint, Page
from sparkit_tui.screens.round import waiting

if TYPE_CHECKING:
    from sparkit_tui.messages import LawKnown
    from sparkit_tui.model.session import Session

LAB = "lossless"
LIGHTS: dict[Light, tuple[str, str]] = {
    "green": ("●", "$green"),
    "amber": ("◐", "$amber"),
    "red": ("✖", "$red"),
    "grey": ("○", "$muted"),
}
TEXT, TOY = Mark("●", "$draft"), Mark("▲", "$correction")


class LosslessScreen(Page):
    """The e-value, the lights, and the exact law of a toy."""

    mode = "lossless"
    title_text = "Lossless"
    short_title = "Lossless"
    idea = "If tokens follow the target, no bet against it pays; a rising one is proof."
    kind = "verifier"
    channel = LAB
    hints: ClassVar[tuple[Hint, ...]] = (
        ("a", "Appendix A with lookahead", "app.start_lab('rejection')"),
        ("g", "the same, coupled", "app.start_lab('coupled')"),
    )
    explained = (
        (
            "e-value",
            "what one coin staked against the target's law would have grown to; fair play keeps its mean at 1.",
        ),
        ("1000", "with an honest composition the e-value ever reaches 1000 with a chance of at most 1 in 1000."),
        ("✖ red", "e >= 1000: shown lossy, whatever was declared; or a coupled text that left its seed's plain text."),
        ("◐ amber", "declared lossy, and not yet shown."),
        ("● green", "declared lossless and below 1000; or schedule-invariant and equal to the seed's plain text."),
        ("tokens", "audited tokens: each round's block up to and with the token that closed it."),
        (
            "exact law",
            "the output law of the toy model, every branch of the same engine enumerated, beside the target's.",
        ),
        (
            "Appendix A",
            "two tokens and a scheduler that looks ahead: it sends B more rarely than A, and A comes out too often.",
        ),
        ("list", "one line a composition that ran in this session; changing a part starts a new audit."),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "app.start_lab('rejection')", "Appendix A with lookahead"),
        Binding("g", "app.start_lab('coupled')", "the same, coupled"),
    ]

    def draw(self, width: int, height: int) -> Sequence[Content]:
        """The whole figure."""
        return draw(self.session, width, height)


def draw(session: Session, width: int, height: int) -> list[Content]:
    """Lights, plot, laws, list."""
    run, lab = session.run(), session.run(LAB)
    if run is None:
        return waiting(width)
    audits = [("text", run.audit, TEXT)] + ([("toy", lab.audit, TOY)] if lab is not None else [])
    lights = [line_ for name, audit, mark in audits for line_ in _light(name, audit, mark, width)]
    old = [*session.channel(LAB).old_audits, *session.channel("main").old_audits]
    table = _list(old, width)[: max(height // 4, 2)]
    law = session.channel(LAB).laws[0] if session.channel(LAB).laws else None
    side = 44 if width >= 100 else 0
    room = height - len(lights) - len(table) - 2
    figure = _plot(audits, width - side - 2 if side else width, room if side else max(room - 4, 6))
    laws = _law(law, side or width)
    if side:
        laws += [Content("")] * (len(figure) - len(laws))
        body = [line(fit(a, width - side - 2), "  ", b) for a, b in zip(figure, laws, strict=False)]
    else:
        body = [*figure, *laws[: room - len(figure)]]
    return [*lights, Content(""), *body, Content(""), *table]


def _light(name: str, audit: Audit, mark: Mark, width: int) -> list[Content]:
    glyph, style = LIGHTS[audit.light]
    head: list[Part] = [
        (f" {glyph} {audit.light.upper():<6}", f"bold reverse {style}"),
        " ",
        (audit.verdict, f"bold {style}"),
    ]
    facts = f"e = {e_value(audit.log_e)} after {audit.num_tokens} audited tokens"
    second: list[Part] = [
        ("   ", ""),
        (mark.glyph, mark.style),
        (f" {name}: ", "$muted"),
        (audit.header.label, "bold"),
        ("   " + facts, "$muted"),
    ]
    return [fit(line(*head), width), fit(line(*second), width)]


def e_value(log_e: float) -> str:
    """An e-value from its natural logarithm, readable at any size."""
    return f"{2.718281828459045**log_e:.3g}" if abs(log_e) < 13 else f"10^{log_e / log(10):.1f}"


def _plot(audits: Sequence[tuple[str, Audit, Mark]], width: int, height: int) -> list[Content]:
    paths = [[(n, e / log(10)) for n, e in audit.path] for _, audit, _ in audits]
    top = max(4.0, max(e for path in paths for _, e in path) * 1.05)
    low = min(-2.0, min(e for path in paths for _, e in path))
    most = max(20, max(n for path in paths for n, _ in path))
    plot = Plot(width, height, (0, most), (low, top), x_label="audited tokens", y_label="e-value, powers of ten")
    plot.rule_y(ALARM / log(10), "$red", " 1000: shown lossy ").rule_y(0, "$rule")
    for path, (_, _, mark) in zip(paths, audits, strict=True):
        plot.curve(path, mark.style).points(path[-1:], mark)
    return plot.lines()


def _law(law: LawKnown | None, width: int) -> list[Content]:
    if law is None:
        words = "Press a: the model of Appendix A under a scheduler that looks ahead; its exact law appears here."
        return Content.styled(words, "$muted").wrap(max(width, 1))
    size = max(width - 24, 4)
    rows = [
        line(
            ("exact law of two words: ", "bold"),
            ("the target's own" if law.is_equal else "not the target's", "$green" if law.is_equal else "bold $red"),
        )
    ]
    for token, target, output in zip(law.tokens, law.target, law.output, strict=True):
        rows += [
            line(
                (cell(token, 5), "bold"), ("target ", "$muted"), f"{number(target, 4)} ", (bar(target, size), "$plain")
            ),
            line(
                (cell("", 5), ""),
                ("output ", "$muted"),
                f"{number(output, 4)} ",
                (bar(output, size), "$draft" if law.is_equal else "$red"),
            ),
        ]
    return [*rows, line((law.label, "$muted"))]


def _list(audits: Sequence[AuditReading], width: int) -> list[Content]:
    rows = [line(("earlier compositions", "$muted"))] if audits else []
    for one in audits:
        glyph, style = LIGHTS[one.light]
        facts = f"e = {e_value(one.log_e):<10} {one.num_tokens:>6} tokens  "
        rows.append(fit(line((f" {glyph} {one.light:<6}", style), facts, (one.label, "bold")), width))
    return rows

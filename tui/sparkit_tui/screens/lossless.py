"""Losslessness: an audit bets against the target's law on every token; an honest composition never lets it get rich."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from sparkit_tui.ink import Part, bar, beside, cell, count, line, number, within
from sparkit_tui.messages import MAIN
from sparkit_tui.model.audit import ALARM, Audit, AuditReading, Light
from sparkit_tui.palette import Mark
from sparkit_tui.plot import Plot
from sparkit_tui.screens.chrome import Hint, hint
from sparkit_tui.screens.page import Page

if TYPE_CHECKING:
    from sparkit_tui.messages import LawKnown
    from sparkit_tui.model.run import Run
    from sparkit_tui.model.session import Session

SIDE = 46  # cells of the law and the list
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
        hint("a", "Appendix A with lookahead", "screen.start('rejection')"),
        hint("g", "the same, coupled", "screen.start('coupled')"),
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
        Binding("a", "screen.start('rejection')", "Appendix A with lookahead"),
        Binding("g", "screen.start('coupled')", "the same, coupled"),
    ]

    def draw(self, width: int, height: int) -> Sequence[Content]:
        """The whole figure."""
        return draw(self.session, self.run, width, height)

    def action_start(self, verifier: str) -> None:
        """Appendix A under a scheduler that looks ahead."""
        self.host.launch(LAB, self.host.lab.appendix_a(verifier), float("inf"))


def draw(session: Session, run: Run, width: int, height: int) -> list[Content]:
    """Lights, plot, the toy's law, earlier compositions."""
    lab = session.run(LAB)
    audits = [("text", run.audit, TEXT)] + ([("toy", lab.audit, TOY)] if lab is not None else [])
    is_wide = width >= 100
    lights = [row for name, audit, mark in audits for row in _light(name, audit, mark, width, is_wide)]
    past = _list([*session.channel(LAB).old_audits, *session.channel(MAIN).old_audits], is_wide)
    law = _law(next(iter(session.channel(LAB).laws), None), SIDE if is_wide else width, is_wide)
    room = height - len(lights) - 1
    if is_wide:
        figure = _plot(audits, width - SIDE - 2, room)
        return [*lights, Content(""), *beside([(figure, width - SIDE - 2), ([*law, Content(""), *past], SIDE)])[:room]]
    below = [*law, *past[:3]]
    return [*lights, Content(""), *_plot(audits, width, room - len(below)), *below]


def _light(name: str, audit: Audit, mark: Mark, width: int, is_tall: bool) -> list[Content]:
    glyph, style = LIGHTS[audit.light]
    head: list[Part] = [
        (f" {glyph} {audit.light.upper():<6}", f"bold reverse {style}"),
        *(" ", (mark.glyph, mark.style), (f" {name}  ", "$muted")),
        (audit.verdict, f"bold {style}"),
    ]
    facts = f"   e = {e_value(audit.log_e)} after {count(audit.num_tokens, 'audited token')}"
    composed = within([("             ", ""), (audit.header.label, "bold"), (facts, "$muted")], width)
    return [*line(*head).wrap(max(width, 1)), *([composed] if is_tall else [])]


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


def _law(law: LawKnown | None, width: int, is_tall: bool) -> list[Content]:
    if law is None:
        words = "Press a: the model of Appendix A under a scheduler that looks ahead; its exact law appears here."
        return Content.styled(words, "$muted").wrap(max(width, 1))
    judged = ("the target's own", "$green") if law.is_equal else ("not the target's", "bold $red")
    rows = [line(("exact law of two words: ", "bold"), judged)]
    ink = "$draft" if law.is_equal else "$red"
    for token, target, output in zip(law.tokens, law.target, law.output, strict=True):
        size = max(width - 23, 4) if is_tall else max((width - 42) // 2, 4)
        asked = line(("target ", "$muted"), f"{number(target, 4)} ", (bar(target, size), "$plain"))
        given = line(("output ", "$muted"), f"{number(output, 4)} ", (bar(output, size), ink))
        name = (cell(token, 5), "bold")
        rows += [line(name, asked), line(" " * 5, given)] if is_tall else [line(name, asked, "  ", given)]
    return rows


def _list(audits: Sequence[AuditReading], is_tall: bool) -> list[Content]:
    rows = [line(("earlier compositions", "$muted"))] if audits else []
    for one in audits:
        glyph, style = LIGHTS[one.light]
        light, facts = (f" {glyph} {one.light:<6}", style), f"e = {e_value(one.log_e):<8} {one.num_tokens:>6} tokens"
        label = (one.label, "bold")
        rows += [line(light, facts), line("   ", label)] if is_tall else [line(light, facts, "  ", label)]
    return rows

"""Collision: two good answers, and a drafter that mixes their halves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from sparkit_tui.ink import Part, bar, cell, fit, line, number
from sparkit_tui.model.collision import Collision, JointLaw, collision_of, rows
from sparkit_tui.palette import MARKS
from sparkit_tui.screens.page import Hint, Page

if TYPE_CHECKING:
    from sparkit_tui.model.run import Run
    from sparkit_tui.model.session import Session

COLLISION = "collision"
STEP = 0.05


class CollisionScreen(Page):
    """Marginals against conditionals of one table."""

    mode = "collision"
    title_text = "Collision"
    short_title = "Collide"
    idea = "“of course”, “no problem”: drafted in the dark they become “of problem”."
    kind = "drafter"
    channel = COLLISION
    hints: ClassVar[tuple[Hint, ...]] = (
        ("←→", "shift the table", "app.shift_table(1)"),
        ("enter", "decode with both drafters", "app.start_collision"),
    )
    explained = (
        (
            "target",
            "the table: how often the target says each pair. Everything else on this screen is computed from it.",
        ),
        (
            "parallel",
            "each position drawn from its own marginal, blind to the word before: the product of the marginals.",
        ),
        ("semi-autoregressive", "the second word drawn from its law given the first: the table itself."),
        ("struck through", "pairs that the target never says; a parallel drafter still proposes them."),
        ("acceptance", "the chance that draft k is accepted if the one before was: the overlap of the two laws."),
        ("tau", "expected tokens of a round of two drafts: 1 + a1 + a1 * a2."),
        (
            "decoded",
            "the same engine decoding this table with both drafters: measured acceptance and tau beside the computed.",
        ),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "app.shift_table(-1)", "less of the first answer"),
        Binding("right", "app.shift_table(1)", "more of the first answer"),
        Binding("enter", "app.start_collision", "decode with both drafters"),
    ]

    def draw(self, width: int, height: int) -> Sequence[Content]:
        """The whole figure."""
        return draw(self.session, self.host.table, width, height)


def draw(session: Session, table: JointLaw, width: int, height: int) -> list[Content]:
    """Three laws side by side or stacked, acceptance, what was decoded."""
    seen = collision_of(table)
    laws = (
        ("target", seen.target, "$plain"),
        ("parallel", seen.parallel, "$correction"),
        ("semi-autoregressive", seen.semi, "$draft"),
    )
    lines: list[Content] = []
    if width >= 110:
        size = width // 3 - 3
        blocks = [_law(seen, name, law, style, size) for name, law, style in laws]
        lines += [line(*(p for b in blocks for p in (fit(b[i], size), "   "))) for i in range(len(blocks[0]))]
    else:
        lines += _compact(seen, width)
    lines += [Content(""), *_acceptance(seen, width), Content("")]
    return lines + _decoded(session, width, max(height - len(lines), 0))


def _compact(seen: Collision, width: int) -> list[Content]:
    """The three laws as columns of one table."""
    size = max((width - 20) // 3, 8)
    columns = ((seen.target, "$plain"), (seen.parallel, "$correction"), (seen.semi, "$draft"))
    heads = "".join(cell(name, size) for name in ("target", "parallel", "semi-autoregressive"))
    lines = [line(" " * 20, (heads, "bold"))]
    for pair, _, is_said in rows(seen, seen.target):
        text = " ".join(pair)
        parts: list[Part] = ["  ", (text, "" if is_said else "strike $rejected"), " " * max(18 - len(text), 1)]
        for law, style in columns:
            drawn = bar(law[pair], max(size - 7, 2))
            parts += [f"{number(law[pair])} ", (drawn, style if is_said else "$rejected"), "  "]
        lines.append(line(*parts))
    return lines


def _law(seen: Collision, name: str, law: JointLaw, style: str, width: int) -> list[Content]:
    size = max(width - 27, 4)
    lines = [line((name, "bold"))]
    for (a, b), mass, is_said in rows(seen, law):
        collides = not is_said and mass > 0
        word = "strike $rejected" if collides else "" if mass > 0 else "$cut"
        text = f"{a} {b}"
        pad = " " * max(18 - len(text), 1)
        lines.append(
            line("  ", (text, word), pad, f"{number(mass)} ", (bar(mass, size), "$rejected" if collides else style))
        )
    return lines


def _acceptance(seen: Collision, width: int) -> list[Content]:
    lines = [fit(line((f"{'acceptance of draft':<24}{'1':>8}{'2':>8}{'tau':>8}", "$muted")), width)]
    for name, (first, second) in (
        ("parallel", seen.parallel_acceptance),
        ("semi-autoregressive", seen.semi_acceptance),
    ):
        tau = 1 + first + first * second
        lines.append(
            fit(line((cell("  " + name, 24), "bold"), f"{number(first):>8}{number(second):>8}{number(tau):>8}"), width)
        )
    share = f"{100 * seen.impossible:.0f}% of the parallel drafts are pairs the target never says"
    return [*lines, fit(line(("  " + share, "$rejected")), width)]


def _decoded(session: Session, width: int, height: int) -> list[Content]:
    lanes = session.channel(COLLISION).lanes
    if not lanes:
        return [line(("Press enter: the engine decodes this table with both drafters.", "$muted"))][:height]
    lines: list[Content] = []
    for name, run in lanes.items():
        lines += [fit(_measured(name, run), width), *_pairs(run, width, max(height // len(lanes) - 2, 1)), Content("")]
    return lines[:height]


def _measured(name: str, run: Run) -> Content:
    rates = [number(r) for r in run.tally.conditional_acceptance()[:2]]
    facts = f"  {run.tally.num_rounds} rounds, measured acceptance {' and '.join(rates)}, tau {number(run.tally.tau)}"
    return line((name, "bold"), (facts, "$muted"))


def _pairs(run: Run, width: int, height: int) -> list[Content]:
    """The newest rounds as drafted pairs, the rejected words struck through, and what was said instead."""
    parts: list[Part] = []
    for step in list(run.steps)[-height * max(width // 24, 1) :]:
        for round_ in step.decoding[:1]:
            words = [
                (run.header.pieces[t], MARKS["accepted" if k < round_.accepted else "rejected"].style)
                for k, t in enumerate(round_.drafted)
            ]
            parts += [
                "  ",
                *(p for word in words for p in (word, " ")),
                (MARKS[round_.origin].glyph, MARKS[round_.origin].style.replace("underline ", "")),
                " ",
            ]
    return line(*parts).wrap(max(width, 1))[-height:]

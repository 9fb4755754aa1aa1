"""Collision: two good answers, and a drafter that mixes their halves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from sparkit_tui.ink import Part, bar, beside, cell, fit, line, number, piece
from sparkit_tui.model.collision import Collision, JointLaw, collision_of, rows
from sparkit_tui.palette import MARKS
from sparkit_tui.screens.chrome import Hint, hint
from sparkit_tui.screens.page import Page, arrows

if TYPE_CHECKING:
    from sparkit.rounds import Round
    from sparkit_tui.model.header import Pieces
    from sparkit_tui.model.run import Run
    from sparkit_tui.model.session import Session

COLLISION = "collision"
COURSE, PROBLEM = ("of", "course"), ("no", "problem")
TABLE: JointLaw = {COURSE: 0.55, PROBLEM: 0.45}  # where the screen starts
STEP = 0.05
SPEED = 8.0  # rounds a second of the two decoders
PAIR, CELL = 10, 22  # cells of a pair of words, and of a drafted pair with its mark


class CollisionScreen(Page):
    """Marginals against conditionals of one table."""

    mode = "collision"
    title_text = "Collision"
    short_title = "Collide"
    idea = "“of course”, “no problem”: drafted in the dark they become “of problem”."
    kind = "drafter"
    channel = COLLISION
    needs_run = False
    hints: ClassVar[tuple[Hint, ...]] = (
        arrows("shift the table", "screen.shift(-1)", "screen.shift(1)"),
        hint("enter", "decode with both drafters", "screen.start"),
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
        Binding("left", "screen.shift(-1)", "less of the first answer"),
        Binding("right", "screen.shift(1)", "more of the first answer"),
        Binding("enter", "screen.start", "decode with both drafters"),
    ]

    def draw(self, width: int, height: int) -> Sequence[Content]:
        """The whole figure."""
        return draw(self.session, self.host.table, width, height)

    def action_start(self) -> None:
        """The table decoded with both drafters."""
        self.host.launch(COLLISION, self.host.lab.collision(self.host.table), SPEED)

    def action_shift(self, by: int) -> None:
        """Moves weight between the two answers."""
        table = self.host.table
        first = min(max(table.get(COURSE, 0.0) / sum(table.values()) + by * STEP, 0.05), 0.95)
        self.host.table = {COURSE: round(first, 4), PROBLEM: round(1 - first, 4)}
        self.paint()


def draw(session: Session, table: JointLaw, width: int, height: int) -> list[Content]:
    """Three laws side by side, acceptance, what was decoded."""
    seen = collision_of(table)
    laws = (
        ("target", seen.target, "$plain"),
        ("parallel", seen.parallel, "$correction"),
        ("semi-autoregressive", seen.semi, "$draft"),
    )
    blocks = [(_law(seen, name, law, style, width // 3 - 2), width // 3 - 2) for name, law, style in laws]
    lines = [*beside(blocks, "   "), Content(""), *_acceptance(seen, width), Content("")]
    return lines + _decoded(session, width, max(height - len(lines), 0))


def _law(seen: Collision, name: str, law: JointLaw, style: str, width: int) -> list[Content]:
    lines = [line((name, "bold"))]
    for pair, mass, is_said in rows(seen, law):
        collides = not is_said and mass > 0
        word = "strike $rejected" if collides else "" if mass > 0 else "$cut"
        text = cell(" ".join(pair), PAIR).rstrip()
        drawn = bar(mass, max(width - PAIR - 6, 4))
        ink = "$rejected" if collides else style
        lines.append(line((text, word), " " * (PAIR + 1 - len(text)), f"{number(mass)} ", (drawn, ink)))
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
    """The newest rounds as drafted pairs, the rejected words struck through, and the origin of the token after them."""
    columns = max(width // CELL, 1)
    rounds = [round_ for step in run.steps for round_ in step.decoding[:1]][-height * columns :]
    return [
        line(*(_pair(run.header.pieces, r) for r in rounds[i : i + columns])) for i in range(0, len(rounds), columns)
    ]


def _pair(pieces: Pieces, round_: Round) -> Content:
    parts: list[Part] = ["  "]
    for k, token in enumerate(round_.drafted):
        style = MARKS["accepted" if k < round_.accepted else "rejected"].style
        parts += [(piece(pieces[token]).strip(), style), " "]
    mark = MARKS[round_.origin]
    return fit(line(*parts, (mark.glyph, mark.ink)), CELL)

"""The round: the text as it grows, and below it the block that was just drafted, cut, accepted and rejected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from sparkit_tui.ink import Part, beside, fit, line, link, number, piece
from sparkit_tui.model.cells import glyphs
from sparkit_tui.palette import MARKS
from sparkit_tui.screens import inspect as inspection
from sparkit_tui.screens.block import block_lines
from sparkit_tui.screens.chrome import Hint, hint
from sparkit_tui.screens.overlays import Inspector
from sparkit_tui.screens.page import Page, arrows, waiting
from sparkit_tui.screens.told import told

if TYPE_CHECKING:
    from sparkit.rounds import Round
    from sparkit_tui.model.header import Pieces
    from sparkit_tui.model.run import Passage, Run
    from sparkit_tui.model.session import Session

STOPS = {"length": "ended: length limit", "stop": "ended: stop", "cancelled": "cancelled"}


class RoundScreen(Page):
    """Guess and verify, one round at a time."""

    mode = "round"
    title_text = "Round"
    short_title = "Round"
    idea = "The drafter guesses a block; the target checks it in one pass."
    kind = "drafter"
    hints: ClassVar[tuple[Hint, ...]] = (
        Hint((("[", "app.move('request', -1)"), (" ]", "app.move('request', 1)")), "request"),
        arrows("round", "app.move('round', -1)", "app.move('round', 1)", "↑↓"),
        arrows("cell", "app.move('cell', -1)", "app.move('cell', 1)"),
        hint("enter", "inspect", "screen.inspect"),
    )
    explained = (
        ("text", "the prompt, then every committed token in the colour and style of its origin."),
        ("● draft", "a draft token the target accepted."),
        (
            "▲ correction",
            "drawn from the residual max(0, p_target - p_draft) after a rejection; it replaces the draft.",
        ),
        ("◆ bonus", "drawn from p_target after a block was accepted whole; it costs nothing extra."),
        ("○ plain", "drawn from p_target without any draft: the prompt's own token, and undrafted steps."),
        ("struck through", "drafts of the last round that were rejected or never sent, where they would have stood."),
        ("p_draft", "the probability under which the drafter really drew this token."),
        (
            "raw",
            "sigmoid of the confidence logit: how sure the drafter was that this token is accepted if its prefix is.",
        ),
        ("calibrated", "the same after the calibrator; this is what the scheduler works with."),
        ("survival", "the product of the calibrated confidences so far: the chance that the whole prefix is accepted."),
        ("plan", "sent: the target saw this token; cut: the scheduler judged it not worth its place in the batch."),
        ("p_target", "the target's probability of the drafted token; unknown where nothing was sent."),
        ("verdict", "accepted with probability min(1, p_target / p_draft); behind the first rejection all is moot."),
        ("tau", "tokens committed per round, the closing token included."),
        ("+n", "tokens this round added to the text."),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "app.move('round', -1)", "older round"),
        Binding("down", "app.move('round', 1)", "newer round"),
        Binding("pageup", "app.move('round', -10)", "ten rounds older", show=False),
        Binding("pagedown", "app.move('round', 10)", "ten rounds newer", show=False),
        Binding("home", "app.move('round', -100000)", "first round", show=False),
        Binding("end", "app.move('round', 100000)", "follow the newest round", show=False),
        Binding("left", "app.move('cell', -1)", "previous cell"),
        Binding("right", "app.move('cell', 1)", "next cell"),
        Binding("enter", "screen.inspect", "inspect the cell"),
    ]

    def draw(self, width: int, height: int) -> Sequence[Content]:
        """The whole figure."""
        return draw(self.session, self.run, width, height)

    def on_mouse_scroll_up(self) -> None:
        """Older rounds."""
        self.host.action_move("round", -1)

    def on_mouse_scroll_down(self) -> None:
        """Newer rounds."""
        self.host.action_move("round", 1)

    def action_press_cell(self, index: int) -> None:
        """The clicked draft position; a second click inspects it."""
        if self.session.selection.cell == index:
            self.action_inspect()
        self.session.select_cell(index)
        self.paint()

    def action_inspect(self) -> None:
        """The three laws at the selected position."""
        self.session.pin()
        self.app.push_screen(Inspector(lambda width: inspection.draw(self.session, width)))


def draw(session: Session, run: Run, width: int, height: int) -> list[Content]:
    """Text above, cells below, history under or beside them."""
    request = session.shown_request()
    if request is None:
        return waiting(width)
    seen, round_ = run.passages[request], session.shown_round()
    block, legend, rule = block_lines(run.header, round_, session.selection, width), legend_line(width), _rule(width)
    room = max(height - len(block) - 2, 6)
    if width >= 150:
        side = max(46, width // 3)
        text = text_lines(run, seen, width - side - 3, room)
        past = history_lines(run, seen, round_, side, room)
        blank = [Content("")] * (room - len(text))
        return [*beside([(text + blank, width - side - 3), (past, side)], (" │ ", "$rule")), legend, rule, *block]
    num_past = max(3, (room - 4) // 2)
    text = text_lines(run, seen, width, room - num_past)
    blank = [Content("")] * (room - num_past - len(text))
    return [*text, *blank, legend, *block, rule, *history_lines(run, seen, round_, width, num_past)]


def _rule(width: int) -> Content:
    return line(("─" * width, "$rule"))


def legend_line(width: int) -> Content:
    """The origins, by glyph, colour and style."""
    parts: list[Part] = []
    for name in ("draft", "correction", "bonus", "plain"):
        parts += [(MARKS[name].glyph, MARKS[name].ink), " ", (name, MARKS[name].style), "   "]
    parts += [("rejected", MARKS["rejected"].style), "  ", ("moot or not sent", MARKS["cut"].style)]
    return fit(line(*parts), width)


def text_lines(run: Run, seen: Passage, width: int, height: int) -> list[Content]:
    """The request's title and the tail of its text."""
    active = run.active()
    place = f"{active.index(seen.request) + 1} of {len(active)}" if seen.request in active else "ended"
    facts = [f"request {seen.request} ({place})", seen.label, f"{len(seen.tokens)} tokens", f"tau {number(seen.tau)}"]
    title = " · ".join(filter(None, (*facts, STOPS.get(seen.stop_reason or "", ""))))
    return [fit(line((title, "bold $secondary")), width), *told(seen, run.header.pieces, width, height - 1)]


def history_lines(run: Run, seen: Passage, shown: Round | None, width: int, height: int) -> list[Content]:
    """Rounds of the request, newest first, the shown one marked and in view."""
    rounds = list(seen.rounds)
    index = next((i for i in reversed(range(len(rounds))) if rounds[i] is shown), len(rounds) - 1)
    last = min(len(rounds), max(index + 1 + (height - 1) // 2, height))
    last = max(last, index + 1) if index < len(rounds) - 1 else len(rounds)
    window = rounds[max(last - height, 0) : last]
    return [fit(_history_line(run.header.pieces, r, r is shown), width) for r in reversed(window)]


def _history_line(pieces: Pieces, round_: Round, is_shown: bool) -> Content:
    blocks: list[Part] = [(MARKS[name].glyph, MARKS[name].ink) for name in glyphs(round_)]
    text: list[Part] = [(piece(pieces[token.id]), MARKS[token.origin].style) for token in round_.tokens]
    marker = ("▸", "bold $primary") if is_shown else " "
    opens = link(f"{round_.step:>5} ", "$muted", f"app.open_round({round_.step})")
    return line(marker, opens, *blocks, (f" +{len(round_.tokens):<2} ", "bold"), *text)

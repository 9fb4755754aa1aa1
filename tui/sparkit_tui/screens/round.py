"""The round: the text as it grows, and below it the block that was just drafted, cut, accepted and rejected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from sparkit_tui.ink import Part, bar, cell, fit, level, line, link, number, passage, piece
from sparkit_tui.model.cells import Cell, cells_of, glyphs
from sparkit_tui.model.run import spans
from sparkit_tui.palette import MARKS
from sparkit_tui.screens.page import Hint, Page

if TYPE_CHECKING:
    from sparkit.rounds import Round
    from sparkit_tui.model.header import Header, Pieces
    from sparkit_tui.model.run import Passage, Run
    from sparkit_tui.model.session import Selection, Session

LABEL = 13  # cells of the row names
CLOSING = 16  # cells of the token that closes the round
LEAST, MOST = 7, 15  # cells of a draft position
NUM_ROWS = 9
VERDICTS = {
    "accepted": "✓ accepted",
    "rejected": "✗ rejected",
    "after": "· moot",
    "cut": "┄ not sent",
    "unsaid": "■ past stop",
}
SHORT = {"accepted": "✓ acc.", "rejected": "✗ rej.", "after": "· moot", "cut": "┄ cut", "unsaid": "■ stop"}


class RoundScreen(Page):
    """Guess and verify, one round at a time."""

    mode = "round"
    title_text = "Round"
    short_title = "Round"
    idea = "The drafter guesses a block; the target checks it in one pass."
    kind = "drafter"
    hints: ClassVar[tuple[Hint, ...]] = (
        ("[ ]", "request", "app.request(1)"),
        ("↑↓", "round", "app.round(-1)"),
        ("←→", "cell", "app.cell(1)"),
        ("enter", "inspect", "app.inspect"),
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
        Binding("up", "app.round(-1)", "older round"),
        Binding("down", "app.round(1)", "newer round"),
        Binding("pageup", "app.round(-10)", "ten rounds older", show=False),
        Binding("pagedown", "app.round(10)", "ten rounds newer", show=False),
        Binding("home", "app.round(-100000)", "first round", show=False),
        Binding("end", "app.round(100000)", "follow the newest round", show=False),
        Binding("left", "app.cell(-1)", "previous cell"),
        Binding("right", "app.cell(1)", "next cell"),
        Binding("enter", "app.inspect", "inspect the cell"),
    ]

    def draw(self, width: int, height: int) -> Sequence[Content]:
        """The whole figure."""
        return draw(self.session, width, height)

    def on_mouse_scroll_up(self) -> None:
        """Older rounds."""
        self.host.action_round(-1)

    def on_mouse_scroll_down(self) -> None:
        """Newer rounds."""
        self.host.action_round(1)


def draw(session: Session, width: int, height: int) -> list[Content]:
    """Text above, cells below, history under or beside them."""
    run, request = session.run(), session.shown_request()
    if run is None or request is None:
        return waiting(width)
    seen, round_ = run.passages[request], session.shown_round()
    block = block_lines(run.header, round_, session.selection, width)
    legend = legend_line(width)
    if width >= 150:
        side = max(46, width // 3)
        left = text_lines(run, seen, width - side - 3, height - len(block) - 2)
        right = history_lines(run, seen, round_, side, height - len(block) - 2)
        top = _columns(left, right, width - side - 3, height - len(block) - 2)
        return [*top, legend, _rule(width), *block]
    num_history = min(max(3, (height - len(block)) // 3), 12)
    room = max(height - len(block) - num_history - 2, 3)
    text = text_lines(run, seen, width, room)
    text += [Content("")] * (room - len(text))
    return [*text, legend, *block, _rule(width), *history_lines(run, seen, round_, width, num_history)]


def waiting(width: int) -> list[Content]:
    """Before the first round."""
    return [
        Content(""),
        fit(line(("  Loading the models in the background: the first token comes in a few seconds.", "$muted")), width),
    ]


def _columns(left: list[Content], right: list[Content], width: int, height: int) -> list[Content]:
    blank = Content("")
    rows = []
    for i in range(height):
        one = left[i] if i < len(left) else blank
        two = right[i] if i < len(right) else blank
        rows.append(line(fit(one, width), (" │ ", "$rule"), two))
    return rows


def _rule(width: int) -> Content:
    return line(("─" * width, "$rule"))


def legend_line(width: int) -> Content:
    """The origins, by glyph, colour and style."""
    parts: list[Part] = []
    for name in ("draft", "correction", "bonus", "plain"):
        mark = MARKS[name]
        parts += [
            (mark.glyph, mark.style.replace("underline ", "").replace("italic ", "")),
            " ",
            (name, mark.style),
            "   ",
        ]
    parts += [("rejected", MARKS["rejected"].style), "  ", ("moot or not sent", MARKS["cut"].style)]
    return fit(line(*parts), width)


def text_lines(run: Run, seen: Passage, width: int, height: int) -> list[Content]:
    """The request's title and the tail of its text."""
    active = run.active()
    place = f"{active.index(seen.request) + 1} of {len(active)}" if seen.request in active else "ended"
    facts = [f"request {seen.request} ({place})", seen.label, f"{len(seen.tokens)} tokens", f"tau {number(seen.tau)}"]
    stop = {"length": "ended: length limit", "stop": "ended: stop", "cancelled": "cancelled"}.get(
        seen.stop_reason or "", ""
    )
    title = line((" · ".join(f for f in (*facts, stop) if f), "bold $secondary"))
    parts = [(text, MARKS[name].style) for text, name in spans(seen, run.header, most=width * height)]
    return [fit(title, width), *passage(parts, width, height - 1)]


def block_lines(header: Header, round_: Round | None, selection: Selection, width: int) -> list[Content]:
    """The round as a row of cells, always the same height."""
    if round_ is None:
        return [Content("")] * (NUM_ROWS + 1)
    lines = [fit(_block_title(header, round_, selection), width)]
    if round_.kind == "drafted":
        return lines + _cells(header, round_, selection.cell, width)
    why = {
        "prefill": "The prompt went through the target in one pass; its last row gave the first token.",
        "undrafted": "The scheduler drafted nothing in this step: one plain token from the target.",
    }[round_.kind]
    first = line((f"{MARKS['plain'].glyph} ", MARKS["plain"].style), *_closing_token(header.pieces, round_))
    lines += [Content(""), fit(line(("  " + why, "$muted")), width), Content(""), line("  ", first)]
    return lines + [Content("")] * (NUM_ROWS + 1 - len(lines))


def _closing_token(pieces: Pieces, round_: Round) -> list[Part]:
    return [(f"“{piece(pieces[round_.next_token])}”", MARKS[round_.origin].style)]


def _block_title(header: Header, round_: Round, selection: Selection) -> Content:
    anchor = piece(header.pieces[round_.anchor])
    ms = f"{round_.seconds.total * 1e3:.1f} ms"
    parts: list[Part] = [
        (f"step {round_.step}", "bold"),
        ("  anchor ", "$muted"),
        f"“{anchor}” at {round_.anchor_position}",
    ]
    if round_.kind == "drafted":
        parts += [("  sent ", "$muted"), f"{round_.verify_len} of {len(round_.drafted)}"]
        parts += [("  accepted ", "$muted"), f"{round_.accepted}", ("  +", "$muted"), f"{len(round_.tokens)} tokens"]
    parts += [(f"  {round_.batch_tokens} rows in the batch, {ms}", "$muted")]
    if round_.is_probe:
        parts += [("  probe: all sent to keep the calibration honest", "$amber")]
    if selection.pinned is not None:
        parts += [("  past round, end follows", "$amber")]
    return line(*parts)


def _cells(header: Header, round_: Round, selected: int, width: int) -> list[Content]:
    cells = cells_of(round_)
    room = width - LABEL - CLOSING
    size = min(max(room // max(len(cells), 1), LEAST), MOST)
    num = min(len(cells), max(room // size, 1))
    first = min(max(selected - num + 1, 0), len(cells) - num)
    shown = cells[first : first + num]
    more = ("‹" if first else " ", "›" if first + num < len(cells) else " ")
    return [
        _row(name, values, shown, selected, size, closing)
        for name, values, closing in _table(header, round_, shown, size - 1, more)
    ]


def _row(
    name: str, values: list[tuple[str, str]], shown: Sequence[Cell], selected: int, size: int, closing: list[Part]
) -> Content:
    parts: list[Part] = [(cell(name, LABEL), "$muted")]
    for one, (text, style) in zip(shown, values, strict=True):
        chosen = " on $panel" if one.position - 1 == selected else ""
        select = f"app.select_cell({one.position - 1})"
        padded = cell(text, size - 1)
        shown_text = padded.rstrip()  # a strike belongs to the text, not to the blanks behind it
        parts.append(link(shown_text, f"{style}{chosen}", select))
        if len(shown_text) < len(padded):
            parts.append(link(padded[len(shown_text) :], f"$foreground{chosen}", select))
        parts.append(" ")
    return line(*parts, *closing)


def _table(
    header: Header, round_: Round, shown: Sequence[Cell], room: int, more: tuple[str, str]
) -> list[tuple[str, list[tuple[str, str]], list[Part]]]:
    def gauge(value: float) -> str:
        return f"{number(value):<5}{bar(value, room - 5) if room >= 9 else level(value)}"

    def column(read: str, style: str) -> list[tuple[str, str]]:
        return [(gauge(getattr(c, read)), style if c.is_scheduled else "$cut") for c in shown]

    def verdict(c: Cell) -> tuple[str, str]:
        return (VERDICTS if room >= 10 else SHORT)[c.verdict], MARKS[c.verdict].style.replace("strike ", "")

    closing = _closing(header, round_)
    return [
        (f"{more[0]} position", [(f"{c.position}", "$muted") for c in shown], [(more[1], "bold"), *closing[0]]),
        ("  draft", [(piece(header.pieces[c.token]), MARKS[c.verdict].style) for c in shown], closing[1]),
        ("  p_draft", column("p_draft", ""), closing[2]),
        ("  raw", column("raw", "$muted"), []),
        ("  calibrated", column("confidence", ""), []),
        ("  survival", column("survival", "$draft"), []),
        ("  plan", [("sent", "") if c.is_scheduled else ("cut", "$cut") for c in shown], []),
        ("  p_target", [(gauge(c.p_target), "") for c in shown], []),
        ("  verdict", [verdict(c) for c in shown], []),
    ]


def _closing(header: Header, round_: Round) -> tuple[list[Part], list[Part], list[Part]]:
    mark = MARKS[round_.origin]
    plain = mark.style.replace("underline ", "")
    if len(round_.tokens) <= round_.accepted:
        return [("", "")], [(" ■ text ended", "$muted")], [("", "")]
    token = piece(header.pieces[round_.next_token])
    source = "from residual" if round_.origin == "correction" else "from p_target"
    return (
        [(f"{mark.glyph} {round_.origin}", plain)],
        [" ", (cell(token, CLOSING - 2).rstrip(), mark.style)],
        [(f" {source}", "$muted")],
    )


def history_lines(run: Run, seen: Passage, shown: Round | None, width: int, height: int) -> list[Content]:
    """Rounds of the request, newest first, the shown one marked and in view."""
    rounds = list(seen.rounds)
    index = next((i for i, r in enumerate(rounds) if r is shown), len(rounds) - 1)
    last = min(len(rounds), max(index + 1 + (height - 1) // 2, height))
    last = max(last, index + 1) if index < len(rounds) - 1 else len(rounds)
    window = rounds[max(last - height, 0) : last]
    return [fit(_history_line(run.header.pieces, r, r is shown), width) for r in reversed(window)]


def _history_line(pieces: Pieces, round_: Round, is_shown: bool) -> Content:
    blocks: list[Part] = [(MARKS[name].glyph, _plain(name)) for name in glyphs(round_)]
    text: list[Part] = [(piece(pieces[token.id]), MARKS[token.origin].style) for token in round_.tokens]
    marker = ("▸", "bold $primary") if is_shown else " "
    count = f" +{len(round_.tokens):<2} "
    return line(marker, (f"{round_.step:>5} ", "$muted"), *blocks, (count, "bold"), *text)


def _plain(name: str) -> str:
    return MARKS[name].style.replace("strike ", "").replace("underline ", "").replace("italic ", "")

"""The round as a row of gamma cells: what was drafted, how surely, what was sent, what the target said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.content import Content

from sparkit_tui.ink import Part, bar, cell, count, fit, level, line, link, number, piece, within
from sparkit_tui.model.cells import Cell, cells_of
from sparkit_tui.palette import MARKS

if TYPE_CHECKING:
    from sparkit.rounds import Round
    from sparkit_tui.model.header import Header, Pieces
    from sparkit_tui.model.session import Selection

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
WHY_PLAIN = {
    "prefill": "The prompt went through the target in one pass; its last row gave the first token.",
    "undrafted": "The scheduler drafted nothing for this request in this step: one plain token from the target.",
}


def block_lines(header: Header, round_: Round | None, selection: Selection, width: int) -> list[Content]:
    """The round as a row of cells, always the same height."""
    if round_ is None:
        return [Content("")] * (NUM_ROWS + 1)
    lines = [_block_title(header, round_, selection, width)]
    if round_.kind == "drafted":
        return lines + _cells(header, round_, selection.cell, width)
    why = WHY_PLAIN[round_.kind]
    first = line((f"{MARKS['plain'].glyph} ", MARKS["plain"].ink), *_closing_token(header.pieces, round_))
    lines += [Content(""), fit(line(("  " + why, "$muted")), width), Content(""), line("  ", first)]
    return lines + [Content("")] * (NUM_ROWS + 1 - len(lines))


def _closing_token(pieces: Pieces, round_: Round) -> list[Part]:
    return [(f"“{piece(pieces[round_.next_token])}”", MARKS[round_.origin].style)]


def _block_title(header: Header, round_: Round, selection: Selection, width: int) -> Content:
    """What happened, the most telling first: a narrow screen leaves out whole facts."""
    facts: list[Part] = [(f"step {round_.step}", "bold")]
    if selection.pinned is not None:
        facts += [("  past round, end follows", "$amber")]
    if round_.kind == "drafted":
        facts += [_fact("sent", f"{round_.verify_len} of {len(round_.drafted)}"), _fact("accepted", round_.accepted)]
        facts += [_fact("committed", len(round_.tokens))]
    if round_.is_probe:
        facts += [("  probe", "$amber")]
    anchor = piece(header.pieces[round_.anchor])
    facts += [
        _fact("anchor", f"“{anchor}” at {round_.anchor_position}"),
        _fact("batch", count(round_.batch_tokens, "token")),
    ]
    return within([*facts, _fact("took", f"{round_.seconds.total * 1e3:.1f} ms")], width)


def _fact(name: str, value: object) -> Content:
    return line((f"  {name} ", "$muted"), str(value))


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
        select = f"screen.press_cell({one.position - 1})"
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
        return (VERDICTS if room >= 10 else SHORT)[c.verdict], MARKS[c.verdict].ink

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
    if len(round_.tokens) <= round_.accepted:
        return [("", "")], [(" ■ text ended", "$muted")], [("", "")]
    token = piece(header.pieces[round_.next_token])
    source = "from residual" if round_.origin == "correction" else "from p_target"
    return (
        [(f"{mark.glyph} {round_.origin}", mark.ink)],
        [" ", (cell(token, CLOSING - 2).rstrip(), mark.style)],
        [(f" {source}", "$muted")],
    )

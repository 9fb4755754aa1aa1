"""One cell in full: the five largest of p_draft, p_target and the residual side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from sparkit_tui.ink import Part, bar, beside, cell, fit, line, number, piece
from sparkit_tui.model.cells import Cell, cells_of, top_at
from sparkit_tui.palette import MARKS

if TYPE_CHECKING:
    from sparkit.rounds import Round
    from sparkit_tui.model.header import Header, Pieces
    from sparkit_tui.model.session import Session

Entries = tuple[tuple[int, float], ...]


def draw(session: Session, width: int) -> list[Content]:
    """The selected cell of the shown round; its lines are few, so only the width matters."""
    run, round_ = session.run(), session.shown_round()
    if run is None or round_ is None:
        return [Content("no round yet")]
    cells = cells_of(round_)
    if not cells:
        return [line(("this round drafted nothing: ", "$muted"), round_.kind)]
    one = cells[min(session.selection.cell, len(cells) - 1)]
    lines = [*_facts(run.header, round_, one), Content("")]
    top = top_at(round_, one.position - 1)
    if top is None:
        return [*lines, line(("this run does not carry the largest entries of its laws", "$muted"))]
    return [fit(x, width) for x in (*lines, *_laws(run.header.pieces, top.draft, top.target, top.residual, one, width))]


def _facts(header: Header, round_: Round, one: Cell) -> list[Content]:
    mark = MARKS[one.verdict]
    label = "$muted"
    token = piece(header.pieces[one.token])
    return [
        line(
            (f"step {round_.step}  request {round_.request}  position {one.position} of {len(round_.drafted)}", "bold")
        ),
        Content(""),
        line(
            ("draft ", label),
            (f"“{token}”", mark.style),
            "   ",
            (f"{mark.glyph} {one.verdict}", mark.ink),
        ),
        line(
            *(
                ("p_draft ", label),
                f"{number(one.p_draft, 4)}   ",
                ("p_target ", label),
                f"{number(one.p_target, 4)}   ",
            ),
            *(
                ("accept_prob ", label),
                f"{number(one.accept_prob, 4)}   ",
                ("accept_rate ", label),
                number(one.accept_rate, 4),
            ),
        ),
        line(
            *(("raw ", label), f"{number(one.raw, 4)}   ", ("calibrated ", label), f"{number(one.confidence, 4)}   "),
            *(("survival ", label), number(one.survival, 4)),
        ),
    ]


def _laws(
    pieces: Pieces, draft: Entries, target: Entries | None, residual: Entries | None, one: Cell, width: int
) -> list[Content]:
    size = max((width - 4) // 3, 18)
    columns = [
        _law("p_draft", draft, pieces, one.token, size, "$draft"),
        _law("p_target", target, pieces, one.token, size, "$bonus"),
        _law("residual", residual, pieces, one.token, size, "$correction"),
    ]
    return beside([(column, size) for column in columns])


def _law(name: str, entries: Entries | None, pieces: Pieces, token: int, size: int, style: str) -> list[Content]:
    if entries is None:
        rows = [line(("the target did not judge", "$muted")), line(("this position", "$muted"))]
    else:
        rows = [_entry(piece(pieces[i]), p, i == token, size, style) for i, p in entries]
    return [line((name, "bold")), *rows[:5]]


def _entry(text: str, prob: float, is_drafted: bool, size: int, style: str) -> Content:
    word = max(min(size // 3, 14), 6)
    parts: list[Part] = [("▸" if is_drafted else " ", style), (cell(text, word), "bold" if is_drafted else "")]
    return line(*parts, f" {number(prob, 3)} ", (bar(prob, max(size - word - 8, 2)), style))

"""A round as a row of gamma cells: what was drafted, how sure the drafter was, what was sent, what the target said."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, nan
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from sparkit.rounds import Round, TopTokens

Verdict = Literal["accepted", "rejected", "after", "cut", "unsaid"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One draft position; nan where nothing is known."""

    position: int  # 1-based, as the paper prints it
    token: int
    p_draft: float
    raw: float  # sigmoid of the confidence logit
    confidence: float  # calibrated
    survival: float
    is_scheduled: bool
    verdict: Verdict  # after: behind the first rejection; unsaid: accepted, but the text had stopped
    p_target: float  # nan past the cut
    accept_prob: float  # min(1, p_target / p_draft)
    accept_rate: float  # 1 - TV [DSpark eq. 8]; known one position past the cut


def sigmoid(logit: float) -> float:
    """1 / (1 + e^-x) without overflow."""
    if logit >= 0:
        return 1 / (1 + exp(-logit))
    return exp(logit) / (1 + exp(logit)) if logit > -700 else 0.0


def verdict_of(round_: Round, k: int) -> Verdict:
    """What became of draft k (0-based)."""
    if k >= round_.verify_len:
        return "cut"
    if k < round_.accepted:
        return "accepted" if k < len(round_.tokens) else "unsaid"
    return "rejected" if k == round_.accepted else "after"


def cells_of(round_: Round) -> tuple[Cell, ...]:
    """The cells of a drafted round; () when nothing was drafted."""
    return tuple(_cell(round_, k) for k in range(len(round_.drafted)))


def _cell(round_: Round, k: int) -> Cell:
    p_draft, p_target = _at(round_.p_draft, k), _at(round_.p_target, k)
    return Cell(
        position=k + 1,
        token=round_.drafted[k],
        p_draft=p_draft,
        raw=sigmoid(_at(round_.logits, k)) if k < len(round_.logits) else nan,
        confidence=_at(round_.confidence, k),
        survival=_at(round_.survival, k),
        is_scheduled=k < round_.verify_len,
        verdict=verdict_of(round_, k),
        p_target=p_target,
        accept_prob=min(1.0, p_target / p_draft) if p_draft > 0 else (1.0 if p_target > 0 else 0.0),
        accept_rate=_at(round_.accept_rate, k),
    )


def _at(values: tuple[float, ...], k: int) -> float:
    return values[k] if k < len(values) else nan


def top_at(round_: Round, k: int) -> TopTokens | None:
    """The largest entries of the three laws at a position, when the round carries them."""
    return round_.top[k] if k < len(round_.top) else None


def glyphs(round_: Round) -> tuple[str, ...]:
    """The round's verdicts in order, then the origin of the token that closed it."""
    if round_.kind != "drafted":
        return ("plain",)
    closing = (round_.origin,) if len(round_.tokens) > round_.accepted else ()
    return (*(verdict_of(round_, k) for k in range(len(round_.drafted))), *closing)

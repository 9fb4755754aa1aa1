"""What a step leaves behind: committed tokens, rolled-back caches, features for the drafter, numbers for the rounds.

Everything a round reports is read back from the device in one piece, so a step waits for the device as often with 256
requests as with one.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sparkit.acceptance import rows_of
from sparkit.engine import flat, laws, stops
from sparkit.engine.evidence import Evidence, evidence, top_columns, top_tokens
from sparkit.engine.inbox import Letter
from sparkit.engine.requests import Sequence
from sparkit.protocols import Span
from sparkit.rounds import Origin, Token, TopTokens

if TYPE_CHECKING:
    from sparkit.engine.engine import Engine
    from sparkit.engine.steps import Step


@dataclass(frozen=True, slots=True)
class Reading:
    """One request's numbers of a drafted step, as plain values."""

    accepted: int
    next_token: int
    is_bonus: bool
    floor: int
    ceiling: int
    is_probe: bool
    tokens: list[int]  # really proposed
    columns: dict[str, list[float]]  # by name, gamma values each
    top: tuple[TopTokens, ...]


@dataclass(slots=True)  # never changed; see `Letter`
class Committed:
    """What one sequence emitted in a step."""

    sequence: Sequence
    span: Span
    anchor: int
    tokens: tuple[Token, ...]
    stop_reason: str | None
    reading: Reading | None  # None: prefill or undrafted
    is_prefill: bool


SINGLE = 6
"""Numbers of a request that stand before its columns."""
COLUMNS = ("p_draft", "p_target", "logits", "confidence", "survival", "accept_rate", "chosen", "mass")


def commit(engine: "Engine", step: "Step") -> list[Committed]:
    """Commits every row of a step; sequences that end give their slot back."""
    drafted: list[Reading | None] = [*_read(engine, step)] if step.draft is not None else []
    readings = drafted + [None] * len(step.resting)
    plain = _read_plain(step)
    done, row = [], 0
    for sequence, span, reading in zip(step.decoding, step.spans, readings, strict=False):
        kept = 0 if reading is None else reading.accepted
        candidates = [Token(plain.pop(0), "plain")] if reading is None else _candidates(reading)
        done.append(_commit_row(engine, step, sequence, span, row, kept, candidates, reading))
        row += span.count
    for sequence, span in step.chunks:
        done += _commit_chunk(engine, step, sequence, span, row, plain)
        row += span.count
    return done


def _read_plain(step: "Step") -> list[int]:
    """Tokens of resting and prefill rows; a row without a law is marked on the device: no other wait for it."""
    if step.plain is None or step.p_plain is None:
        return []
    ids: list[int] = torch.where(step.p_plain[:, 0].isnan(), -1, step.plain).tolist()
    if -1 in ids:
        laws.blame(step.p_plain, flat.plain_rows(step), [1] * len(ids))
    return ids


def _candidates(reading: Reading) -> list[Token]:
    origin: Origin = "bonus" if reading.is_bonus else "correction"
    drafts = [Token(token, "draft") for token in reading.tokens[: reading.accepted]]
    return [*drafts, Token(reading.next_token, origin)]


def _commit_row(
    engine: "Engine",
    step: "Step",
    sequence: Sequence,
    span: Span,
    row: int,
    kept: int,
    candidates: list[Token],
    reading: Reading | None,
) -> Committed:
    anchor = sequence.tokens[-1]
    emitted, reason = _emit(engine, sequence, candidates)
    if reason is None:
        engine.cache.truncate(span.slot, span.start + 1 + kept)
        _remember(engine, step, span.slot, row, 1 + kept)
    return Committed(sequence, span, anchor, emitted, reason, reading, is_prefill=False)


def _commit_chunk(
    engine: "Engine", step: "Step", sequence: Sequence, span: Span, row: int, plain: list[int]
) -> list[Committed]:
    _remember(engine, step, span.slot, row, span.count)
    if span.start + span.count < len(sequence.request.prompt):
        return []
    anchor = sequence.tokens[-1]
    emitted, reason = _emit(engine, sequence, [Token(plain.pop(0), "plain")])
    return [Committed(sequence, span, anchor, emitted, reason, None, is_prefill=True)]


def _emit(engine: "Engine", sequence: Sequence, candidates: list[Token]) -> tuple[tuple[Token, ...], str | None]:
    emitted, reason = stops.cut(candidates, sequence.text, sequence.request, sequence.remaining, engine.decode)
    sequence.text += emitted
    sequence.tokens += [token.id for token in emitted]
    if reason is not None:
        engine.retire(sequence, reason)
    return emitted, reason


def _remember(engine: "Engine", step: "Step", slot: int, row: int, count: int) -> None:
    if engine.parts.drafter is not None and step.features is not None:
        engine.inbox.add(slot, Letter(step.features, row, count))


def _read(engine: "Engine", step: "Step") -> list[Reading]:
    assert step.draft is not None and step.plan is not None and step.verdict is not None
    assert step.p_target is not None and step.limits is not None and step.decisions is not None
    seen = evidence(step.draft, step.plan, step.verdict, step.p_target)
    step.evidence = seen
    gamma = step.draft.tokens.shape[1]
    verdict, limits = step.verdict, step.limits
    lawless = step.p_target[:, 0].isnan()  # one nan logit makes its whole row nan
    next_token = torch.where(lawless[rows_of(step.plan, gamma + 1)].any(1), -1, verdict.next_token)
    proposed = torch.full_like(limits.ceiling, gamma) if step.draft.lengths is None else step.draft.lengths
    single = (verdict.accepted, next_token, verdict.is_bonus, limits.floor, limits.ceiling, proposed)
    blocks = _blocks(step, seen)
    num = min(engine.top_tokens, step.p_target.shape[1])
    if num:
        blocks.append(top_columns(step.draft, step.plan, step.p_target, num))
    packed = torch.cat([*(x[:, None] for x in single), blocks[0].double(), *blocks[1:]], dim=1).tolist()  # all float64
    if any(values[1] < 0 for values in packed):
        laws.blame(step.p_target, step.drafting, [1 + num for num in step.verify_len])
    return [
        _reading(values, gamma, num, verify_len) for values, verify_len in zip(packed, step.verify_len, strict=True)
    ]


def _blocks(step: "Step", seen: Evidence) -> list[Tensor]:
    assert step.draft is not None and step.logits is not None
    assert step.confidence is not None and step.survival is not None
    judged = [step.logits, step.confidence, step.survival, seen.accept_rate, seen.chosen, seen.mass]
    return [step.draft.tokens, seen.p_draft, seen.p_target, *judged]


def _reading(values: list[float], gamma: int, num_top: int, verify_len: int) -> Reading:
    accepted, next_token, is_bonus, floor, ceiling, proposed = (int(v) for v in values[:SINGLE])
    parts = [values[SINGLE + i * gamma : SINGLE + (i + 1) * gamma] for i in range(1 + len(COLUMNS))]
    columns = dict(zip(COLUMNS, parts[1:], strict=True))
    tokens = [int(v) for v in parts[0][:proposed]]
    top = top_tokens(values[SINGLE + (1 + len(COLUMNS)) * gamma :], num_top, verify_len) if num_top else ()
    return Reading(accepted, next_token, bool(is_bonus), floor, ceiling, floor > 0, tokens, columns, top)

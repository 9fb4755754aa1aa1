"""The phases of one engine step: ask who drafts, draft, plan, verify, commit, learn [method section 2].

    anchors + admitted drafts, resting anchors, prefill chunks  ->  one ragged target forward  ->  verdicts  ->  rounds

Nothing is re-derived between phases: the plan's rows are the verifier's rows are the features' rows.
"""

from collections.abc import Sequence as Row
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sparkit.decisions import Decisions, Purpose
from sparkit.engine import flat, laws, outcome, reporting, short
from sparkit.engine.evidence import Evidence
from sparkit.engine.parts import Memories, sized, who_drafts
from sparkit.engine.requests import Sequence
from sparkit.protocols import Anchors, Span
from sparkit.rounds import Draft, Limits, Plan, Round, Verdict
from sparkit.survival import survival_of

if TYPE_CHECKING:
    from sparkit.engine.engine import Engine


@dataclass(slots=True)
class Step:
    """What one step has found out so far; filled phase by phase."""

    number: int
    drafting: list[Sequence]  # rows of all that follows, up to the verdict
    chunks: list[tuple[Sequence, Span]]  # prefill
    resting: list[Sequence] = field(default_factory=list)  # they decode one token plainly
    limits: Limits | None = None
    seeds: Int[Tensor, " R"] | None = None
    anchors: Int[Tensor, " R"] | None = None
    decisions: Decisions | None = None
    draft: Draft | None = None
    logits: Float[Tensor, "R gamma"] | None = None
    confidence: Float[Tensor, "R gamma"] | None = None
    survival: Float[Tensor, "R gamma"] | None = None
    plan: Plan | None = None
    verify_len: list[int] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    p_target: Float[Tensor, "B V"] | None = None
    p_plain: Float[Tensor, "P V"] | None = None
    features: Float[Tensor, "B taps_d"] | None = None
    verdict: Verdict | None = None
    evidence: Evidence | None = None
    plain: Int[Tensor, " P"] | None = None  # tokens of undrafted and prefill rows

    @property
    def decoding(self) -> list[Sequence]:
        """Everything that has an anchor, those that draft first."""
        return [*self.drafting, *self.resting]

    @property
    def batch_tokens(self) -> int:
        """B of this step, prefill included."""
        return sum(span.count for span in self.spans)

    @property
    def base_tokens(self) -> int:
        """Tokens in the step whatever the plan: one anchor a decoding sequence, and the prefill."""
        return len(self.decoding) + sum(span.count for _, span in self.chunks)


def run(engine: "Engine") -> list[Round]:
    """One step; the engine's sequences, caches and memories move on."""
    begun = engine.clock()
    step = _open(engine)
    opened = engine.clock()
    if step.drafting:
        _select(engine, step)
    if step.drafting:
        _propose(engine, step)
    proposed = engine.clock()
    if step.draft is not None:
        _plan(engine, step)
    planned = engine.clock()
    _verify(engine, step)
    verified = engine.clock()
    done = outcome.commit(engine, step)
    phases = (proposed - opened, planned - proposed, verified - planned)
    return reporting.report(engine, step, done, begun, phases)


def _open(engine: "Engine") -> Step:
    step = Step(engine.num_steps, engine.decoding(), _chunks(engine))
    if step.drafting:
        step.limits = _limits(engine, step)
    return step


def _chunks(engine: "Engine") -> list[tuple[Sequence, Span]]:
    room, chunks = engine.prefill_chunk, []
    for sequence in engine.prefilling():
        start = engine.cache.lengths[sequence.slot]
        count = min(room, len(sequence.request.prompt) - start)
        if count > 0:
            chunks.append((sequence, Span(sequence.slot, start, count)))
            room -= count
    return chunks


def _limits(engine: "Engine", step: Step) -> Limits:
    """Of the rows that draft."""
    ceiling = torch.tensor([min(s.remaining - 1, engine.gamma) for s in step.drafting], device=engine.device)
    return Limits(step.base_tokens, torch.zeros_like(ceiling), ceiling, engine.token_budget, len(step.resting))


def _bind(engine: "Engine", step: Step) -> None:
    """Addresses and decisions of the rows that draft."""
    device, rows = engine.device, step.drafting
    step.seeds = torch.tensor([s.request.seed for s in rows], dtype=torch.int64, device=device)
    step.anchors = torch.tensor([s.anchor_position for s in rows], dtype=torch.int64, device=device)
    step.decisions = engine.parts.verifier.source.at(step.seeds, step.anchors)


def _select(engine: "Engine", step: Step) -> None:
    """Sends those to rest that shall not draft; what the others need is laid out once it is known who they are."""
    parts, rows = engine.parts, step.drafting
    assert step.limits is not None
    if parts.drafter is None:
        chosen: Row[bool] = (False,) * len(rows)
    else:
        ids = tuple(s.id for s in rows)
        chosen = who_drafts(parts.scheduler, engine.memories.scheduler, ids, step.limits, parts.capacity)
    if not all(chosen):
        step.drafting = [s for s, drafts in zip(rows, chosen, strict=True) if drafts]
        step.resting = [s for s, drafts in zip(rows, chosen, strict=True) if not drafts]
        step.limits = _limits(engine, step) if step.drafting else None
    if step.drafting:
        _bind(engine, step)


def _propose(engine: "Engine", step: Step) -> None:
    drafter, device, rows = engine.parts.drafter, engine.device, step.drafting
    assert drafter is not None and step.limits is not None and step.decisions is not None
    assert step.anchors is not None and step.seeds is not None
    engine.inbox.deliver(drafter, {s.slot: s.tokens for s in rows}, device)
    ids, memory = tuple(s.id for s in rows), engine.memories.scheduler
    step.limits = sized(engine.parts.scheduler, memory, ids, step.limits, engine.parts.capacity, engine.gamma)
    width = step.limits.block_len or engine.gamma
    anchors = Anchors(
        tokens=torch.tensor([s.tokens[-1] for s in rows], dtype=torch.int64, device=device),
        positions=step.anchors,
        spans=tuple(Span(s.slot, s.anchor_position, width) for s in rows),
        params=tuple(s.request.params for s in rows),
        contexts=tuple(s.tokens for s in rows),
        history=laws.history(rows, engine.parts.target.vocab_size, device),
    )
    # Whether a round is a probe is decided before its draft exists, by its own addressed decision.
    probes = engine.parts.calibrator.floor(engine.memories.calibrator, step.anchors, step.decisions)
    step.draft = drafter.propose(anchors, step.decisions)
    ceiling = step.limits.ceiling
    if step.draft.lengths is not None:
        ceiling = torch.minimum(ceiling, step.draft.lengths)
    step.limits = replace(step.limits, floor=torch.minimum(probes.to(ceiling), ceiling), ceiling=ceiling)


def _plan(engine: "Engine", step: Step) -> None:
    parts, memories = engine.parts, engine.memories
    assert step.draft is not None and step.limits is not None
    step.logits = parts.confidence.logits(step.draft, memories.confidence)
    if step.draft.tokens.shape[1] < engine.gamma:
        step.draft, step.logits = short.filled(step.draft, step.logits, engine.gamma)
    step.confidence = parts.calibrator.calibrate(step.logits, memories.calibrator)
    step.survival = survival_of(step.confidence)
    step.plan, memory = parts.scheduler.plan(step.survival, parts.capacity, step.limits, memories.scheduler)
    engine.memories = Memories(memories.confidence, memories.calibrator, memory)


def _verify(engine: "Engine", step: Step) -> None:
    parts, lengths = engine.parts, engine.cache.lengths
    step.verify_len = step.plan.verify_len.tolist() if step.plan is not None else []
    step.spans = [Span(s.slot, lengths[s.slot], 1 + n) for s, n in zip(step.drafting, step.verify_len, strict=True)]
    step.spans += [Span(s.slot, lengths[s.slot], 1) for s in step.resting]
    step.spans += [span for _, span in step.chunks]
    rows = flat.asked_rows(step)
    out = parts.target.forward(flat.flat_tokens(engine, step), step.spans, engine.cache, rows)
    step.features = out.features
    num_judged = sum(1 + n for n in step.verify_len)
    sequences, drafts = flat.judged(step)
    law = laws.row_laws(out.logits, sequences, drafts)
    step.p_target, step.p_plain = law[:num_judged], law[num_judged:]
    if step.draft is not None:
        assert step.plan is not None and step.decisions is not None
        step.verdict = parts.verifier.verify(step.draft, step.plan, step.p_target, step.decisions)
    if len(step.p_plain):
        step.plain = _draw_plain(engine, step, step.p_plain)


def _draw_plain(engine: "Engine", step: Step, p_plain: Float[Tensor, "P V"]) -> Int[Tensor, " P"]:
    """Tokens without a draft: resting rows at their anchors, and each prefill's own token at its last position."""
    rows: Row[Sequence] = flat.plain_rows(step)
    seeds = torch.tensor([s.request.seed for s in rows], dtype=torch.int64, device=engine.device)
    anchors = torch.tensor([s.anchor_position for s in rows], dtype=torch.int64, device=engine.device)
    return engine.parts.verifier.source.at(seeds, anchors).draw(p_plain, Purpose.PLAIN, 1)

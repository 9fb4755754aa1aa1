"""What a step tells: the parts that learn hear of it first, then every request's `Round`.

Not done here: committing tokens and reading the numbers back (`sparkit.engine.outcome`).
"""

from functools import partial
from typing import TYPE_CHECKING

from sparkit.engine.outcome import Committed
from sparkit.engine.parts import Memories
from sparkit.rounds import Round, Rounds, Seconds

if TYPE_CHECKING:
    from sparkit.engine.engine import Engine
    from sparkit.engine.steps import Step


def report(
    engine: "Engine", step: "Step", done: list[Committed], begun: float, phases: tuple[float, float, float]
) -> list[Round]:
    """Lets the parts learn, then tells what happened."""
    _learn(engine, step, done, engine.clock() - begun)
    total = engine.clock() - begun
    seconds = Seconds(*phases, overhead=total - sum(phases))
    sizes = (step.batch_tokens, step.base_tokens)  # once a step: each is a sum over the batch
    return [_round(engine, step, one, seconds, sizes) for one in done]


def _learn(engine: "Engine", step: "Step", done: list[Committed], seconds: float) -> None:
    parts, memories = engine.parts, engine.memories
    if parts.drafter is None or not step.decoding:
        return
    if step.draft is None:
        num = sum(len(one.tokens) for one in done if not one.is_prefill)
        memory = parts.scheduler.observe_undrafted(memories.scheduler, num, len(step.decoding), seconds)
        engine.memories = Memories(memories.confidence, memories.calibrator, memory)
        return
    rounds = _rounds(step, seconds)
    engine.memories = Memories(
        parts.confidence.observe(memories.confidence, rounds),
        parts.calibrator.observe(memories.calibrator, rounds),
        parts.scheduler.observe(memories.scheduler, rounds),
    )


def _rounds(step: "Step", seconds: float) -> Rounds:
    assert step.draft is not None and step.plan is not None and step.verdict is not None
    assert step.logits is not None and step.confidence is not None and step.survival is not None
    assert step.limits is not None and step.anchors is not None and step.evidence is not None
    return Rounds(
        step.number,
        tuple(s.id for s in step.drafting),
        step.anchors,
        step.draft,
        step.logits,
        step.confidence,
        step.survival,
        step.limits,
        step.plan,
        step.verdict,
        step.evidence.accept_rate,
        seconds,
        tuple(s.id for s in step.resting),
    )


def _column(columns: dict[str, list[float]], gamma: int, name: str, num: int | None = None) -> tuple[float, ...]:
    return tuple(columns[name][: gamma if num is None else num]) if columns else ()


def _round(engine: "Engine", step: "Step", one: Committed, seconds: Seconds, sizes: tuple[int, int]) -> Round:
    gamma, reading = engine.gamma, one.reading
    verify_len = one.span.count - 1 if reading is not None else 0
    column = partial(_column, {} if reading is None else reading.columns, gamma)
    accepted, proposed = (0, 0) if reading is None else (reading.accepted, len(reading.tokens))
    audited = min(accepted + 1, gamma, len(one.tokens))
    if reading is None or engine.parts.verifier.schedule_invariant:
        audited = 0  # coupled noise: which block a token falls in depends on its own noise, the factor's mean is not 1

    return Round(
        request=one.sequence.id,
        step=step.number,
        kind="prefill" if one.is_prefill else "undrafted" if reading is None else "drafted",
        anchor=one.anchor,
        anchor_position=one.span.start + one.span.count - 1 if one.is_prefill else one.span.start,
        drafted=() if reading is None else tuple(reading.tokens),
        p_draft=column("p_draft", proposed),
        p_target=column("p_target", verify_len),
        logits=column("logits"),
        confidence=column("confidence"),
        survival=column("survival"),
        accept_rate=column("accept_rate", min(verify_len + 1, proposed)),
        verify_len=verify_len,
        floor=0 if reading is None else reading.floor,
        ceiling=0 if reading is None else reading.ceiling,
        is_probe=reading is not None and reading.is_probe,
        accepted=accepted,
        next_token=one.tokens[-1].id if reading is None else reading.next_token,
        origin="plain" if reading is None else "bonus" if reading.is_bonus else "correction",
        tokens=one.tokens,
        stop_reason=one.stop_reason,
        audit_chosen=tuple(bool(v) for v in column("chosen", audited)),
        audit_mass=column("mass", audited),
        num_requests=len(step.decoding),
        batch_tokens=sizes[0],
        base_tokens=sizes[1],
        seconds=seconds,
        top=() if reading is None else reading.top,
    )

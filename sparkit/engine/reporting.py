"""What a step tells: the parts that learn hear of it first, then every request's `Round`.

Not done here: committing tokens and reading the numbers back (`sparkit.engine.outcome`).
"""

from typing import TYPE_CHECKING, Any

from sparkit.engine.outcome import Committed, Reading
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
    sizes = (len(step.decoding), step.batch_tokens, step.base_tokens)  # once a step: each goes through the batch
    judged = [_UNDRAFTED if one.reading is None else _drafted(engine, one, one.reading) for one in done]
    return [_round(step, one, seconds, sizes, said) for one, said in zip(done, judged, strict=True)]


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


_UNDRAFTED: dict[str, Any] = {
    "drafted": (), "p_draft": (), "p_target": (), "logits": (), "confidence": (), "survival": (), "accept_rate": (),
    "verify_len": 0, "floor": 0, "ceiling": 0, "is_probe": False, "accepted": 0, "audit_chosen": (), "audit_mass": (),
    "top": (), "origin": "plain",
}  # fmt: skip
"""What a round without a draft says of it; the same for all of them, and most rounds of a busy server are such."""


def _round(
    step: "Step", one: Committed, seconds: Seconds, sizes: tuple[int, int, int], judged: dict[str, Any]
) -> Round:
    return Round(
        request=one.sequence.id,
        step=step.number,
        kind="prefill" if one.is_prefill else "undrafted" if one.reading is None else "drafted",
        anchor=one.anchor,
        anchor_position=one.span.start + one.span.count - 1 if one.is_prefill else one.span.start,
        next_token=one.tokens[-1].id if one.reading is None else one.reading.next_token,
        tokens=one.tokens,
        stop_reason=one.stop_reason,
        num_requests=sizes[0],
        batch_tokens=sizes[1],
        base_tokens=sizes[2],
        seconds=seconds,
        **judged,
    )


def _drafted(engine: "Engine", one: Committed, reading: Reading) -> dict[str, Any]:
    """What was proposed and what became of it, by the fields of a `Round`."""
    verify_len, proposed = one.span.count - 1, len(reading.tokens)
    audited = min(reading.accepted + 1, engine.gamma, len(one.tokens))
    if engine.parts.verifier.schedule_invariant:
        audited = 0  # coupled noise: which block a token falls in depends on its own noise, the factor's mean is not 1
    columns = {name: tuple(values) for name, values in reading.columns.items()}
    return {
        "drafted": tuple(reading.tokens),
        "p_draft": columns["p_draft"][:proposed],
        "p_target": columns["p_target"][:verify_len],
        "logits": columns["logits"],
        "confidence": columns["confidence"],
        "survival": columns["survival"],
        "accept_rate": columns["accept_rate"][: min(verify_len + 1, proposed)],
        "verify_len": verify_len,
        "floor": reading.floor,
        "ceiling": reading.ceiling,
        "is_probe": reading.is_probe,
        "accepted": reading.accepted,
        "origin": "bonus" if reading.is_bonus else "correction",
        "audit_chosen": tuple(bool(v) for v in columns["chosen"][:audited]),
        "audit_mass": columns["mass"][:audited],
        "top": reading.top,
    }

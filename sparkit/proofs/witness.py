"""Parts seen from outside: each call goes to the part itself; one that raises is named, with the input that did it.

The prover hands the engine these wrappers. They change nothing but two things: the verifier's `source` becomes the one
that enumerates, and an exception inside a part becomes a `PartError` (`sparkit.proofs.blame`).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from sparkit.capacity import Capacity
from sparkit.decisions import Decisions, DecisionSource
from sparkit.engine import Parts
from sparkit.engine.parts import block_lens, participants
from sparkit.proofs.blame import blaming
from sparkit.proofs.enumeration import Enumerated, Rows
from sparkit.proofs.paths import COUPLED
from sparkit.protocols import Anchors, Calibrator, Confidence, Drafter, Scheduler, Span, Verifier
from sparkit.rounds import Draft, Limits, Plan, Rounds, Verdict


class WitnessedVerifier:
    """A verifier with another source of decisions."""

    def __init__(self, part: Verifier, source: Enumerated) -> None:
        self.part, self.enumerated = part, source
        self.source: DecisionSource = source
        self.lossless, self.schedule_invariant = part.lossless, part.schedule_invariant

    def verify(self, draft: Draft, plan: Plan, p_target: Tensor, decisions: Decisions) -> Verdict:
        """See `Verifier`."""
        if isinstance(decisions, Rows):
            self.enumerated.judging(decisions, draft, plan)
        with blaming(self.part, "verify", draft=draft, plan=plan, p_target=p_target):
            return self.part.verify(draft, plan, p_target, decisions)


class WitnessedScheduler:
    """A scheduler whose faults are named."""

    def __init__(self, part: Scheduler) -> None:
        self.part = part
        self.lossless, self.batch_independent = part.lossless, part.batch_independent

    def start(self) -> Any:
        """See `Scheduler`."""
        with blaming(self.part, "start"):
            return self.part.start()

    def drafts(self, memory: Any, limits: Limits, capacity: Capacity) -> bool:
        """See `Scheduler`."""
        with blaming(self.part, "drafts", memory=memory, limits=limits):
            return self.part.drafts(memory, limits, capacity)

    def plan(self, survival: Tensor, capacity: Capacity, limits: Limits, memory: Any) -> tuple[Plan, Any]:
        """See `Scheduler`."""
        with blaming(self.part, "plan", survival=survival, limits=limits, memory=memory):
            return self.part.plan(survival, capacity, limits, memory)

    def participants(
        self, memory: Any, requests: Sequence[int], limits: Limits, capacity: Capacity
    ) -> tuple[bool, ...]:
        """See `Selecting`; everybody, of a scheduler without the method."""
        with blaming(self.part, "participants", memory=memory, requests=requests, limits=limits):
            return participants(self.part, memory, requests, limits, capacity)

    def block_lens(
        self, memory: Any, requests: Sequence[int], limits: Limits, capacity: Capacity, gamma: int
    ) -> tuple[int, ...] | None:
        """See `Sizing`; None, of a scheduler without the method."""
        with blaming(self.part, "block_lens", memory=memory, requests=requests, limits=limits):
            return block_lens(self.part, memory, requests, limits, capacity, gamma)

    def observe(self, memory: Any, rounds: Rounds) -> Any:
        """See `Scheduler`."""
        with blaming(self.part, "observe", memory=memory, rounds=rounds):
            return self.part.observe(memory, rounds)

    def observe_undrafted(self, memory: Any, num_tokens: int, num_requests: int, seconds: float) -> Any:
        """See `Scheduler`."""
        with blaming(self.part, "observe_undrafted", memory=memory, num_tokens=num_tokens):
            return self.part.observe_undrafted(memory, num_tokens, num_requests, seconds)


class WitnessedConfidence:
    """A confidence whose faults are named."""

    def __init__(self, part: Confidence) -> None:
        self.part = part
        self.lossless, self.batch_independent = part.lossless, part.batch_independent

    def start(self) -> Any:
        """See `Confidence`."""
        with blaming(self.part, "start"):
            return self.part.start()

    def logits(self, draft: Draft, memory: Any) -> Tensor:
        """See `Confidence`."""
        with blaming(self.part, "logits", draft=draft, memory=memory):
            return self.part.logits(draft, memory)

    def observe(self, memory: Any, rounds: Rounds) -> Any:
        """See `Confidence`."""
        with blaming(self.part, "observe", memory=memory, rounds=rounds):
            return self.part.observe(memory, rounds)


class WitnessedCalibrator:
    """A calibrator whose faults are named."""

    def __init__(self, part: Calibrator) -> None:
        self.part = part
        self.lossless, self.batch_independent = part.lossless, part.batch_independent

    def start(self) -> Any:
        """See `Calibrator`."""
        with blaming(self.part, "start"):
            return self.part.start()

    def calibrate(self, logits: Tensor, memory: Any) -> Tensor:
        """See `Calibrator`."""
        with blaming(self.part, "calibrate", logits=logits, memory=memory):
            return self.part.calibrate(logits, memory)

    def floor(self, memory: Any, anchors: Tensor, decisions: Decisions) -> Tensor:
        """See `Calibrator`."""
        with blaming(self.part, "floor", memory=memory, anchors=anchors):
            return self.part.floor(memory, anchors, decisions)

    def observe(self, memory: Any, rounds: Rounds) -> Any:
        """See `Calibrator`."""
        with blaming(self.part, "observe", memory=memory, rounds=rounds):
            return self.part.observe(memory, rounds)


class WitnessedDrafter:
    """A drafter whose faults are named."""

    def __init__(self, part: Drafter) -> None:
        self.part = part
        self.kind, self.lossless = part.kind, part.lossless
        self.gamma, self.feature_layers = part.gamma, part.feature_layers

    def prepare(self, num_slots: int, max_len: int) -> None:
        """See `Drafter`."""
        with blaming(self.part, "prepare", num_slots=num_slots, max_len=max_len):
            self.part.prepare(num_slots, max_len)

    def absorb(self, features: Tensor, tokens: Tensor, spans: Sequence[Span]) -> None:
        """See `Drafter`."""
        with blaming(self.part, "absorb", tokens=tokens, spans=spans):
            self.part.absorb(features, tokens, spans)

    def propose(self, anchors: Anchors, decisions: Decisions) -> Draft:
        """See `Drafter`."""
        with blaming(self.part, "propose", anchors=anchors):
            return self.part.propose(anchors, decisions)

    def forget(self, slot: int) -> None:
        """See `Drafter`."""
        with blaming(self.part, "forget", slot=slot):
            self.part.forget(slot)

    def save(self) -> Any:
        """See `Drafter`."""
        with blaming(self.part, "save"):
            return self.part.save()

    def load(self, state: Any) -> None:
        """See `Drafter`."""
        with blaming(self.part, "load"):
            self.part.load(state)


def witnessed(parts: Parts, source: Enumerated | None = None) -> Parts:
    """The same composition under enumeration.

    Args:
        parts: what ships.
        source: of decisions; None gives one that addresses as the verifier's own source does.
    """
    if source is None:
        source = Enumerated(COUPLED) if parts.verifier.schedule_invariant else Enumerated()
    return replace(
        parts,
        drafter=None if parts.drafter is None else WitnessedDrafter(parts.drafter),
        confidence=WitnessedConfidence(parts.confidence),
        calibrator=WitnessedCalibrator(parts.calibrator),
        scheduler=WitnessedScheduler(parts.scheduler),
        verifier=WitnessedVerifier(parts.verifier, source),
    )

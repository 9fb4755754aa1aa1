"""A policy decides recorded blocks: the real calibrator and scheduler, asked as the engine asks them.

One `step` is the engine's order without its models: drafts? -> floor -> calibrate -> plan -> verdict -> observe. The
verdict of a cut l is min(accepted, l); what the parts may learn is what the cut would have shown them.

    policy = Policy("greedy", sts, greedy, roofline())
    decided, memories = policy.step(batch, policy.start(), number=1)
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sparkit.capacity import Capacity
from sparkit.compose import make
from sparkit.curves import ANALYTIC
from sparkit.decisions import Addressed, Purpose, Until
from sparkit.engine.parts import sized, who_drafts
from sparkit.protocols import CALIBRATORS, SCHEDULERS, Calibrator, Scheduler
from sparkit.registry import parse_spec
from sparkit.rounds import Draft, Limits, Plan, Rounds, Verdict
from sparkit.survival import survival_of


@dataclass(frozen=True, slots=True)
class Batch:
    """The decoding requests of one step, and what would become of their blocks."""

    requests: tuple[int, ...]
    seeds: Int[Tensor, " R"]
    anchors: Int[Tensor, " R"]
    logits: Float[Tensor, "R gamma"]
    accepted: Int[Tensor, " R"]  # of the whole block
    accept_rate: Float[Tensor, "R gamma"]
    ceiling: Int[Tensor, " R"]
    base_tokens: int  # anchors and prefill

    num_resting: int = 0  # requests that are in `base_tokens` and in nothing else: they take a plain token

    def __len__(self) -> int:
        return len(self.requests)

    def take(self, rows: Int[Tensor, " N"]) -> "Batch":
        """Some of the requests; the others stay in `base_tokens`."""
        columns = ("seeds", "anchors", "logits", "accepted", "accept_rate", "ceiling")
        taken = {name: getattr(self, name)[rows] for name in columns}
        return replace(self, requests=tuple(self.requests[row] for row in rows.tolist()), **taken)


class Memories(NamedTuple):
    """What the two parts remember."""

    calibrator: Any
    scheduler: Any


@dataclass(frozen=True, slots=True)
class Decided:
    """One step under a policy; `seconds` are the curve's, not a clock's."""

    is_drafted: bool
    verify_len: Int[Tensor, " R"]
    accepted: Int[Tensor, " R"]
    confidence: Float[Tensor, "R gamma"] | None
    batch_tokens: int
    seconds: float

    def spread(self, rows: Int[Tensor, " N"], num: int) -> "Decided":
        """The same among `num` requests, of which only `rows` drafted; nobody knows the others' confidence."""

        def over(values: Tensor, fill: float) -> Tensor:
            return values.new_full((num, *values.shape[1:]), fill).index_copy(0, rows, values)

        confidence = None if self.confidence is None else over(self.confidence, torch.nan)
        verify_len, accepted = over(self.verify_len, 0.0), over(self.accepted, 0.0)
        return replace(self, verify_len=verify_len, accepted=accepted, confidence=confidence)


class _Later:
    """The addressed decisions of a step, hashed only when somebody asks."""

    def __init__(self, seeds: Int[Tensor, " R"], anchors: Int[Tensor, " R"]) -> None:
        self._seeds, self._anchors = seeds, anchors

    def draw(self, p: Float[Tensor, "R V"], purpose: Purpose, offset: int | Int[Tensor, " R"]) -> Int[Tensor, " R"]:
        return Addressed(self._seeds, self._anchors).draw(p, purpose, offset)

    def coins(self, prob: Float[Tensor, "R K"], purpose: Purpose, until: Until = "all") -> Bool[Tensor, "R K"]:
        return Addressed(self._seeds, self._anchors).coins(prob, purpose, until)


@dataclass(frozen=True, slots=True)
class Policy:
    """A calibrator and a scheduler on a capacity curve."""

    name: str
    calibrator: Calibrator
    scheduler: Scheduler
    capacity: Capacity
    token_budget: int | None = None

    def start(self) -> Memories:
        """Nothing seen."""
        return Memories(self.calibrator.start(), self.scheduler.start())

    def limits(self, batch: Batch, memories: Memories, num_resting: int = 0) -> Limits:
        """Ceilings and probes, known before the draft."""
        probes = self.calibrator.floor(memories.calibrator, batch.anchors, _Later(batch.seeds, batch.anchors))
        floor = torch.minimum(probes.to(batch.ceiling), batch.ceiling)
        return Limits(batch.base_tokens, floor, batch.ceiling, self.token_budget, batch.num_resting + num_resting)

    def step(self, batch: Batch, memories: Memories, number: int) -> tuple[Decided, Memories]:
        """Decides one step and learns from it."""
        before = Limits(batch.base_tokens, torch.zeros_like(batch.ceiling), batch.ceiling, self.token_budget)
        chosen = who_drafts(self.scheduler, memories.scheduler, batch.requests, before, self.capacity)
        if not any(chosen):
            return self._undrafted(batch, memories)
        if all(chosen):
            return self._drafted(batch, memories, number, ())
        rows = torch.tensor(chosen).nonzero()[:, 0]
        resting = tuple(request for request, drafts in zip(batch.requests, chosen, strict=True) if not drafts)
        decided, memories = self._drafted(batch.take(rows), memories, number, resting)
        return decided.spread(rows, len(batch)), memories

    def _drafted(
        self, batch: Batch, memories: Memories, number: int, resting: tuple[int, ...]
    ) -> tuple[Decided, Memories]:
        limits, gamma = self.limits(batch, memories, len(resting)), batch.logits.shape[1]
        limits = sized(self.scheduler, memories.scheduler, batch.requests, limits, self.capacity, gamma)
        confidence = self.calibrator.calibrate(batch.logits, memories.calibrator)
        survival = survival_of(confidence)
        plan, memory = self.scheduler.plan(survival, self.capacity, limits, memories.scheduler)
        accepted = torch.minimum(batch.accepted, plan.verify_len)
        batch_tokens = batch.base_tokens + int(plan.verify_len.sum())
        seconds = 1 / self.capacity.rounds_per_second(len(batch), batch_tokens, limits.block_len)
        seen = replace(_seen(batch, confidence, survival, limits, plan, accepted, number, seconds), resting=resting)
        calibrator = self.calibrator.observe(memories.calibrator, seen)
        scheduler = self.scheduler.observe(memory, seen)
        decided = Decided(True, plan.verify_len, accepted, confidence, batch_tokens, seconds)
        return decided, Memories(calibrator, scheduler)

    def _undrafted(self, batch: Batch, memories: Memories) -> tuple[Decided, Memories]:
        seconds = 1 / self.capacity.undrafted_rate(len(batch), batch.base_tokens)
        memory = self.scheduler.observe_undrafted(memories.scheduler, len(batch), len(batch), seconds)
        nothing = torch.zeros_like(batch.ceiling)
        decided = Decided(False, nothing, nothing, None, batch.base_tokens, seconds)
        return decided, Memories(memories.calibrator, memory)


def _seen(
    batch: Batch, confidence: Tensor, survival: Tensor, limits: Limits, plan: Plan, accepted: Tensor, number: int,
    seconds: float,
) -> Rounds:  # fmt: skip
    """What the engine would show its parts; tokens and laws are left empty: no part of a policy reads them."""
    num, gamma = batch.logits.shape
    tokens = torch.zeros(num, gamma, dtype=torch.int64)
    verdict = Verdict(accepted, torch.zeros_like(accepted), accepted == plan.verify_len)
    positions = torch.arange(gamma)
    is_judged = (positions <= plan.verify_len[:, None]) & (positions < (limits.block_len or gamma))
    soft = torch.where(is_judged, batch.accept_rate, torch.nan)
    draft = Draft(tokens, batch.logits.new_zeros(num, gamma, 1))
    return Rounds(
        number, batch.requests, batch.anchors, draft, batch.logits, confidence, survival, limits, plan, verdict, soft,
        seconds,
    )  # fmt: skip


def curve_of(spec: str) -> Capacity:
    """A capacity by name or file: roofline:..., staircase:..., flat, or what `sparkit profile` wrote.

    Raises:
        LookupError: for anything else.
    """
    if Path(spec).is_file():
        return Capacity.load(Path(spec))
    name, params = parse_spec(spec)
    if name not in ANALYTIC:
        raise LookupError(f"unknown capacity {spec!r}; known: {', '.join(ANALYTIC)}, or the path of a JSON")
    return ANALYTIC[name](**params)


def policy_of(
    scheduler: str, calibrator: str, capacity: Capacity, gamma: int, name: str | None = None,
    token_budget: int | None = None,
) -> Policy:  # fmt: skip
    """A policy by names."""
    context = {"gamma": gamma}
    parts = (make(CALIBRATORS, calibrator, context), make(SCHEDULERS, scheduler, context))
    return Policy(name or scheduler, *parts, capacity, token_budget)

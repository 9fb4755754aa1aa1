"""Many branches in one engine step: each branch is a world of its own requests, side by side in one ragged batch.

The engine, drafter, target and verifier see a batch of all worlds' requests, as they would see any batch. Confidence,
calibrator and scheduler, which look across a batch, are asked world by world, with that world's memory and limits; as
their memory is explicit they are functions, so the same question is put to them once. Only for table models, whose
caches hold nothing but lengths; `sparkit.proofs.exploration` needs no such thing, and the two agree (tested).
"""

from collections.abc import Sequence as Row
from typing import Any

import torch
from torch import Tensor

from sparkit.capacity import Capacity
from sparkit.decisions import Decisions
from sparkit.engine.parts import block_lens, who_drafts
from sparkit.proofs.blame import blaming
from sparkit.proofs.freezing import freeze
from sparkit.proofs.layout import Layout, Memo, Slices, key_of, limits_of, rows_of
from sparkit.protocols import Calibrator, Confidence, Scheduler
from sparkit.rounds import Draft, Limits, Plan, Rounds


class WorldConfidence:
    """A confidence asked world by world."""

    def __init__(self, part: Confidence, slices: Slices) -> None:
        self.part, self._slices, self._memo, self._observed = part, slices, Memo(), Memo()
        self.lossless, self.batch_independent = part.lossless, part.batch_independent

    def start(self) -> Any:
        """Set by the exploration."""

    def logits(self, draft: Draft, memory: Layout) -> Tensor:
        """See `Confidence`."""
        key = key_of(draft.tokens, draft.p_draft, draft.hidden, draft.previous_embedding, draft.lengths)

        def ask(lo: int, hi: int, inner: Any) -> Tensor:
            part = rows_of(draft, lo, hi)
            with blaming(self.part, "logits", draft=part, memory=inner):
                return self.part.logits(part, inner)

        return torch.cat(
            [
                self._memo((key(lo, hi), hi - lo, self._slices.number(inner)), lambda: ask(lo, hi, inner))  # noqa: B023
                for (lo, hi), inner in zip(memory.rows, memory.memories, strict=True)
            ]
        )

    def observe(self, memory: Layout, rounds: Rounds) -> Layout:
        """See `Confidence`."""
        return _observe(self.part, self._observed, self._slices, memory, rounds)


class WorldCalibrator:
    """A calibrator asked world by world."""

    def __init__(self, part: Calibrator, slices: Slices) -> None:
        self.part, self._slices, self._memo, self._observed = part, slices, Memo(), Memo()
        self.lossless, self.batch_independent = part.lossless, part.batch_independent

    def start(self) -> Any:
        """Set by the exploration."""

    def calibrate(self, logits: Tensor, memory: Layout) -> Tensor:
        """See `Calibrator`."""
        key = key_of(logits)

        def ask(lo: int, hi: int, inner: Any) -> Tensor:
            with blaming(self.part, "calibrate", logits=logits[lo:hi], memory=inner):
                return self.part.calibrate(logits[lo:hi], inner)

        return torch.cat(
            [
                self._memo((key(lo, hi), hi - lo, self._slices.number(inner)), lambda: ask(lo, hi, inner))  # noqa: B023
                for (lo, hi), inner in zip(memory.rows, memory.memories, strict=True)
            ]
        )

    def floor(self, memory: Layout, anchors: Tensor, decisions: Decisions) -> Tensor:
        """See `Calibrator`; worlds that agree in their memory are asked together, each row by its own decision."""
        groups: dict[Any, list[int]] = {}
        for world, inner in enumerate(memory.memories):
            groups.setdefault(self._slices.number(inner), []).append(world)
        out = torch.zeros_like(anchors)
        for worlds in groups.values():
            rows = torch.tensor([r for w in worlds for r in range(*memory.rows[w])])
            inner = memory.memories[worlds[0]]
            with blaming(self.part, "floor", memory=inner, anchors=anchors[rows]):
                out[rows] = self.part.floor(inner, anchors[rows], decisions.rows(rows)).to(out)  # type: ignore[attr-defined]
        return out

    def observe(self, memory: Layout, rounds: Rounds) -> Layout:
        """See `Calibrator`."""
        return _observe(self.part, self._observed, self._slices, memory, rounds)


class WorldScheduler:
    """A scheduler asked world by world."""

    def __init__(self, part: Scheduler, slices: Slices) -> None:
        self.part, self._slices, self._memo, self._observed = part, slices, Memo(), Memo()
        self.lossless, self.batch_independent = part.lossless, part.batch_independent

    def start(self) -> Any:
        """Set by the exploration."""

    def wants(self, memory: Any, requests: tuple[int, ...], limits: Limits, capacity: Capacity) -> tuple[bool, ...]:
        """One world's answer to who drafts."""

        def ask() -> tuple[bool, ...]:
            with blaming(self.part, "drafts", memory=memory, limits=limits):
                return who_drafts(self.part, memory, requests, limits, capacity)

        answer: tuple[bool, ...] = self._memo(("drafts", self._slices.number(memory), requests, freeze(limits)), ask)
        return answer

    def drafts(self, memory: Layout, limits: Limits, capacity: Capacity) -> bool:
        """See `participants`."""
        return True

    def participants(self, memory: Layout, requests: Row[int], limits: Limits, capacity: Capacity) -> tuple[bool, ...]:
        """What every world has said already, when the exploration put those together that draft or all pause."""
        resting = {world * memory.width + request for world, ids in enumerate(memory.resting) for request in ids}
        return tuple(request not in resting for request in requests)

    def block_lens(
        self, memory: Layout, requests: Row[int], limits: Limits, capacity: Capacity, gamma: int
    ) -> tuple[int, ...] | None:
        """Every world's own lengths; what is drafted is the longest of them, which a table's law does not notice."""
        answers: list[tuple[int, ...] | None] = []
        for (lo, hi), resting, inner in zip(memory.rows, memory.resting, memory.memories, strict=True):
            ids, part = tuple(n % memory.width for n in requests[lo:hi]), limits_of(limits, lo, hi, len(resting))
            with blaming(self.part, "block_lens", memory=inner, requests=ids, limits=part):
                answers.append(block_lens(self.part, inner, ids, part, capacity, gamma) if ids else None)
        self._slices.block_lens = tuple(None if one is None else max(one) for one in answers)
        if all(one is None for one in answers):
            return None
        whole = ((gamma,) * (hi - lo) for lo, hi in memory.rows)
        return tuple(n for one, default in zip(answers, whole, strict=True) for n in one or default)

    def plan(self, survival: Tensor, capacity: Capacity, limits: Limits, memory: Layout) -> tuple[Plan, Layout]:
        """See `Scheduler`."""
        key = key_of(survival, limits.floor[:, None], limits.ceiling[:, None])

        def ask(lo: int, hi: int, num_resting: int, block_len: int | None, inner: Any) -> tuple[Plan, Any]:
            part = limits_of(limits, lo, hi, num_resting, block_len)
            with blaming(self.part, "plan", survival=survival[lo:hi], limits=part, memory=inner):
                return self.part.plan(survival[lo:hi], capacity, part, inner)

        answers = [
            self._memo(
                (key(lo, hi), hi - lo, len(resting), size, self._slices.number(inner)),
                lambda: ask(lo, hi, len(resting), size, inner),  # noqa: B023
            )
            for (lo, hi), resting, size, inner in zip(
                memory.rows, memory.resting, self._slices.block_lens, memory.memories, strict=True
            )
        ]
        plan = Plan(torch.cat([plan.verify_len for plan, _ in answers]))
        return plan, memory.with_memories([inner for _, inner in answers])

    def observe(self, memory: Layout, rounds: Rounds) -> Layout:
        """See `Scheduler`."""
        return _observe(self.part, self._observed, self._slices, memory, rounds)

    def observe_undrafted(self, memory: Layout, num_tokens: int, num_requests: int, seconds: float) -> Layout:
        """See `Scheduler`; an undrafted step gives every request one token."""

        def ask(inner: Any, num: int) -> Any:
            with blaming(self.part, "observe_undrafted", memory=inner, num_tokens=num):
                return self.part.observe_undrafted(inner, num, num, seconds)

        return memory.with_memories(
            [
                self._observed(("undrafted", self._slices.number(inner), len(ids)), lambda: ask(inner, len(ids)))  # noqa: B023
                for ids, inner in zip(memory.resting, memory.memories, strict=True)
            ]
        )


def _observe(part: Any, memo: Memo, slices: Slices, memory: Layout, rounds: Rounds) -> Layout:
    def ask(seen: Rounds, inner: Any) -> Any:
        with blaming(part, "observe", memory=inner, rounds=seen):
            return part.observe(inner, seen)

    return memory.with_memories(
        [
            memo((key, slices.number(inner)), lambda: ask(seen, inner))  # noqa: B023
            for (key, seen), inner in zip(slices(rounds, memory), memory.memories, strict=True)
        ]
    )

"""Whose rows are whose when many worlds share one engine step, and how a step's tensors are cut into worlds again."""

from collections.abc import Callable, Hashable
from collections.abc import Sequence as Row
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from sparkit.engine import Memories
from sparkit.proofs.freezing import Numbering
from sparkit.rounds import Limits, Plan, Rounds, Verdict


@dataclass(frozen=True, slots=True)
class Layout:
    """Whose rows are whose, and the memory of one part in each world."""

    rows: tuple[tuple[int, int], ...]  # [lo, hi) among the step's decoding rows
    steps: tuple[int, ...]  # the number of this step in each world
    memories: tuple[Any, ...]
    width: int  # requests of a world
    resting: tuple[tuple[int, ...], ...] = ()  # ids of each world's requests that do not draft in this step

    def with_memories(self, memories: Row[Any]) -> "Layout":
        """The same rows with other memories."""
        return replace(self, memories=tuple(memories))


class Memo:
    """Answers of a pure part by question."""

    def __init__(self) -> None:
        self._answers: dict[Hashable, Any] = {}

    def __call__(self, key: Hashable, ask: Callable[[], Any]) -> Any:
        """The remembered answer, or a new one."""
        if key not in self._answers:
            self._answers[key] = ask()
        return self._answers[key]


def key_of(*tensors: Tensor | None) -> Callable[[int, int], bytes]:
    """A key for any range of rows."""
    flat = [t.detach().reshape(t.shape[0], -1).double() for t in tensors if t is not None]
    table = torch.cat(flat, dim=1).numpy()
    return lambda lo, hi: table[lo:hi].tobytes()


def rows_of(value: Any, lo: int, hi: int) -> Any:
    """Rows lo..hi of a dataclass of tensors."""
    parts = {f.name: getattr(value, f.name) for f in fields(value)}
    return type(value)(**{name: x[lo:hi] if isinstance(x, Tensor) else x for name, x in parts.items()})


def limits_of(limits: Limits, lo: int, hi: int, num_resting: int = 0, block_len: int | None = None) -> Limits:
    """Rows lo..hi of the limits; every row has one anchor, and so has everybody who rests."""
    bounds = (limits.floor[lo:hi], limits.ceiling[lo:hi])
    return Limits(hi - lo + num_resting, *bounds, limits.token_budget, num_resting, block_len)


class Slices:
    """One step's `Rounds` cut into worlds, once for all parts that learn."""

    def __init__(self) -> None:
        self.number = Numbering()
        self.block_lens: tuple[int | None, ...] = ()  # of this step's worlds
        self._rounds: Rounds | None = None
        self._parts: list[tuple[Hashable, Rounds]] = []

    def __call__(self, rounds: Rounds, layout: Layout) -> list[tuple[Hashable, Rounds]]:
        """A key and the rounds of each world."""
        if self._rounds is not rounds:
            self._rounds, self._parts = rounds, self._worlds(rounds, layout)
        return self._parts

    def _worlds(self, rounds: Rounds, layout: Layout) -> list[tuple[Hashable, Rounds]]:
        draft, verdict, limits = rounds.draft, rounds.verdict, rounds.limits
        key = key_of(
            rounds.anchors, draft.tokens, draft.p_draft, draft.hidden, draft.previous_embedding, draft.lengths,
            rounds.logits, rounds.confidence, rounds.survival, limits.floor, limits.ceiling, rounds.plan.verify_len,
            verdict.accepted, verdict.next_token, verdict.is_bonus, rounds.accept_rate,
        )  # fmt: skip
        out: list[tuple[Hashable, Rounds]] = []
        worlds = zip(layout.rows, layout.steps, layout.resting, self.block_lens, strict=True)
        for (lo, hi), step, resting, block_len in worlds:
            ids = tuple(number % layout.width for number in rounds.requests[lo:hi])
            seen = Rounds(
                step,
                ids,
                rounds.anchors[lo:hi],
                rows_of(draft, lo, hi),
                rounds.logits[lo:hi],
                rounds.confidence[lo:hi],
                rounds.survival[lo:hi],
                limits_of(limits, lo, hi, len(resting), block_len),
                Plan(rounds.plan.verify_len[lo:hi]),
                Verdict(verdict.accepted[lo:hi], verdict.next_token[lo:hi], verdict.is_bonus[lo:hi]),
                rounds.accept_rate[lo:hi],
                rounds.seconds,
                resting,
            )
            out.append(((key(lo, hi), ids, resting, step, block_len), seen))
        return out


def memories_of(layouts: Memories, world: int) -> Memories:
    """One world's memories out of a step's."""
    return Memories(*(getattr(layouts, name).memories[world] for name in ("confidence", "calibrator", "scheduler")))

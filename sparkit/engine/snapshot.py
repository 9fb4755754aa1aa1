"""A snapshot is everything a run needs to go on from here: caches, sequences, memories, features that wait.

Decisions are addressed by request seed and position, so a restored run repeats itself token for token.
"""

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sparkit.engine.inbox import Inbox
from sparkit.engine.parts import Memories
from sparkit.engine.requests import Finished, Request, Sequence

if TYPE_CHECKING:
    from sparkit.engine.engine import Engine


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A copy of an engine's state; restoring leaves it untouched."""

    cache: Any
    drafter: Any
    memories: Memories
    inbox: Inbox
    waiting: tuple[tuple[int, Request], ...]
    running: tuple[Sequence, ...]
    free_slots: tuple[int, ...]
    finished: dict[int, Finished]
    num_steps: int
    next_id: int


def snapshot(engine: "Engine") -> Snapshot:
    """Copies the state between two steps."""
    drafter = engine.parts.drafter
    return Snapshot(
        engine.cache.clone(),
        None if drafter is None else drafter.save(),
        engine.memories,
        engine.inbox.copy(),
        tuple(engine.waiting),
        tuple(s.copy() for s in engine.running.values()),
        tuple(engine.free_slots),
        dict(engine.finished),
        engine.num_steps,
        engine._next_id,
    )


def restore(engine: "Engine", state: Snapshot) -> None:
    """Puts a snapshot of the same composition back.

    Raises:
        ValueError: if the snapshot was taken with another number of slots.
    """
    if len(state.cache.lengths) != len(engine.cache.lengths):
        raise ValueError(
            f"the snapshot has {len(state.cache.lengths)} slots and this engine {len(engine.cache.lengths)}; "
            "restore into an engine of the same size"
        )
    engine.cache = state.cache.clone()
    if engine.parts.drafter is not None:
        engine.parts.drafter.load(state.drafter)
    engine.memories, engine.inbox = state.memories, state.inbox.copy()
    engine.waiting = deque(state.waiting)
    engine.running = {s.slot: s.copy() for s in state.running}
    engine.free_slots = list(state.free_slots)
    engine.finished = dict(state.finished)
    engine.num_steps, engine._next_id = state.num_steps, state.next_id

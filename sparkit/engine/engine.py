"""The engine: requests join and leave, every step is one round of all of them, and it emits what happened.

One code path for one request and for many, drafted and undrafted steps, prefill chunks beside decoding ones. The
engine holds slots, caches and sequences; everything that decides is a part handed in (`Parts`), every random choice an
addressed decision. The order of a step is method section 2; `sparkit.engine.steps` holds its phases.

    engine = Engine(parts, gamma=7, num_slots=1, max_len=256)
    engine.add(Request(prompt=(1, 2, 3), seed=0, max_new_tokens=32))
    rounds = list(engine.stream())
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Row

import torch

from sparkit.engine import steps
from sparkit.engine.inbox import Inbox
from sparkit.engine.parts import Memories, Parts
from sparkit.engine.requests import Finished, Request, Sequence
from sparkit.engine.stops import Decode
from sparkit.rounds import Round


class Engine:
    """Continuous batching over `num_slots` slots of at most `max_len` positions."""

    def __init__(
        self,
        parts: Parts,
        *,
        gamma: int,
        num_slots: int,
        max_len: int | None = None,
        prefill_chunk: int = 256,
        token_budget: int | None = None,
        top_tokens: int = 0,
        decode: Decode | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        if gamma < 1:
            raise ValueError(f"gamma={gamma}: expected at least 1 draft token per round")
        if num_slots < 1:
            raise ValueError(f"num_slots={num_slots}: expected at least 1")
        if parts.drafter is not None and gamma > parts.drafter.gamma:
            raise ValueError(f"gamma={gamma}: this drafter was trained for at most {parts.drafter.gamma}")
        self.parts, self.gamma = parts, gamma
        self.prefill_chunk, self.token_budget, self.top_tokens = prefill_chunk, token_budget, top_tokens
        self.decode, self.clock = decode, clock
        self.max_len = min(max_len or parts.target.max_positions, parts.target.max_positions)
        self.cache = parts.target.new_cache(num_slots, self.max_len)
        if parts.drafter is not None:
            parts.drafter.prepare(num_slots, self.max_len + gamma + 1)  # a block may overhang the context's end
        self.memories = Memories.start(parts)
        self.inbox = Inbox()
        self.waiting: deque[tuple[int, Request]] = deque()
        self.running: dict[int, Sequence] = {}  # by slot
        self.free_slots = list(range(num_slots))
        self.finished: dict[int, Finished] = {}
        self.num_steps = 0
        self._next_id = 0

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return bool(self.waiting or self.running)

    def add(self, request: Request) -> int:
        """Queues a request and returns its id.

        Raises:
            ValueError: if the prompt leaves no room in the context, or prompt, logit_bias or banned name tokens that
                the target does not have, or it has stop strings and the engine no `decode`.
        """
        if len(request.prompt) >= self.max_len:
            raise ValueError(
                f"the prompt has {len(request.prompt)} tokens and the context limit is {self.max_len}; "
                "shorten the prompt so that at least one token can follow"
            )
        last = self.parts.target.vocab_size - 1
        if not 0 <= min(request.prompt) <= max(request.prompt) <= last:
            raise ValueError(f"the prompt holds a token outside 0..{last}")
        if max(request.params.tokens, default=0) > last:
            raise ValueError(f"logit_bias or banned name token {max(request.params.tokens)}: expected ids in 0..{last}")
        if request.stop_strings and self.decode is None:
            raise ValueError("stop strings need a tokenizer: give the engine `decode`")
        number, self._next_id = self._next_id, self._next_id + 1
        if request.max_new_tokens == 0:
            self.finished[number] = Finished(number, request, (), "length")
        else:
            self.waiting.append((number, request))
        return number

    def cancel(self, number: int) -> None:
        """Ends a waiting or running request; what it has emitted is kept.

        Raises:
            LookupError: if no such request is waiting or running.
        """
        for entry in self.waiting:
            if entry[0] == number:
                self.waiting.remove(entry)
                self.finished[number] = Finished(number, entry[1], (), "cancelled")
                return
        for sequence in self.running.values():
            if sequence.id == number:
                self.retire(sequence, "cancelled")
                return
        raise LookupError(f"cancel({number}): no such request is waiting or running")

    def step(self) -> list[Round]:
        """One round of everything that runs; [] when there is nothing to do."""
        self._admit()
        if not self.running:
            return []
        self.num_steps += 1
        return steps.run(self)

    def stream(self) -> Iterator[Round]:
        """Rounds until every request has finished."""
        while self.has_work:
            yield from self.step()

    def retire(self, sequence: Sequence, reason: str) -> None:
        """Records a finished sequence and gives its slot back (lowest slots first: attention views stay short)."""
        sequence.stop_reason = reason
        self.finished[sequence.id] = Finished(sequence.id, sequence.request, tuple(sequence.text), reason)
        del self.running[sequence.slot]
        self.cache.truncate(sequence.slot, 0)
        self.inbox.forget(sequence.slot)
        if self.parts.drafter is not None:
            self.parts.drafter.forget(sequence.slot)
        self.free_slots = sorted([*self.free_slots, sequence.slot])

    def replace(self, parts: Parts) -> None:
        """Swaps confidence, calibrator, scheduler, verifier or capacity between two rounds; memories start anew.

        Raises:
            ValueError: if the target or the drafter differs: their caches belong to the running texts.
        """
        if parts.target is not self.parts.target or parts.drafter is not self.parts.drafter:
            raise ValueError("replace: target and drafter hold the running texts; start a new engine to change them")
        self.parts, self.memories = parts, Memories.start(parts)

    def _admit(self) -> None:
        while self.waiting and self.free_slots:
            number, request = self.waiting.popleft()
            slot = self.free_slots.pop(0)
            room = self.max_len - len(request.prompt)
            limit = room if request.max_new_tokens is None else min(room, request.max_new_tokens)
            self.running[slot] = Sequence(number, request, slot, limit, list(request.prompt))

    @property
    def device(self) -> torch.device:
        """Where the target computes."""
        return self.parts.target.device

    def decoding(self) -> list[Sequence]:
        """Sequences that have an anchor, by slot."""
        return [s for _, s in sorted(self.running.items()) if s.is_prefilled]

    def prefilling(self) -> list[Sequence]:
        """Sequences whose prompt is not through yet, oldest first."""
        return sorted((s for s in self.running.values() if not s.is_prefilled), key=lambda s: s.id)

    def results(self) -> Row[Finished]:
        """Finished requests in the order they were added."""
        return [self.finished[number] for number in sorted(self.finished)]

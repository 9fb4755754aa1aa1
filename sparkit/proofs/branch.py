"""One branch between two engine steps: everything that the next step depends on, and how probable it is."""

from collections.abc import Hashable
from dataclasses import dataclass

from sparkit.engine import Finished, Memories
from sparkit.engine.inbox import Letter
from sparkit.engine.requests import Sequence
from sparkit.proofs.exploration import state_key
from sparkit.proofs.freezing import Numbering
from sparkit.proofs.paths import Address, Known, Number
from sparkit.proofs.problem import Outcome, Problem


@dataclass(slots=True)
class World:
    """The requests of one branch between two steps."""

    requests: tuple[Sequence | Finished, ...]
    lengths: tuple[int, ...]  # of the target's cache
    absorbed: tuple[int | None, ...]
    features: tuple[list[Letter], ...]  # waiting for the drafter
    memories: Memories
    num_steps: int
    known: dict[Address, Known]
    probability: Number = 0.0
    wants: tuple[bool, ...] = ()  # whether each request that decodes drafts next

    @property
    def drafts(self) -> bool | None:
        """Whether its next step has a draft; None: it has nothing to draft for."""
        return any(self.wants) if self.wants else None

    @property
    def resting(self) -> tuple[int, ...]:
        """Ids of the requests that decode plainly in the next step."""
        width = len(self.requests)
        return tuple(s.id % width for s, wants in zip(self.decoding(), self.wants, strict=False) if not wants)

    def decoding(self) -> list[Sequence]:
        """Requests that have an anchor."""
        return [s for s in self.requests if isinstance(s, Sequence) and s.is_prefilled]

    @property
    def frontier(self) -> dict[int, int]:
        """Anchor positions by request."""
        return {r: s.anchor_position for r, s in enumerate(self.requests) if isinstance(s, Sequence)}

    @property
    def progress(self) -> int:
        """Grows with every step."""
        return sum(len(s.text) for s in self.requests)

    @classmethod
    def first(cls, problem: Problem, probability: Number) -> "World":
        """Before anything has run."""
        num = len(problem.requests)
        limits = [min(problem.max_len - len(r.prompt), r.max_new_tokens or problem.max_len) for r in problem.requests]
        sequences = tuple(
            Sequence(r, request, r, limits[r], list(request.prompt)) for r, request in enumerate(problem.requests)
        )
        start = Memories.start(problem.parts)
        return cls(sequences, (0,) * num, (None,) * num, tuple([] for _ in range(num)), start, 0, {}, probability)

    def outcome(self, num_tokens: int) -> Outcome | None:
        """The first tokens of every request; None while one of them has fewer and goes on."""
        if not all(isinstance(s, Finished) or len(s.text) >= num_tokens for s in self.requests):
            return None
        return tuple(tuple(t.id for t in s.text[:num_tokens]) for s in self.requests)

    def key(self, number: Numbering) -> Hashable:
        """What makes two worlds one."""
        texts = tuple((type(s), tuple(t.id for t in s.text)) for s in self.requests)
        owed = tuple(sum(letter.count for letter in letters) for letters in self.features)
        return state_key(texts, self.memories, number, owed, self.known, self.num_steps)

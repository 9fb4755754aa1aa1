"""Feature taps wait here until the drafter takes them in, one step's or many steps' at once.

A step without a draft costs no drafter time: its features are kept, and absorbed in one batch when drafting resumes,
so the first resumed draft is that of a drafter that never paused (design section 4, `drafts`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from sparkit.protocols import Drafter, Span


@dataclass(slots=True)  # never changed; frozen ones take three times as long to make, and each request gets one a step
class Letter:
    """Rows of a step's features; they are cut out when they are read, which most steps without a draft never see."""

    features: Float[Tensor, "B taps_d"]
    row: int
    count: int

    @property
    def rows(self) -> Float[Tensor, "n taps_d"]:
        """What belongs to the slot."""
        return self.features[self.row : self.row + self.count]


@dataclass(slots=True)
class Inbox:
    """Features by slot, of the positions from `absorbed[slot]` on."""

    absorbed: dict[int, int] = field(default_factory=dict)
    features: dict[int, list[Letter]] = field(default_factory=dict)

    def add(self, slot: int, letter: Letter) -> None:
        """Keeps the features of the next positions of a slot."""
        self.absorbed.setdefault(slot, 0)
        self.features.setdefault(slot, []).append(letter)

    def pending(self, slot: int) -> int:
        """Positions waiting in a slot."""
        return sum(letter.count for letter in self.features.get(slot, ()))

    def deliver(self, drafter: Drafter, tokens: Mapping[int, Sequence[int]], device: torch.device) -> None:
        """Hands everything that waits in the slots of `tokens` (committed tokens by slot) to the drafter."""
        slots = sorted(slot for slot in tokens if self.features.get(slot))
        if not slots:
            return
        spans = [Span(slot, self.absorbed[slot], self.pending(slot)) for slot in slots]
        parts = [letter.rows for slot in slots for letter in self.features[slot]]
        ids = [i for s in spans for i in tokens[s.slot][s.start : s.start + s.count]]
        drafter.absorb(
            parts[0] if len(parts) == 1 else torch.cat(parts),
            torch.tensor(ids, dtype=torch.int64, device=device),
            spans,
        )
        for span in spans:
            self.absorbed[span.slot] = span.start + span.count
            del self.features[span.slot]

    def forget(self, slot: int) -> None:
        """Drops a slot."""
        self.absorbed.pop(slot, None)
        self.features.pop(slot, None)

    def copy(self) -> "Inbox":
        """An independent copy; the tensors are never written to."""
        return type(self)(dict(self.absorbed), {slot: list(letters) for slot, letters in self.features.items()})

"""One branch through an engine step, and what it knows of each uniform: the interval in which it lies.

A question splits that interval by the cumulative distribution, the script picks a part, and the part's share of the
interval is the branch's probability. A repeated question therefore refines and never branches afresh; an address that
two different decisions ask for is a fault (design section 2), and so is one whose anchor is past.

Coupled noise is re-used by design. For two tokens it is one uniform: with Gumbel noise G,
    token 1  iff  log p_1 + G_1 > log p_0 + G_0  iff  sigmoid(G_0 - G_1) < p_1,
and sigmoid of a difference of two Gumbels is uniform; so token 0 has the upper part of the interval.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from sparkit.decisions import Purpose

Number = int | float | Fraction  # beartype takes no int for a float


class Address(NamedTuple):
    """Where a uniform lives: it is dead once the request's anchor position exceeds `until`."""

    seed: int
    until: int
    purpose: int
    offset: int


class Addressing(NamedTuple):
    """How a decision finds its uniform."""

    name: str
    draw: Callable[[int, int, int, int], Address]  # (seed, anchor, purpose, offset)
    may_repeat: bool  # its noise is asked again by design
    descending: bool  # the last token has the lowest part of the interval


def _anchored(seed: int, anchor: int, purpose: int, offset: int) -> Address:
    return Address(seed, anchor, purpose, offset)


def _at_position(seed: int, anchor: int, purpose: int, offset: int) -> Address:
    return Address(seed, anchor + offset - 1, purpose, 0)


def _coupled(seed: int, anchor: int, purpose: int, offset: int) -> Address:  # noqa: ARG001 - a token has one noise
    return Address(seed, anchor + offset - 1, Purpose.GUMBEL, 0)


ANCHORED = Addressing("anchored", _anchored, may_repeat=False, descending=False)
POSITION_ONLY = Addressing("position only", _at_position, may_repeat=True, descending=False)
"""LOSSY, to be caught: a redrafted position gets its old noise back."""
COUPLED = Addressing("coupled", _coupled, may_repeat=True, descending=True)


class Known(NamedTuple):
    """What a path knows of one uniform."""

    lo: Number
    hi: Number
    question: tuple[Number, ...]  # the edges of the last question: the same again is no second decision


@dataclass(slots=True)
class Path:
    """One branch through one engine step: follows `script`, then always the first part."""

    script: tuple[int, ...]
    known: dict[Address, Known]
    frontier: dict[int, int]  # seed -> anchor position
    taken: list[int] = field(default_factory=list)
    options: list[int] = field(default_factory=list)  # how many parts each choice had
    probability: Number = 1.0
    faults: list[str] = field(default_factory=list)

    def ask(self, address: Address, masses: Sequence[tuple[int, Number]], addressing: Addressing) -> int:
        """The answer to a question: masses are (answer, mass) in the order they lie on [0, 1)."""
        edges = _edges(masses, address)
        if len(edges) == 1:
            return edges[0][0]  # certain: nobody looks at the uniform
        before = self.known.get(address)
        question = tuple([edge for _, _, edge in edges])
        if address.purpose == Purpose.PROBE or not addressing.may_repeat:
            self._check(address, before, question)
        lo, hi = (0, 1) if before is None else (before.lo, before.hi)
        parts = []
        for answer, a, b in edges:  # a proof asks a million times: conditions here, not max and min
            low, high = lo if a < lo else a, hi if b > hi else b
            if low < high:
                parts.append((answer, low, high))
        answer, lo_new, hi_new = parts[self._choose(len(parts)) if len(parts) > 1 else 0]
        self.probability = self.probability * (hi_new - lo_new) / (hi - lo)
        self.known[address] = Known(lo_new, hi_new, question)
        return answer

    def _choose(self, num: int) -> int:
        depth = len(self.taken)
        choice = self.script[depth] if depth < len(self.script) else 0
        self.taken.append(choice)
        self.options.append(num)
        return choice

    def _check(self, address: Address, before: Known | None, question: tuple[Number, ...]) -> None:
        if before is not None and before.question != question:
            self.faults.append(f"two decisions ask for the uniform of {spell_address(address)}")
        if address.until < self.frontier.get(address.seed, address.until):
            self.faults.append(f"the uniform of {spell_address(address)} is asked for after its round")

    def alternatives(self) -> list[tuple[int, ...]]:
        """Scripts of the branches that this path passed by."""
        return [
            (*self.taken[:depth], other)
            for depth in range(len(self.script), len(self.taken))
            for other in range(1, self.options[depth])
        ]


def _edges(masses: Sequence[tuple[int, Number]], address: Address) -> list[tuple[int, Number, Number]]:
    total: Number = 0
    for _, mass in masses:
        total += mass
    if total <= 0 or total != total:
        raise ValueError(f"a law without mass was drawn from at {address}: {[float(m) for _, m in masses]}")
    low: Number = 0
    edges: list[tuple[int, Number, Number]] = []
    for answer, mass in masses:
        if mass > 0:
            high = low + mass / total
            edges.append((answer, low, high))
            low = high
    edges[-1] = (edges[-1][0], edges[-1][1], 1)  # the sum's rounding belongs to the last part, as in `sampling.draw`
    return edges


def spell_address(address: Address) -> str:
    """An address as a person reads it."""
    return f"(seed {address.seed}, anchor {address.until}, {Purpose(address.purpose).name.lower()} {address.offset})"

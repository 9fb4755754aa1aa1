"""A source of decisions that plays one branch at a time and knows how probable it is.

Production hashes an address into a uniform; here the uniform of an address is only known to lie in an interval. A
question splits that interval by the cumulative distribution, the script picks a part, and the part's share of the
interval is the branch's probability. A repeated question therefore refines and never branches afresh; an address that
two different decisions ask for is a fault (design section 2), and so is one whose anchor is past.

Coupled noise is re-used by design. For two tokens it is one uniform: with Gumbel noise G,
    token 1  iff  log p_1 + G_1 > log p_0 + G_0  iff  sigmoid(G_0 - G_1) < p_1,
and sigmoid of a difference of two Gumbels is uniform; so token 0 has the upper part of the interval.

Not done here: running an engine (`sparkit.proofs.exploration`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sparkit.decisions import Purpose, Until
from sparkit.rounds import Draft, Plan

Number = int | float | Fraction  # beartype takes no int for a float
TOLERANCE = 1e-14
"""How far a law of the engine may be from the fractions it stands for."""


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


@dataclass(frozen=True, slots=True)
class Known:
    """What a path knows of one uniform."""

    lo: Number
    hi: Number
    question: tuple[Number, ...]  # the edges of the last question: the same again is no second decision


@runtime_checkable
class Oracle(Protocol):
    """Knows the laws of a table model as fractions, decision by decision (`sparkit.proofs.rational`)."""

    def begin(self, texts: dict[int, list[int]]) -> None:
        """Told every request's committed tokens, by seed, when a step begins."""
        ...

    def law(self, seed: int, anchor: int, purpose: int, offset: int) -> tuple[Fraction, ...]:
        """The exact law of a draw, or (p, 1 - p) of a coin."""
        ...

    def drew(self, seed: int, anchor: int, purpose: int, offset: int, answer: int) -> None:
        """Told what was answered."""
        ...

    def judging(self, seeds: Sequence[int], plan: Plan) -> None:
        """Told the plan before the verifier asks."""
        ...


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
        total = sum(mass for _, mass in masses)
        if total <= 0 or total != total:
            raise ValueError(f"a law without mass was drawn from at {address}: {[float(m) for _, m in masses]}")
        edges = _edges(masses, total)
        if len(edges) == 1:
            return edges[0][0]  # certain: nobody looks at the uniform
        before = self.known.get(address)
        question = tuple(edge for _, _, edge in edges)
        self._check(address, before, question, addressing)
        lo, hi = (0, 1) if before is None else (before.lo, before.hi)
        parts = [(answer, max(a, lo), min(b, hi)) for answer, a, b in edges if max(a, lo) < min(b, hi)]
        answer, lo_new, hi_new = parts[self._choose(len(parts))]
        self.probability = self.probability * (hi_new - lo_new) / (hi - lo)
        self.known[address] = Known(lo_new, hi_new, question)
        return answer

    def _choose(self, num: int) -> int:
        if num == 1:
            return 0
        depth = len(self.taken)
        choice = self.script[depth] if depth < len(self.script) else 0
        self.taken.append(choice)
        self.options.append(num)
        return choice

    def _check(
        self, address: Address, before: Known | None, question: tuple[Number, ...], addressing: Addressing
    ) -> None:
        if addressing.may_repeat and address.purpose != Purpose.PROBE:
            return
        if before is not None and before.question != question:
            self.faults.append(f"two decisions ask for the uniform of {_spell(address)}")
        if address.until < self.frontier.get(address.seed, address.until):
            self.faults.append(f"the uniform of {_spell(address)} is asked for after its round")

    def alternatives(self) -> list[tuple[int, ...]]:
        """Scripts of the branches that this path passed by."""
        return [
            (*self.taken[:depth], other)
            for depth in range(len(self.script), len(self.taken))
            for other in range(1, self.options[depth])
        ]


def _edges(masses: Sequence[tuple[int, Number]], total: Number) -> list[tuple[int, Number, Number]]:
    low: Number = 0
    edges: list[tuple[int, Number, Number]] = []
    for answer, mass in masses:
        if mass > 0:
            edges.append((answer, low, low + mass / total))
            low = edges[-1][2]
    edges[-1] = (edges[-1][0], edges[-1][1], 1)  # the sum's rounding belongs to the last part, as in `sampling.draw`
    return edges


def _spell(address: Address) -> str:
    return f"(seed {address.seed}, anchor {address.until}, {Purpose(address.purpose).name.lower()} {address.offset})"


class Enumerated:
    """Every branch of the decisions, one script a path."""

    def __init__(self, addressing: Addressing = ANCHORED, oracle: Oracle | None = None) -> None:
        self.addressing, self.oracle = addressing, oracle
        self.paths: list[Path] = []
        self.width: int | None = None  # requests of one world; None: one world holds all seeds

    def begin(self, script: tuple[int, ...], known: dict[Address, Known], frontier: dict[int, int]) -> Path:
        """Starts a path from a state's knowledge."""
        one: Number = 1.0 if self.oracle is None else Fraction(1)
        self.paths = [Path(script, dict(known), frontier, probability=one)]
        return self.paths[0]

    def path_of(self, seed: int) -> tuple[Path, int]:
        """The path that a request's decisions belong to, and the request's seed within its world."""
        if self.width is None:
            return self.paths[0], seed
        return self.paths[seed // self.width], seed % self.width

    def at(self, seeds: Int[Tensor, " R"], anchors: Int[Tensor, " R"]) -> "Rows":
        """See `DecisionSource`."""
        return Rows(self, seeds.tolist(), anchors.tolist())

    def judging(self, rows: "Rows", draft: Draft, plan: Plan) -> None:
        """Lets an oracle know the plan."""
        if self.oracle is not None:
            self.oracle.judging(rows.seeds, plan)


class Rows:
    """The decisions of one step under enumeration."""

    def __init__(self, source: Enumerated, seeds: list[int], anchors: list[int]) -> None:
        self._source, self.seeds, self.anchors = source, seeds, anchors

    def rows(self, index: Int[Tensor, " N"]) -> "Rows":
        """The decisions of some of the rows."""
        picked = index.tolist()
        return Rows(self._source, [self.seeds[r] for r in picked], [self.anchors[r] for r in picked])

    def draw(self, p: Float[Tensor, "R V"], purpose: Purpose, offset: int | Int[Tensor, " R"]) -> Int[Tensor, " R"]:
        """See `Decisions`."""
        addressing, offsets = self._source.addressing, _per_row(offset, len(self.seeds))
        if addressing is COUPLED and p.shape[1] != 2:
            raise ValueError(
                f"coupled noise over {p.shape[1]} tokens is no single uniform: enumerate V=2, or compare texts path by "
                "path with `sparkit.proofs.pathwise`"
            )
        tokens = [self._ask(r, law, int(purpose), offsets[r]) for r, law in enumerate(p.tolist())]
        return torch.tensor(tokens, dtype=torch.int64, device=p.device)

    def _ask(self, row: int, law: list[float], purpose: int, offset: int) -> int:
        source = self._source
        path, seed = source.path_of(self.seeds[row])
        address = source.addressing.draw(seed, self.anchors[row], purpose, offset)
        masses: list[tuple[int, Number]] = list(enumerate(law))
        if source.oracle is not None:
            masses = list(enumerate(self._exact(row, address, law, path)))
        token = path.ask(address, masses[::-1] if source.addressing.descending else masses, source.addressing)
        if source.oracle is not None:
            source.oracle.drew(self.seeds[row], self.anchors[row], purpose, offset, token)
        return token

    def _exact(self, row: int, address: Address, law: Sequence[float], path: Path) -> tuple[Fraction, ...]:
        oracle = self._source.oracle
        assert oracle is not None
        exact = oracle.law(self.seeds[row], self.anchors[row], address.purpose, address.offset)
        worst = max(abs(float(a) - b) for a, b in zip(exact, law, strict=True))
        if not worst < TOLERANCE:
            path.faults.append(f"{_spell(address)}: the engine's law is {worst:.2g} off the fractions'")
        return exact

    def coins(self, prob: Float[Tensor, "R K"], purpose: Purpose, until: Until = "all") -> Bool[Tensor, "R K"]:
        """See `Decisions`; coins that nobody will look at are not thrown."""
        rows = [self._coins(r, row, purpose, until) for r, row in enumerate(prob.tolist())]
        return torch.tensor(rows, dtype=torch.bool, device=prob.device).view(prob.shape)

    def _coins(self, row: int, probs: list[float], purpose: Purpose, until: Until) -> list[bool]:
        answers = [False] * len(probs)
        order = range(len(probs) - 1, -1, -1) if until == "last_true" else range(len(probs))
        for k in order:
            answers[k] = self._coin(row, k + 1, probs[k], purpose)
            if answers[k] == (until == "last_true") and until != "all":
                break
        return answers

    def _coin(self, row: int, offset: int, prob: float, purpose: Purpose) -> bool:
        if prob != prob:
            raise ValueError(f"a {purpose.name.lower()} coin at offset {offset} has probability nan")
        addressing = self._source.addressing
        find = _anchored if addressing is COUPLED else addressing.draw  # a probe keeps its own address
        path, seed = self._source.path_of(self.seeds[row])
        address = find(seed, self.anchors[row], int(purpose), offset)
        chance: Number = min(max(prob, 0.0), 1.0)
        if self._source.oracle is not None and purpose != Purpose.PROBE:
            chance = self._exact(row, address, (float(chance), 1 - float(chance)), path)[0]
        return bool(path.ask(address, ((1, chance), (0, 1 - chance)), addressing))


def _per_row(offset: int | Int[Tensor, " R"], num: int) -> list[int]:
    return [offset] * num if isinstance(offset, int) else [int(v) for v in offset.tolist()]

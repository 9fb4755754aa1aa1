"""A source of decisions that plays one branch at a time and knows how probable it is.

Production hashes an address into a uniform; here every question goes to a `sparkit.proofs.paths.Path`, which follows
its script and multiplies probabilities. With an oracle the laws are fractions, and the engine's are held against them.

Not done here: running an engine (`sparkit.proofs.exploration`).
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sparkit.decisions import Purpose, Until
from sparkit.proofs.paths import ANCHORED, COUPLED, Address, Addressing, Known, Number, Path, spell_address
from sparkit.rounds import Draft, Plan

TOLERANCE = 1e-14
"""How far a law of the engine may be from the fractions it stands for."""


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


class Enumerated:
    """Every branch of the decisions, one script a path."""

    def __init__(self, addressing: Addressing = ANCHORED, oracle: Oracle | None = None) -> None:
        self.addressing, self.oracle = addressing, oracle
        self.paths: list[Path] = []
        self.width: int | None = None  # requests of one world; None: one world holds all seeds

    def begin(self, script: tuple[int, ...], known: dict[Address, Known], frontier: dict[int, int]) -> Path:
        """Starts a path from a state's knowledge."""
        self.paths = [Path(script, dict(known), frontier, probability=self.one)]
        return self.paths[0]

    @property
    def one(self) -> Number:
        """Certainty, in the numbers that probabilities are counted in."""
        return 1.0 if self.oracle is None else Fraction(1)

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
            path.faults.append(f"{spell_address(address)}: the engine's law is {worst:.2g} off the fractions'")
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
        find = ANCHORED.draw if addressing is COUPLED else addressing.draw  # a probe keeps its own address
        path, seed = self._source.path_of(self.seeds[row])
        address = find(seed, self.anchors[row], int(purpose), offset)
        chance: Number = min(max(prob, 0.0), 1.0)
        if self._source.oracle is not None and purpose != Purpose.PROBE:
            chance = self._exact(row, address, (float(chance), 1 - float(chance)), path)[0]
        return bool(path.ask(address, ((1, chance), (0, 1 - chance)), addressing))


def _per_row(offset: int | Int[Tensor, " R"], num: int) -> list[int]:
    return [offset] * num if isinstance(offset, int) else [int(v) for v in offset.tolist()]

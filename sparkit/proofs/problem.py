"""What is asked of a proof, and what it answers: a composition with its requests, and their exact joint law.

A problem that is too large is refused before it starts, with sizes that are not.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sparkit.engine import Memories, Parts, Request
from sparkit.proofs.paths import Number, Path
from sparkit.rounds import Round

Outcome = tuple[tuple[int, ...], ...]
"""The first tokens of every request, in the order they were added."""
Watch = Callable[[Memories, Path, list[Round]], None]
"""Sees every step: the memories before it, the branch taken, the rounds emitted."""
MAX_BRANCHES = 4_000_000


@dataclass(frozen=True, slots=True)
class Problem:
    """A composition and the requests whose joint law is asked for."""

    parts: Parts
    requests: tuple[Request, ...]
    gamma: int
    horizon: int  # tokens after each request's first anchor
    token_budget: int | None = None
    prefill_chunk: int = 256
    max_branches: int = MAX_BRANCHES
    merge: bool = True

    @property
    def num_tokens(self) -> int:
        """Tokens of a request whose law is asked for, the prefill's own included."""
        return self.horizon + 1

    @property
    def max_len(self) -> int:
        """Positions that no path exceeds."""
        return max(len(r.prompt) for r in self.requests) + self.horizon + 2 * (self.gamma + 1) + 1

    def check(self) -> None:
        """Refuses what cannot be enumerated.

        Raises:
            ValueError: if the number of branches could exceed the limit; or for two requests with one seed (their
                decisions would not be independent).
        """
        seeds = [request.seed for request in self.requests]
        if len(set(seeds)) != len(seeds):
            raise ValueError(f"requests with seeds {seeds}: every request needs a seed of its own")
        V, R = self.parts.target.vocab_size, len(self.requests)
        bound = num_branches(V, self.gamma, R, self.horizon)
        if bound > self.max_branches:
            raise ValueError(
                f"{R} requests, V={V}, gamma={self.gamma}, horizon={self.horizon}: up to {bound:.3g} branches, and the "
                f"limit is {self.max_branches}; try {self._smaller(V)}"
            )

    def _smaller(self, V: int) -> str:
        sizes = [
            (v, g, r, h)
            for r in range(len(self.requests), 0, -1)
            for v in range(min(V, 4), 1, -1)
            for g in range(self.gamma, 0, -1)
            for h in range(self.horizon, 0, -1)
            if num_branches(v, g, r, h) <= self.max_branches
        ]
        if not sizes:
            return "a higher limit (max_branches)"
        v, g, r, h = sizes[0]  # requests, tokens and gamma are kept as long as they can be
        return f"{r} requests, V={v}, gamma={g}, horizon={h}"


def num_branches(V: int, gamma: int, requests: int, horizon: int) -> int:
    """An upper bound of the branches of a law: states times branches of a step."""
    verdicts = gamma * max(V - 1, 1) + V
    states = sum(V**n for n in range(1, horizon + 1)) ** requests
    branches: int = states * (V**gamma * verdicts) ** requests
    return branches


@dataclass(frozen=True, slots=True)
class Law:
    """The exact joint law, and how it was found."""

    probability: dict[Outcome, Number]
    num_paths: int
    num_states: int
    faults: tuple[str, ...]

    def marginal(self, request: int) -> dict[tuple[int, ...], Number]:
        """The law of one request's tokens."""
        out: dict[tuple[int, ...], Number] = {}
        for outcome, p in self.probability.items():
            out[outcome[request]] = out.get(outcome[request], 0) + p
        return out


def product(laws: list[dict[tuple[int, ...], Number]]) -> dict[Outcome, Number]:
    """The joint law of independent requests."""
    joint: dict[Outcome, Number] = {(): 1}
    for one in laws:
        joint = {(*outcome, text): p * q for outcome, p in joint.items() for text, q in one.items()}
    return joint


def total_variation(p: dict[Any, Number], q: dict[Any, Number]) -> float:
    """Half the L1 distance of two laws on outcomes."""
    keys: set[Any] = {*p, *q}
    gaps: list[Any] = [abs(p.get(key, 0) - q.get(key, 0)) for key in keys]
    return float(sum(gaps)) / 2


class ProofClock:
    """Every step takes the same time, so that a memory of seconds has a value that can be compared."""

    def __init__(self) -> None:
        self._ticks = 0

    def reset(self) -> None:
        """Starts a step."""
        self._ticks = 0

    def __call__(self) -> float:
        """One tick later."""
        self._ticks += 1
        return self._ticks / 1024  # differences are exact

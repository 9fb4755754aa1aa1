"""The exact law of the first N tokens, found by running the unchanged engine over every branch of its decisions.

From each state the engine takes one step per branch (depth first over the script of choices); states that agree in
committed tokens, memories of all parts, pending features and the intervals of uniforms still alive are one state, with
their probabilities added. A path ends when every request has its first `horizon` tokens after the first anchor, or
has finished.

    law(Problem(parts, (Request((0,), seed=1),), gamma=2, horizon=2)).probability
"""

import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from sparkit.engine import Engine, Parts, Request, Snapshot, restore, snapshot
from sparkit.proofs.enumeration import Address, Enumerated, Known, Number, Path
from sparkit.proofs.witness import WitnessedVerifier, witnessed
from sparkit.rounds import Round

Outcome = tuple[tuple[int, ...], ...]
"""The first tokens of every request, in the order they were added."""
MAX_BRANCHES = 2_000_000


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


@dataclass(slots=True)
class State:
    """A place between two steps, reached with some probability."""

    snapshot: Snapshot
    known: dict[Address, Known]
    probability: Number = 0.0


Watch = Callable[[Snapshot, Path, list[Round]], None]
"""Sees every step: the state before it, the branch taken, the rounds emitted."""


def num_branches(V: int, gamma: int, requests: int, horizon: int) -> int:
    """An upper bound of the branches of a law: states times branches of a step."""
    verdicts = gamma * max(V - 1, 1) + V
    per_step = (V**gamma * verdicts) ** requests
    states = sum(V**n for n in range(1, horizon + 1)) ** requests
    return states * per_step


def law(problem: Problem, source: Enumerated | None = None, watch: Watch | None = None) -> Law:
    """The exact joint law of a problem.

    Args:
        problem: what is asked.
        source: of decisions; None: one that addresses as the verifier's own source does.
        watch: sees every step of every path.

    Raises:
        ValueError: before anything runs, if the number of branches could exceed the problem's limit; or for two
            requests with one seed (their decisions would not be independent).
        PartFault: if a part raises.
    """
    _admissible(problem)
    with torch.inference_mode():
        return _Exploration(problem, source, watch).run()


def _admissible(problem: Problem) -> None:
    seeds = [request.seed for request in problem.requests]
    if len(set(seeds)) != len(seeds):
        raise ValueError(f"requests with seeds {seeds}: every request needs a seed of its own")
    V, gamma, R = problem.parts.target.vocab_size, problem.gamma, len(problem.requests)
    bound = num_branches(V, gamma, R, problem.horizon)
    if bound > problem.max_branches:
        raise ValueError(
            f"{R} requests, V={V}, gamma={gamma}, horizon={problem.horizon}: up to {bound:.3g} branches, and the limit "
            f"is {problem.max_branches}; try {_smaller(problem)}"
        )


def _smaller(problem: Problem) -> str:
    sizes = [
        (V, g, R, h)
        for R in range(len(problem.requests), 0, -1)
        for V in range(min(problem.parts.target.vocab_size, 4), 1, -1)
        for g in range(problem.gamma, 0, -1)
        for h in range(problem.horizon, 0, -1)
        if num_branches(V, g, R, h) <= problem.max_branches
    ]
    if not sizes:
        return "a higher limit (max_branches)"
    V, g, R, h = max(sizes, key=lambda size: num_branches(*size))
    return f"{R} requests, V={V}, gamma={g}, horizon={h}"


class ProofClock:
    """Time stands still inside a step, so that a memory of seconds has a value that can be compared."""

    def __init__(self) -> None:
        self._ticks = 0

    def reset(self) -> None:
        """Starts a step."""
        self._ticks = 0

    def __call__(self) -> float:
        """One tick later."""
        self._ticks += 1
        return self._ticks / 1024  # differences are exact


@dataclass(slots=True)
class _Exploration:
    problem: Problem
    source: Enumerated | None
    watch: Watch | None
    engine: Engine = field(init=False)
    clock: ProofClock = field(init=False)
    found: dict[Outcome, Number] = field(default_factory=dict)
    faults: dict[str, None] = field(default_factory=dict)  # ordered set
    num_paths: int = 0

    def __post_init__(self) -> None:
        problem = self.problem
        parts = witnessed(problem.parts, self.source)
        assert isinstance(parts.verifier, WitnessedVerifier)
        self.source = parts.verifier.source
        longest = max(len(r.prompt) for r in problem.requests) + problem.horizon + 2 * (problem.gamma + 1) + 1
        self.clock = ProofClock()
        self.engine = Engine(
            parts,
            gamma=problem.gamma,
            num_slots=len(problem.requests),
            max_len=longest,
            token_budget=problem.token_budget,
            prefill_chunk=problem.prefill_chunk,
            clock=self.clock,
        )
        for request in problem.requests:
            self.engine.add(request)

    def run(self) -> Law:
        one: Number = 1.0 if self.source is None or self.source.oracle is None else Fraction(1)
        first = State(snapshot(self.engine), {}, one)
        states: dict[Any, State] = {None: first}
        queue: list[tuple[int, int, Any]] = [(0, 0, None)]
        order = itertools.count(1)
        num_states = 0
        while queue:
            _, _, key = heapq.heappop(queue)
            state = states.pop(key)
            num_states += 1
            for path in self._branches(state):
                p = state.probability * path.probability
                outcome = self._outcome()
                if outcome is not None:
                    self.found[outcome] = self.found.get(outcome, 0) + p
                    continue
                known = self._alive(path)
                key = self._key(known) if self.problem.merge else next(order)
                if key not in states:
                    states[key] = State(snapshot(self.engine), known, 0 * p)
                    heapq.heappush(queue, (self._progress(), next(order), key))
                states[key].probability += p
        return Law(self.found, self.num_paths, num_states, tuple(self.faults))

    def _branches(self, state: State) -> Iterator[Path]:
        assert self.source is not None
        scripts: list[tuple[int, ...]] = [()]
        while scripts:
            restore(self.engine, state.snapshot)
            self.clock.reset()
            path = self.source.begin(scripts.pop(), state.known, self._frontier())
            rounds = self.engine.step()
            self.num_paths += 1
            self.faults.update(dict.fromkeys(path.faults))
            scripts += path.alternatives()
            if self.watch is not None:
                self.watch(state.snapshot, path, rounds)
            yield path

    def _frontier(self) -> dict[int, int]:
        return {s.request.seed: s.anchor_position for s in self.engine.running.values()}

    def _alive(self, path: Path) -> dict[Address, Known]:
        frontier = self._frontier()
        return {a: k for a, k in path.known.items() if a.seed in frontier and a.until >= frontier[a.seed]}

    def _progress(self) -> int:
        """Grows with every step, so that all ways into a state are known before it is left."""
        running = sum(len(s.text) for s in self.engine.running.values()) + sum(self.engine.cache.lengths)
        done = sum(len(f.text) + len(f.request.prompt) + len(f.text) for f in self.engine.finished.values())
        return running + done

    def _outcome(self) -> Outcome | None:
        num = self.problem.num_tokens
        texts = {s.id: [t.id for t in s.text] for s in self.engine.running.values()}
        if self.engine.waiting or any(len(text) < num for text in texts.values()):
            return None
        texts |= {number: list(f.token_ids) for number, f in self.engine.finished.items()}
        return tuple(tuple(texts[number][:num]) for number in range(len(self.problem.requests)))

    def _key(self, known: dict[Address, Known]) -> Any:
        engine = self.engine
        memories = freeze(engine.memories)
        running = tuple((s.id, slot, tuple(s.tokens)) for slot, s in sorted(engine.running.items()))
        finished = tuple((number, tuple(f.token_ids)) for number, f in sorted(engine.finished.items()))
        owed = tuple(sorted((slot, engine.inbox.pending(slot)) for slot in engine.running))
        uniforms = tuple(sorted((address, k.lo, k.hi) for address, k in known.items()))
        # The number of the step can only matter to a part that remembers something.
        step = engine.num_steps if memories != freeze(type(engine.memories)(None, None, None)) else None
        return running, finished, len(engine.waiting), memories, owed, uniforms, step


def freeze(value: Any) -> Any:
    """A hashable twin of a memory: equal values freeze equal."""
    if isinstance(value, Tensor):
        return value.dtype, tuple(value.shape), value.detach().cpu().contiguous().numpy().tobytes()
    if is_dataclass(value) and not isinstance(value, type):
        return type(value), tuple(freeze(getattr(value, f.name)) for f in fields(value))
    if isinstance(value, dict):
        return tuple(sorted((repr(k), freeze(v)) for k, v in value.items()))
    if isinstance(value, (list, tuple)):
        return tuple(freeze(v) for v in value)
    if value is None or isinstance(value, (int, float, str, bool, bytes, frozenset)):
        return repr(value)
    return id(value), object()  # unknown: never merged


def total_variation(p: dict[Any, Number], q: dict[Any, Number]) -> float:
    """Half the L1 distance of two laws on outcomes."""
    return float(sum(abs(p.get(key, 0) - q.get(key, 0)) for key in p.keys() | q.keys())) / 2

"""The exact law of the first N tokens, found by running the unchanged engine over every branch of its decisions.

From each state the engine takes one step per branch (depth first over the script of choices); states that agree in
committed tokens, memories of all parts, pending features and the intervals of uniforms still alive are one state, with
their probabilities added. A path ends when every request has its first `horizon` tokens after the first anchor, or
has finished. `law` runs table models many branches to a step (`sparkit.proofs.batching`), everything else one.

    law(Problem(parts, (Request((0,), seed=1),), gamma=2, horizon=2)).probability
"""

import heapq
import itertools
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

import torch

from sparkit.engine import Engine, Memories, Snapshot, restore, snapshot
from sparkit.proofs.enumeration import Enumerated
from sparkit.proofs.freezing import Numbering
from sparkit.proofs.paths import Address, Known, Number, Path
from sparkit.proofs.problem import Law, Outcome, Problem, ProofClock, Watch
from sparkit.proofs.witness import WitnessedVerifier, witnessed


@dataclass(slots=True)
class State:
    """A place between two steps, reached with some probability."""

    snapshot: Snapshot
    known: dict[Address, Known]
    probability: Number = 0.0


def explore(problem: Problem, source: Enumerated | None = None, watch: Watch | None = None) -> Law:
    """The exact joint law of a problem, one branch to an engine step.

    Args:
        problem: what is asked.
        source: of decisions; None: one that addresses as the verifier's own source does.
        watch: sees every step of every path.

    Raises:
        ValueError: before anything runs, if the problem is too large (`Problem.check`).
        PartError: if a part raises.
    """
    problem.check()
    with torch.inference_mode():
        return _Exploration(problem, source, watch).run()


def state_key(
    texts: Hashable, memories: Memories, number: Numbering, owed: Hashable, known: dict[Address, Known], step: int
) -> Hashable:
    """What makes two states one; the number of the step can only matter to a part that remembers something."""
    parts = (memories.confidence, memories.calibrator, memories.scheduler)
    uniforms = tuple(sorted((address, k.lo, k.hi) for address, k in known.items()))
    return texts, tuple(map(number, parts)), owed, uniforms, None if all(part is None for part in parts) else step


def alive(path: Path, frontier: dict[int, int]) -> dict[Address, Known]:
    """What is known of uniforms that can still be asked for."""
    return {a: k for a, k in path.known.items() if a.seed in frontier and a.until >= frontier[a.seed]}


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
    number: Numbering = field(default_factory=Numbering)

    def __post_init__(self) -> None:
        problem = self.problem
        parts = witnessed(problem.parts, self.source)
        assert isinstance(parts.verifier, WitnessedVerifier)
        self.source = parts.verifier.enumerated
        self.clock = ProofClock()
        self.engine = Engine(
            parts,
            gamma=problem.gamma,
            num_slots=len(problem.requests),
            max_len=problem.max_len,
            token_budget=problem.token_budget,
            prefill_chunk=problem.prefill_chunk,
            clock=self.clock,
        )
        for request in problem.requests:
            self.engine.add(request)

    def run(self) -> Law:
        assert self.source is not None
        states: dict[Hashable, State] = {None: State(snapshot(self.engine), {}, self.source.one)}
        queue: list[tuple[int, int, Hashable]] = [(0, 0, None)]
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
                known = alive(path, self._frontier())
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
            if self.source.oracle is not None:
                self.source.oracle.begin(self._texts())
            rounds = self.engine.step()
            self.num_paths += 1
            self.faults.update(dict.fromkeys(path.faults))
            scripts += path.alternatives()
            if self.watch is not None:
                self.watch(state.snapshot.memories, path, rounds)
            yield path

    def _texts(self) -> dict[int, list[int]]:
        waiting = {request.seed: list(request.prompt) for _, request in self.engine.waiting}
        return waiting | {s.request.seed: s.tokens for s in self.engine.running.values()}

    def _frontier(self) -> dict[int, int]:
        return {s.request.seed: s.anchor_position for s in self.engine.running.values()}

    def _progress(self) -> int:
        """Grows with every step, so that all ways into a state are known before it is left."""
        running: int = sum(len(s.text) for s in self.engine.running.values()) + sum(self.engine.cache.lengths)
        return running + sum(2 * len(f.text) + len(f.request.prompt) for f in self.engine.finished.values())

    def _outcome(self) -> Outcome | None:
        num = self.problem.num_tokens
        texts = {s.id: [t.id for t in s.text] for s in self.engine.running.values()}
        if self.engine.waiting or any(len(text) < num for text in texts.values()):
            return None
        texts |= {number: list(f.token_ids) for number, f in self.engine.finished.items()}
        return tuple(tuple(texts[number][:num]) for number in range(len(self.problem.requests)))

    def _key(self, known: dict[Address, Known]) -> Hashable:
        engine = self.engine
        running = tuple((s.id, slot, tuple(s.tokens)) for slot, s in sorted(engine.running.items()))
        finished = tuple((number, tuple(f.token_ids)) for number, f in sorted(engine.finished.items()))
        owed = tuple(sorted((slot, engine.inbox.pending(slot)) for slot in engine.running))
        return state_key(
            (running, finished, len(engine.waiting)), engine.memories, self.number, owed, known, engine.num_steps
        )

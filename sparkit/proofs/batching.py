"""The same exact law, many branches to an engine step: for table models, whose caches hold nothing but lengths.

All states of equal progress are open at once. A wave takes one branch of each, side by side in one ragged batch of
worlds (`sparkit.proofs.worlds`); the branches that a wave passed by are the next wave.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

import torch

from sparkit.engine import Engine, Memories, Parts, Request
from sparkit.engine.inbox import Inbox
from sparkit.engine.requests import Sequence
from sparkit.proofs.branch import World
from sparkit.proofs.enumeration import Enumerated
from sparkit.proofs.exploration import alive
from sparkit.proofs.layout import Layout, Slices, memories_of
from sparkit.proofs.paths import COUPLED, Number, Path
from sparkit.proofs.problem import Law, Outcome, Problem, ProofClock, Watch
from sparkit.proofs.witness import WitnessedDrafter, WitnessedVerifier
from sparkit.proofs.worlds import WorldCalibrator, WorldConfidence, WorldScheduler
from sparkit.rounds import Limits, Round

BATCH = 512
"""Requests in one engine step."""


Task = tuple[World, tuple[int, ...]]


def explore_batched(problem: Problem, source: Enumerated | None = None, watch: Watch | None = None) -> Law:
    """As `sparkit.proofs.exploration.explore`; target and drafter must be tables.

    Raises:
        ValueError: if prompts are longer than a prefill chunk: worlds in the middle of a prompt do not mix with others.
    """
    problem.check()
    if any(len(r.prompt) > problem.prefill_chunk for r in problem.requests):
        raise ValueError("worlds cannot share a step with chunks of a prompt; use `explore`")
    with torch.inference_mode():
        return _Batched(problem, source, watch).run()


@dataclass(slots=True)
class _Batched:
    problem: Problem
    source: Enumerated | None
    watch: Watch | None
    engine: Engine = field(init=False)
    scheduler: WorldScheduler = field(init=False)
    clock: ProofClock = field(default_factory=ProofClock)
    slices: Slices = field(default_factory=Slices)
    found: dict[Outcome, Number] = field(default_factory=dict)
    faults: dict[str, None] = field(default_factory=dict)
    num_paths: int = 0
    requests: dict[tuple[Request, int], Request] = field(default_factory=dict)  # with a seed for every world

    def __post_init__(self) -> None:
        problem, parts = self.problem, self.problem.parts
        if self.source is None:
            self.source = Enumerated(COUPLED) if parts.verifier.schedule_invariant else Enumerated()
        self.source.width = len(problem.requests)
        self.scheduler = WorldScheduler(parts.scheduler, self.slices)
        self.engine = Engine(
            self._parts(),
            gamma=problem.gamma,
            num_slots=max(BATCH, len(problem.requests)),
            max_len=problem.max_len,
            token_budget=problem.token_budget,
            prefill_chunk=BATCH * problem.prefill_chunk,
            clock=self.clock,
        )

    def _parts(self) -> Parts:
        parts = self.problem.parts
        assert self.source is not None
        return replace(
            parts,
            drafter=None if parts.drafter is None else WitnessedDrafter(parts.drafter),
            confidence=WorldConfidence(parts.confidence, self.slices),
            calibrator=WorldCalibrator(parts.calibrator, self.slices),
            scheduler=self.scheduler,
            verifier=WitnessedVerifier(parts.verifier, self.source),
        )

    def run(self) -> Law:
        assert self.source is not None
        states: dict[Hashable, World] = {None: World.first(self.problem, self.source.one)}
        num_states = 0
        while states:
            least = min(world.progress for world in states.values())
            tasks: list[Task] = [(states.pop(k), ()) for k, w in list(states.items()) if w.progress == least]
            num_states += len(tasks)
            while tasks:
                wave, tasks = self._wave(tasks)
                for (world, _), path, after in wave:
                    tasks += [(world, script) for script in path.alternatives()]
                    self._keep(states, after, world.probability * path.probability)
        return Law(self.found, self.num_paths, num_states, tuple(self.faults))

    def _wave(self, tasks: list[Task]) -> tuple[list[tuple[Task, Path, World]], list[Task]]:
        drafts = tasks[-1][0].drafts  # worlds of one step must agree whether it has a draft
        room = BATCH // len(self.problem.requests)
        taken = [i for i, (world, _) in enumerate(tasks) if world.drafts == drafts][-room:]
        chosen = [tasks[i] for i in taken]
        left = set(taken)
        rest = [task for i, task in enumerate(tasks) if i not in left]
        return self._step(chosen), rest

    def _wants(self, world: World) -> tuple[bool, ...]:
        rows = world.decoding()
        if not rows or self.problem.parts.drafter is None:
            return ()
        ceiling = torch.tensor([min(s.remaining - 1, self.problem.gamma) for s in rows])
        limits = Limits(len(rows), torch.zeros_like(ceiling), ceiling, self.problem.token_budget)
        ids = tuple(s.id % len(self.problem.requests) for s in rows)
        return self.scheduler.wants(world.memories.scheduler, ids, limits, self.problem.parts.capacity)

    def _step(self, tasks: list[Task]) -> list[tuple[Task, Path, World]]:
        assert self.source is not None
        self._load([world for world, _ in tasks])
        one = self.source.one
        self.source.paths = [Path(script, dict(w.known), w.frontier, probability=one) for w, script in tasks]
        self.clock.reset()
        rounds = self.engine.step()
        self.num_paths += len(tasks)
        out = [
            (task, path, self._read(index, task[0], path))
            for index, (task, path) in enumerate(zip(tasks, self.source.paths, strict=True))
        ]
        for path in self.source.paths:
            self.faults.update(dict.fromkeys(path.faults))
        if self.watch is not None:
            self._tell(tasks, rounds)
        return out

    def _tell(self, tasks: list[Task], rounds: list[Round]) -> None:
        assert self.watch is not None and self.source is not None
        num = len(self.problem.requests)
        groups: list[list[Round]] = [[] for _ in tasks]
        for one in rounds:
            groups[one.request // num].append(replace(one, request=one.request % num))
        for (world, _), path, group in zip(tasks, self.source.paths, groups, strict=True):
            self.watch(world.memories, path, group)

    def _load(self, worlds: list[World]) -> None:
        engine, num = self.engine, len(self.problem.requests)
        engine.running, engine.finished, engine.free_slots = {}, {}, []
        engine.inbox = Inbox()
        engine.cache.lengths[:] = [0] * len(engine.cache.lengths)
        rows, first = [], 0
        for index, world in enumerate(worlds):
            for r, sequence in enumerate(world.requests):
                if isinstance(sequence, Sequence):
                    self._place(index * num + r, sequence, world, r)
            rows.append((first, first + sum(world.wants)))  # of those that draft
            first = rows[-1][1]
        steps = tuple(world.num_steps + 1 for world in worlds)
        kinds = ("confidence", "calibrator", "scheduler")
        per_part = [tuple(getattr(world.memories, kind) for world in worlds) for kind in kinds]
        resting = tuple(world.resting for world in worlds)
        engine.memories = Memories(*(Layout(tuple(rows), steps, memories, num, resting) for memories in per_part))

    def _place(self, slot: int, sequence: Sequence, world: World, r: int) -> None:
        engine = self.engine
        key = (sequence.request, slot)
        if key not in self.requests:
            self.requests[key] = replace(sequence.request, seed=slot)
        engine.running[slot] = Sequence(
            slot, self.requests[key], slot, sequence.limit, list(sequence.tokens), list(sequence.text)
        )
        engine.cache.lengths[slot] = world.lengths[r]
        absorbed = world.absorbed[r]
        if absorbed is not None:
            engine.inbox.absorbed[slot] = absorbed
        if world.features[r]:
            engine.inbox.features[slot] = list(world.features[r])

    def _read(self, index: int, before: World, path: Path) -> World:
        engine, num = self.engine, len(self.problem.requests)
        slots = range(index * num, (index + 1) * num)
        requests = tuple(
            engine.running.get(slot) or engine.finished.get(slot) or old
            for slot, old in zip(slots, before.requests, strict=True)
        )
        after = World(
            requests,
            tuple(engine.cache.lengths[slot] for slot in slots),
            tuple(engine.inbox.absorbed.get(slot) for slot in slots),
            tuple(engine.inbox.features.get(slot, []) for slot in slots),
            memories_of(engine.memories, index),
            before.num_steps + 1,
            {},
        )
        after.known = alive(path, after.frontier)
        return after

    def _keep(self, states: dict[Hashable, World], after: World, p: Number) -> None:
        outcome = after.outcome(self.problem.num_tokens)
        if outcome is not None:
            self.found[outcome] = self.found.get(outcome, 0) + p
            return
        key: Hashable = after.key(self.slices.number) if self.problem.merge else object()
        if key not in states:
            after.probability = 0 * p
            after.wants = self._wants(after)
            states[key] = after
        states[key].probability += p

"""Discrete events, one an engine step: users come, the real parts decide their blocks, the curve tells the time.

Every step takes a prefill chunk and one block of each decoding request, as the engine does. A request walks through
the blocks of one recorded request, one a step, from the start again when they end, until its tokens are generated: a
shorter cut means more steps, not another text. The step takes 1 / rounds_per_second(R, B) of the curve.

    simulate(policy, blocks, Load(users=64), num_steps=2000).tokens_per_second
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from sparkit.serving.load import Choices, Chooser, Load
from sparkit.serving.outcome import Log, Outcome, StepLine, outcome
from sparkit.serving.policy import Batch, Policy
from sparkit.serving.sources import Blocks

Progress = Callable[[int, int], None]


@dataclass(slots=True)
class _Slots:
    """Columns of the running requests; row = slot."""

    text: Tensor
    offset: Tensor  # blocks walked
    remaining: Tensor  # tokens to generate; 0: the slot is free
    prompt_left: Tensor
    generated: Tensor
    seed: Tensor
    order: Tensor  # of admission
    arrived: Tensor
    first_at: Tensor  # when the first token was there
    turn: Tensor

    @classmethod
    def empty(cls, num: int) -> "_Slots":
        whole = [torch.zeros(num, dtype=torch.int64) for _ in range(8)]
        times = [torch.zeros(num, dtype=torch.float64) for _ in range(2)]
        columns: list[Tensor] = [*whole[:7], *times, whole[7] - 1]
        return cls(*columns)

    def fill(self, slots: Tensor, found: Choices, prompt: int, arrived: Tensor, order: int) -> None:
        """Puts new requests into free slots."""
        self.text[slots], self.remaining[slots], self.seed[slots] = found.text, found.tokens, found.seed
        self.offset[slots], self.generated[slots], self.prompt_left[slots] = 0, 0, prompt
        self.arrived[slots] = arrived
        self.order[slots] = order + torch.arange(len(slots))


def simulate(
    policy: Policy, blocks: Blocks, load: Load, num_steps: int = 2000, progress: Progress | None = None
) -> Outcome:
    """Serves a load for some engine steps."""
    if num_steps < 1:
        raise ValueError(f"num_steps={num_steps}: expected 1 or more engine steps")
    run = _Run(policy, blocks, load, num_steps)
    for number in range(1, num_steps + 1):
        run.step(number)
        if progress is not None and number % 64 == 0:
            progress(number, num_steps)
    return outcome(run.log, policy.name, load)


class _Run:
    """The state of a simulation."""

    def __init__(self, policy: Policy, blocks: Blocks, load: Load, num_steps: int) -> None:
        self.policy, self.blocks, self.load = policy, blocks, load
        self.chooser, self.slots = Chooser.of(load, blocks), _Slots.empty(load.num_slots)
        self.memories, self.clock, self.log, self.num_admitted = policy.start(), 0.0, Log(), 0
        self.arrivals: deque[float] = deque()
        if load.rate is not None:
            self.arrivals.extend(load.arrivals(num_steps * load.num_slots // 2 + 1).tolist())

    def step(self, number: int) -> None:
        """One engine step."""
        waiting = self._admit()
        slots = self.slots
        is_active = slots.remaining > 0
        is_decoding = is_active & (slots.prompt_left == 0)
        chunk = self._chunks(is_active)
        rows = is_decoding.nonzero()[:, 0]
        base = len(rows) + int(chunk.sum())
        done = self._decode(rows, base, number) if len(rows) else (1 / self._prefill_rate(base), None)
        seconds, decided = done
        self.clock += seconds
        slots.prompt_left -= chunk
        begins = is_active & (slots.prompt_left == 0) & (chunk > 0)
        tokens = self._emit(rows, decided, begins)
        verified = 0 if decided is None else int(decided[0].sum())
        accepted = 0 if decided is None else int(decided[1].sum())
        is_undrafted = decided is not None and not decided[2]
        self.log.steps.append(StepLine(seconds, len(rows), tokens, verified, accepted, is_undrafted, waiting))
        self._retire(is_active, number)

    def _prefill_rate(self, tokens: int) -> float:
        return self.policy.capacity.undrafted_rate(1, tokens)

    def _admit(self) -> int:
        """Fills free slots; returns how many requests wait."""
        free = (self.slots.remaining == 0).nonzero()[:, 0]
        if self.load.users is not None:
            if len(free):
                self.slots.turn[free] += 1
                self._fill(free, free + 1, self.slots.turn[free], torch.full((len(free),), self.clock).double())
            return 0
        if len(free) == self.load.num_slots and self.arrivals[0] > self.clock:
            self.clock = self.arrivals[0]  # nothing to do until somebody comes
        here: list[float] = []
        while len(here) < len(free) and self.arrivals and self.arrivals[0] <= self.clock:
            here.append(self.arrivals.popleft())
        if here:
            turn = self.num_admitted + torch.arange(len(here))
            self._fill(free[: len(here)], torch.zeros_like(turn), turn, torch.tensor(here, dtype=torch.float64))
        return _num_until(self.arrivals, self.clock)

    def _fill(self, slots: Tensor, stream: Tensor, turn: Tensor, arrived: Tensor) -> None:
        found = self.chooser.choose(stream, turn)
        self.slots.fill(slots, found, self.load.prompt_tokens, arrived, self.num_admitted)
        self.num_admitted += len(slots)

    def _chunks(self, is_active: Bool[Tensor, " S"]) -> Int[Tensor, " S"]:
        """Prompt tokens of this step, oldest request first."""
        left = self.slots.prompt_left * is_active
        if not bool(left.any()):
            return left
        order = torch.where(left > 0, self.slots.order, torch.iinfo(torch.int64).max).argsort()
        before = left[order].cumsum(0) - left[order]
        taken = torch.minimum(left[order], (self.load.prefill_chunk - before).clamp(min=0))
        return torch.zeros_like(left).scatter(0, order, taken)

    def _decode(self, rows: Int[Tensor, " R"], base: int, number: int) -> tuple[float, tuple[Tensor, Tensor, bool]]:
        slots, blocks = self.slots, self.blocks
        text = slots.text[rows]
        block = blocks.first[text] + slots.offset[rows] % blocks.count[text]
        batch = Batch(
            requests=tuple(slots.order[rows].tolist()),
            seeds=slots.seed[rows],
            anchors=self.load.prompt_tokens + slots.generated[rows],
            logits=blocks.logits[block],
            accepted=blocks.accepted[block],
            accept_rate=blocks.accept_rate[block],
            ceiling=(slots.remaining[rows] - 1).clamp(max=blocks.gamma),
            base_tokens=base,
        )
        decided, self.memories = self.policy.step(batch, self.memories, number)
        slots.offset[rows] += 1
        return decided.seconds, (decided.verify_len, decided.accepted, decided.is_drafted)

    def _emit(self, rows: Tensor, decided: tuple[Tensor, Tensor, bool] | None, begins: Tensor) -> int:
        slots = self.slots
        emitted = begins.long()  # the prefill's own token
        slots.first_at = torch.where(begins, self.clock, slots.first_at)
        if decided is not None:
            emitted[rows] += 1 + decided[1]
        slots.remaining -= emitted
        slots.generated += emitted
        return int(emitted.sum())

    def _retire(self, was_active: Tensor, number: int) -> None:
        slots = self.slots
        ended = was_active & (slots.remaining == 0)
        if bool(ended.any()):
            speed = (slots.generated[ended] - 1) / (self.clock - slots.first_at[ended])
            self.log.finished.append((number, speed, slots.first_at[ended] - slots.arrived[ended]))


def _num_until(arrivals: deque[float], clock: float) -> int:
    for place, time in enumerate(arrivals):
        if time > clock:
            return place
    return len(arrivals)

"""Parts that remember, brought to the brink: one more round, and what they remember changes what they do."""

from dataclasses import replace
from typing import Any

import torch

from sparkit.engine import Memories, Parts
from sparkit.labels import Records
from sparkit.pace import Known, Pace
from sparkit.proofs.paths import Path
from sparkit.rounds import Limits, Round
from sparkit.survival import survival_of
from sparkit.winnings import Step, Sums


class Warm:
    """A scheduler that has seen 32 drafted rounds that did not pay."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.lossless, self.batch_independent = inner, inner.lossless, inner.batch_independent

    def start(self) -> Any:
        memory = self.inner.start()
        sums = {num: Sums(0.0, ((Step(num, 2 * num, num), 5.0),)) for num in (1, 2)}
        pace = Pace(tuple((num, Known(32, lately, lately)) for num, lately in sums.items()))
        return pace if isinstance(memory, Pace) else replace(memory, pace=pace)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def drafts(self, memory: Any, limits: Any, capacity: Any) -> bool:
        return bool(self.inner.drafts(memory, limits, capacity))

    def participants(self, memory: Any, requests: Any, limits: Any, capacity: Any) -> tuple[bool, ...]:
        answer: tuple[bool, ...] = self.inner.participants(memory, requests, limits, capacity)
        return answer

    def plan(self, survival: Any, capacity: Any, limits: Any, memory: Any) -> Any:
        return self.inner.plan(survival, capacity, limits, memory)

    def observe(self, memory: Any, rounds: Any) -> Any:
        return self.inner.observe(memory, rounds)

    def observe_undrafted(self, memory: Any, num_tokens: int, num_requests: int, seconds: float) -> Any:
        return self.inner.observe_undrafted(memory, num_tokens, num_requests, seconds)


class Doubting:
    """An online calibrator with 29 rounds behind it that were accepted less often than they promised.

    The next verified round is the thirtieth, so the first fit happens inside the proof, and moves what follows.
    """

    lossless, batch_independent = True, False

    def __init__(self, inner: Any, gamma: int) -> None:
        self.inner, self.gamma = inner, gamma

    def start(self) -> Any:
        num, gamma = 29, self.gamma
        logits = torch.full((num, gamma), 1.4, dtype=torch.float64)
        accepted = torch.tensor([gamma if i % 4 == 0 else 0 for i in range(num)])
        known = torch.full((num, gamma), 0.3, dtype=torch.float64)
        records = Records(logits, accepted, torch.full((num,), gamma), known)
        return replace(self.inner.start(), records=records)

    def calibrate(self, logits: Any, memory: Any) -> Any:
        return self.inner.calibrate(logits, memory)

    def floor(self, memory: Any, anchors: Any, decisions: Any) -> Any:
        return self.inner.floor(memory, anchors, decisions)

    def observe(self, memory: Any, rounds: Any) -> Any:
        return self.inner.observe(memory, rounds)


MEMORIES = (
    ("delayed:undrafted_probe_every=2", "identity", 2, 5),
    ("foresight:prior_rounds=0.5,undrafted_probe_every=2", "identity", 2, 5),
    ("delayed:undrafted_probe_every=2", "identity", 4, 4),
    ("foresight:prior_rounds=0.5,undrafted_probe_every=2", "identity", 4, 4),
    ("threshold:value=0.7", "online:refit_every=1,probe_every=2", 2, 5),
    ("threshold:value=0.7", "online:refit_every=1,probe_every=2", 4, 4),
)


LARGER_MEMORIES = (
    ("delayed:undrafted_probe_every=2", "identity", 2, 7),
    ("foresight:prior_rounds=0.5,undrafted_probe_every=2", "identity", 2, 7),
    ("delayed:undrafted_probe_every=2", "identity", 4, 5),
    ("foresight:prior_rounds=0.5,undrafted_probe_every=2", "identity", 4, 5),
    ("threshold:value=0.7", "online:refit_every=1,probe_every=2", 2, 4),
)


class Seen:
    """Watches for a plan that the first memories would not have made, undrafted steps, and steps where some rest."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.changed = self.undrafted = self.mixed = False

    def __call__(self, memories: Memories, path: Path, rounds: list[Round]) -> None:
        self.mixed |= {"drafted", "undrafted"} <= {one.kind for one in rounds}
        for one in rounds:
            self.undrafted |= one.kind == "undrafted"
            if one.kind == "drafted" and not self.changed and not one.is_probe:
                self.changed = self._fresh(one) != one.verify_len

    def _fresh(self, one: Round) -> int:
        parts = self.parts
        logits = torch.tensor([one.logits], dtype=torch.float64)
        survival = survival_of(parts.calibrator.calibrate(logits, parts.calibrator.start()))
        limits = Limits(1, torch.tensor([one.floor]), torch.tensor([one.ceiling]))
        plan, _ = parts.scheduler.plan(survival, parts.capacity, limits, parts.scheduler.start())
        return int(plan.verify_len)

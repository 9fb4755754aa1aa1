"""One optimisation loop for the target and for every drafter: AdamW or Muon, warm-up, cosine, clipping, resume.

The learning rate follows *progress* in [0, 1]: steps done of the steps planned, or seconds spent of the minutes
planned. A time budget keeps the whole cosine on a machine whose speed is not known in advance.

Not done here: what the loss is (`sparkit.training.target`, `sparkit.training.drafter`), where batches come from.

>>> Optimisation(peak_rate=3e-3, steps=100).rate(0.0) < 3e-3
True
"""

import json
import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from rich.progress import Progress, TextColumn, TimeElapsedColumn
from torch import Tensor, nn

from sparkit.training.checkpoint import FILE, Note, load_checkpoint, save_checkpoint, trainable
from sparkit.training.distributed import World, agree, share_gradients
from sparkit.training.muon import Muon, is_hidden_map

log = logging.getLogger(__name__)


class StepLoss(NamedTuple):
    """One step's loss as a sum and its weight, so that ranks and packs of unequal size add up correctly."""

    total: Tensor  # scalar, differentiable
    weight: Tensor  # scalar
    parts: Mapping[str, float] = {}  # detached numbers to log


Objective = Callable[[int], StepLoss]
"""step -> loss; the batch and its anchors are functions of the step number."""


@dataclass(frozen=True, slots=True)
class Optimisation:
    """AdamW or Muon with warm-up and cosine, over a number of steps or of minutes."""

    peak_rate: float
    steps: int | None = None
    minutes: float | None = None
    warmup_share: float = 0.04
    final_share: float = 0.02  # of the peak, at the end
    weight_decay: float = 0.1  # on matrices only
    betas: tuple[float, float] = (0.9, 0.95)
    clip_norm: float = 1.0
    method: Literal["adamw", "muon"] = "adamw"
    adamw_share: float = 1.0  # of Muon's rate, for the tables and vectors that it leaves to AdamW

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.minutes is None):
            raise ValueError(f"Optimisation(steps={self.steps}, minutes={self.minutes}): give one of the two")
        if (self.steps is not None and self.steps < 1) or (self.minutes is not None and self.minutes <= 0):
            raise ValueError(f"Optimisation(steps={self.steps}, minutes={self.minutes}): expected more than 0")

    def progress(self, step: int, seconds: float) -> float:
        """Share of the budget spent, in [0, 1]."""
        share = step / self.steps if self.steps is not None else seconds / (60 * (self.minutes or 1.0))
        return min(1.0, share)

    def rate(self, progress: float) -> float:
        """Learning rate at a share of the budget."""
        if progress < self.warmup_share:
            return self.peak_rate * (progress + 1e-3) / (self.warmup_share + 1e-3)
        turn = (progress - self.warmup_share) / (1 - self.warmup_share)
        return self.peak_rate * (self.final_share + (1 - self.final_share) * 0.5 * (1 + math.cos(math.pi * turn)))


def optimizer_of(module: nn.Module, plan: Optimisation, world: World = World()) -> torch.optim.Optimizer:
    """The plan's optimiser over what is trainable; vectors (norms, biases) do not decay."""
    parameters, is_muon = trainable(module), plan.method == "muon"
    maps = [p for name, p in parameters.items() if is_muon and is_hidden_map(name, p)]
    others = [p for name, p in parameters.items() if not (is_muon and is_hidden_map(name, p))]
    groups = [
        {"params": [p for p in others if p.ndim > 1], "weight_decay": plan.weight_decay},
        {"params": [p for p in others if p.ndim <= 1], "weight_decay": 0.0},
    ]
    if is_muon:
        groups = [{**group, "share": plan.adamw_share} for group in groups]
        groups.append({"params": maps, "weight_decay": plan.weight_decay, "is_map": True})
        return Muon([g for g in groups if g["params"]], lr=plan.peak_rate, betas=plan.betas, world=world)
    return torch.optim.AdamW([g for g in groups if g["params"]], lr=plan.peak_rate, betas=plan.betas, fused=True)


@dataclass(slots=True)
class Training:
    """A run in progress: what changes from step to step."""

    module: nn.Module
    plan: Optimisation
    folder: Path | None = None
    world: World = field(default_factory=World)
    step: int = 0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self.optimizer = optimizer_of(self.module, self.plan, self.world)
        self.parameters = list(trainable(self.module).values())
        if self.folder is not None and (self.folder / FILE).exists():
            note = load_checkpoint(self.folder, self.module, self.optimizer, self.world.size)
            self.step, self.seconds = note.step, note.seconds
            if self.world.is_main:
                log.warning("%s: going on from step %d of the checkpoint found there", self.folder, self.step)

    optimizer: torch.optim.Optimizer = field(init=False)
    parameters: list[nn.Parameter] = field(init=False)

    @property
    def progress(self) -> float:
        """Share of the budget spent."""
        return self.plan.progress(self.step, self.seconds)

    def update(self, objective: Objective) -> dict[str, float]:
        """One optimiser step; returns plain numbers."""
        started = time.perf_counter()
        rate = self.plan.rate(self.progress)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group.get("share", 1.0)
        self.optimizer.zero_grad(set_to_none=True)
        loss = objective(self.step)
        if loss.total.requires_grad:
            loss.total.backward()
        mean = share_gradients(self.parameters, loss.total, loss.weight, self.world)
        norm = nn.utils.clip_grad_norm_(self.parameters, self.plan.clip_norm)
        self.optimizer.step()
        self.step += 1
        self.seconds = agree(self.seconds + time.perf_counter() - started, self.world)
        return {"step": float(self.step), "loss": float(mean), "norm": float(norm), "rate": rate, **loss.parts}

    def save(self) -> None:
        """Writes the checkpoint, on the main process."""
        if self.folder is not None and self.world.is_main:
            save_checkpoint(self.folder, self.module, self.optimizer, Note(self.step, self.seconds, self.world.size))


def run(training: Training, objective: Objective, *, save_seconds: float = 120.0, log_steps: int = 20) -> None:
    """Trains until the budget is spent; Ctrl-C leaves a checkpoint of the last whole step."""
    training.module.train()
    saved = time.perf_counter()
    with _bar(training) as advance:
        try:
            while training.progress < 1.0:
                numbers = training.update(objective)
                advance(numbers)
                if training.step % log_steps == 0:
                    _log(training, numbers)
                if time.perf_counter() - saved > save_seconds:
                    training.save()
                    saved = time.perf_counter()
        finally:
            training.save()


def _log(training: Training, numbers: Mapping[str, float]) -> None:
    if training.folder is None or not training.world.is_main:
        return
    training.folder.mkdir(parents=True, exist_ok=True)
    with (training.folder / "log.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({"seconds": training.seconds, **numbers}) + "\n")


class _bar:  # noqa: N801 - a context, not a type
    """The progress bar, on the main process only."""

    def __init__(self, training: Training) -> None:
        self.training = training
        columns = (*Progress.get_default_columns(), TimeElapsedColumn(), TextColumn("{task.fields[note]}"))
        self.progress = Progress(*columns, disable=not training.world.is_main)
        self.task = self.progress.add_task("training", total=1.0, note="")

    def __enter__(self) -> Callable[[Mapping[str, float]], None]:
        self.progress.start()
        return self.advance

    def advance(self, numbers: Mapping[str, float]) -> None:
        note = f"step {numbers['step']:.0f} loss {numbers['loss']:.3f}"
        self.progress.update(self.task, completed=self.training.progress, note=note)

    def __exit__(self, *error: object) -> None:
        self.progress.stop()

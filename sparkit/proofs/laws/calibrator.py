"""A calibrator is non-decreasing at each position, stays in [0, 1], and learns only from what was verified.

Exact ends: logit +inf gives 1, -inf gives 0, nan gives 0. Learning: whatever the rounds say past verify_len + 1 (the
row after the cut still judges one position) must leave later answers unchanged.
"""

import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from sparkit.decisions import AddressedSource
from sparkit.proofs.freezing import freeze
from sparkit.proofs.laws.confidence import random_draft
from sparkit.proofs.laws.keeping import Report, hold
from sparkit.protocols import Calibrator
from sparkit.rounds import Limits, Plan, Rounds, Verdict
from sparkit.sampling import total_variation
from sparkit.survival import survival_of

NUM_ROUNDS = 60
"""Steps of three requests: enough for a calibrator that learns to have learned something."""


def check_calibrator(part: Calibrator, *, gamma: int = 2, seed: int = 0) -> Report:
    """Holds a calibrator to its laws, from its first memory and after some rounds.

    Args:
        part: the calibrator.
        gamma: draft positions.
        seed: of logits and rounds.
    """
    generator = torch.Generator().manual_seed(seed)
    steps = [random_rounds(generator, number, 3, gamma) for number in range(NUM_ROUNDS)]
    probe = torch.randn(9, gamma, generator=generator, dtype=torch.float64) * 4

    @functools.cache
    def memories() -> tuple[Any, ...]:
        return part.start(), learned(part, steps)

    return hold(
        "calibrator",
        part,
        {
            "confidences lie in [0, 1]": lambda: _range(part, memories(), probe),
            "non-decreasing at each position": lambda: _rising(part, memories(), gamma),
            "infinite logits give exactly 0 and 1, nan gives 0": lambda: _ends(part, memories(), gamma),
            "float64 stays float64": lambda: _precision(part, memories(), probe),
            "unverified positions teach nothing": lambda: _verified_only(part, steps, probe, generator),
            "floors are 0 or more, one a request, decided by address": lambda: _floors(part, memories()),
            "asking and learning are pure": lambda: _purity(part, steps, probe),
        },
    )


def learned(part: Calibrator, steps: list[Rounds]) -> Any:
    """The memory after some steps."""
    memory = part.start()
    for rounds in steps:
        memory = part.observe(memory, rounds)
    return memory


def random_rounds(generator: torch.Generator, number: int, R: int, gamma: int) -> Rounds:
    """A step that a verifier could have left behind."""
    draft, target = random_draft(generator, R, gamma, 5, 4, 3), random_draft(generator, R, gamma, 5, 4, 3).p_draft
    logits = torch.randn(R, gamma, generator=generator, dtype=torch.float64)
    verify_len = torch.randint(gamma + 1, (R,), generator=generator)
    accepted = torch.minimum(torch.randint(gamma + 1, (R,), generator=generator), verify_len)
    confidence = torch.sigmoid(logits)
    judged = torch.arange(gamma) <= verify_len[:, None]
    return Rounds(
        step=number,
        requests=tuple(range(R)),
        anchors=torch.arange(R) + number,
        draft=draft,
        logits=logits,
        confidence=confidence,
        survival=survival_of(confidence),
        limits=Limits(R, torch.zeros(R, dtype=torch.int64), torch.full((R,), gamma)),
        plan=Plan(verify_len),
        verdict=Verdict(accepted, torch.zeros(R, dtype=torch.int64), accepted == verify_len),
        accept_rate=torch.where(judged, 1 - total_variation(draft.p_draft, target), torch.nan),
        seconds=0.01,
    )


def unverified_changed(rounds: Rounds, generator: torch.Generator) -> Rounds:
    """The same rounds with everything past verify_len + 1 replaced, and tokens past verify_len."""
    R, gamma = rounds.logits.shape
    other = random_rounds(generator, rounds.step, R, gamma)
    past = torch.arange(gamma) > rounds.plan.verify_len[:, None]
    draft = replace(
        rounds.draft,
        tokens=torch.where(past | ~_verified(rounds), other.draft.tokens, rounds.draft.tokens),
        p_draft=torch.where(past[..., None], other.draft.p_draft, rounds.draft.p_draft),
    )
    confidence = torch.where(past, other.confidence, rounds.confidence)
    logits = torch.where(past, other.logits, rounds.logits)
    return replace(rounds, draft=draft, logits=logits, confidence=confidence, survival=survival_of(confidence))


def _verified(rounds: Rounds) -> Tensor:
    return torch.arange(rounds.logits.shape[1]) < rounds.plan.verify_len[:, None]


def _range(part: Calibrator, memories: tuple[Any, ...], probe: Tensor) -> Iterator[str]:
    for memory in memories:
        confidence = part.calibrate(probe, memory)
        if confidence.shape != probe.shape or not bool(((confidence >= 0) & (confidence <= 1)).all()):
            yield f"logits {probe.tolist()} gave {confidence.tolist()}"


def _rising(part: Calibrator, memories: tuple[Any, ...], gamma: int) -> Iterator[str]:
    logits = torch.linspace(-9, 9, 73, dtype=torch.float64)[:, None].expand(-1, gamma).contiguous()
    for memory in memories:
        falls = part.calibrate(logits, memory).diff(dim=0) < -1e-15
        if bool(falls.any()):
            step, position = falls.nonzero()[0].tolist()
            yield f"position {position + 1}: confidence falls between logits {logits[step : step + 2, 0].tolist()}"


def _ends(part: Calibrator, memories: tuple[Any, ...], gamma: int) -> Iterator[str]:
    rows = torch.tensor([[torch.inf], [-torch.inf], [torch.nan]], dtype=torch.float64).expand(-1, gamma).contiguous()
    for memory in memories:
        confidence = part.calibrate(rows, memory)
        if confidence.tolist() != [[1.0] * gamma, [0.0] * gamma, [0.0] * gamma]:
            yield f"logits +inf, -inf, nan gave {confidence.tolist()}"


def _precision(part: Calibrator, memories: tuple[Any, ...], probe: Tensor) -> Iterator[str]:
    for memory in memories:
        if part.calibrate(probe, memory).dtype != torch.float64:
            yield f"confidences came out as {part.calibrate(probe, memory).dtype}"


def _verified_only(part: Calibrator, steps: list[Rounds], probe: Tensor, generator: torch.Generator) -> Iterator[str]:
    told = part.calibrate(probe, learned(part, steps))
    again = part.calibrate(probe, learned(part, [unverified_changed(rounds, generator) for rounds in steps]))
    if not torch.equal(told, again):
        yield f"{again.tolist()} instead of {told.tolist()} after rounds that differ only past verify_len + 1"


def _floors(part: Calibrator, memories: tuple[Any, ...]) -> Iterator[str]:
    anchors, seeds = torch.tensor([3, 8, 11, 200]), torch.tensor([5, 6, 7, 8])
    for memory in memories:
        decisions = AddressedSource().at(seeds, anchors)
        floor = part.floor(memory, anchors, decisions)
        if floor.shape != anchors.shape or bool((floor < 0).any()):
            yield f"floor {floor.tolist()} for anchors {anchors.tolist()}"
        alone = [
            int(part.floor(memory, anchors[r : r + 1], AddressedSource().at(seeds[r : r + 1], anchors[r : r + 1])))
            for r in range(4)
        ]
        if alone != floor.tolist():
            yield f"floors {floor.tolist()} in a batch, {alone} alone"


def _purity(part: Calibrator, steps: list[Rounds], probe: Tensor) -> Iterator[str]:
    memory = learned(part, steps)
    before = freeze(memory)
    if freeze(part.calibrate(probe, memory)) != freeze(part.calibrate(probe, memory)):
        yield "asked twice, it gave two answers"
    if freeze(part.observe(memory, steps[0])) != freeze(part.observe(memory, steps[0])):
        yield "shown the same rounds twice, it learned two things"
    if freeze(memory) != before:
        yield "calibrate or observe changed the memory it was given"

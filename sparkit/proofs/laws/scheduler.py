"""A scheduler returns floor..ceiling, keeps to its budget, is pure, and does not look past its cut.

The last is the whole-plan test of design section 2: for every plan l, changing the confidences c_{r,j} of ALL requests
at once, for all j > l_r + 1, leaves verify_len of all requests unchanged. It is asked exhaustively over a grid of
confidences with ties, 0 and 1, and at random for larger batches. (One request at a time is not enough.)
"""

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from sparkit.capacity import Capacity, Curve, from_rates
from sparkit.proofs.blame import spell
from sparkit.proofs.freezing import freeze
from sparkit.proofs.laws.keeping import Report, hold
from sparkit.protocols import Scheduler, Selecting, Sizing
from sparkit.rounds import Limits
from sparkit.survival import survival_of

Twin = Callable[[list[list[float]], Capacity, Limits], list[int]]
GRID = (0.0, 0.5, 0.9, 1.0)
CURVES = (
    (1.0, 0.5, 0.45, 0.44, 0.43, 0.42),
    (1.0, 1.0, 0.6, 0.6, 0.55, 0.5),
    (1.0, 0.65, 0.5, 0.45, 0.42, 0.4),
)


def check_scheduler(part: Scheduler, memories: tuple[Any, ...] = (), twin: Twin | None = None) -> Report:
    """Holds a scheduler to its laws.

    Args:
        part: the scheduler.
        memories: memories to plan from, beside `start()` (what some rounds have left, for one that learns).
        twin: the same scheduler written as plain loops: (survival, capacity, limits) to verify_len, from `start()`.
    """
    starts = (part.start(), *memories)
    return hold(
        "scheduler",
        part,
        {
            "verify_len lies in floor..ceiling": lambda: _bounds(part, starts),
            "the token budget is kept": lambda: _budget(part, starts),
            "the whole plan does not look past its cut": lambda: _non_anticipation(part, starts),
            "nor in larger batches": lambda: _non_anticipation_at_random(part, starts),
            "the order of requests does not matter": lambda: _order(part, starts),
            "nan counts as 0": lambda: _nan(part, starts),
            "planning is pure": lambda: _purity(part, starts),
            "drafts answers yes or no": lambda: _drafts(part, starts),
            "participants answers for every request": lambda: _participants(part, starts),
            "block_lens lie in 1..gamma": lambda: _block_lens(part, starts),
            **({} if twin is None else {"it equals its slow literal twin": lambda: _equals(part, twin)}),
        },
    )


def limits_of(R: int, gamma: int, floor: int = 0, ceiling: int | None = None, budget: int | None = None) -> Limits:
    """The same limits for R requests."""
    top = gamma if ceiling is None else ceiling
    return Limits(R, torch.full((R,), floor), torch.full((R,), top), budget)


def plan_of(part: Scheduler, confidence: Tensor, capacity: Capacity, limits: Limits, memory: Any) -> list[int]:
    """The plan for some confidences."""
    plan, _ = part.plan(survival_of(confidence), capacity, limits, memory)
    return [int(n) for n in plan.verify_len.tolist()]


def random_confidence(rng: random.Random, R: int, gamma: int) -> Tensor:
    """Confidences with many ties and exact ends."""
    values = [[rng.choice((*GRID, rng.random())) for _ in range(gamma)] for _ in range(R)]
    return torch.tensor(values, dtype=torch.float64)


def _worlds(num: int = 60) -> Iterator[tuple[Tensor, Capacity, Limits]]:
    rng = random.Random(3)
    for _ in range(num):
        R, gamma = rng.randint(1, 4), rng.randint(1, 4)
        rates = [rng.choice((0.3, 0.45, 0.6, 1.0)) for _ in range(R * (1 + gamma))]
        ceiling = torch.tensor([rng.randint(0, gamma) for _ in range(R)])
        floor = torch.tensor([rng.randint(0, int(c)) if rng.random() < 0.3 else 0 for c in ceiling])
        limits = Limits(R, floor, ceiling, rng.choice((None, None, R, R + 1, R + 3)))
        yield random_confidence(rng, R, gamma), from_rates(rates), limits


def _bounds(part: Scheduler, starts: tuple[Any, ...]) -> Iterator[str]:
    for confidence, capacity, limits in _worlds():
        for memory in starts:
            plan = plan_of(part, confidence, capacity, limits, memory)
            room = float("inf") if limits.token_budget is None else limits.token_budget - limits.base_tokens
            least = limits.floor if int(limits.floor.sum()) <= room else torch.zeros_like(limits.floor)
            pairs = zip(plan, least.tolist(), limits.ceiling.tolist(), strict=True)
            if not all(low <= n <= high for n, low, high in pairs):
                yield f"plan {plan} for confidence {spell(confidence)}, {spell(limits)}"


def _budget(part: Scheduler, starts: tuple[Any, ...]) -> Iterator[str]:
    for confidence, capacity, limits in _worlds():
        for memory in starts:
            plan = plan_of(part, confidence, capacity, limits, memory)
            if limits.token_budget is not None and sum(plan) > max(0, limits.token_budget - limits.base_tokens):
                yield f"plan {plan} for confidence {spell(confidence)}, {spell(limits)}"


def _non_anticipation(part: Scheduler, starts: tuple[Any, ...]) -> Iterator[str]:
    for (R, gamma), rates in itertools.product(((1, 3), (2, 2)), CURVES):
        grid = torch.tensor(list(itertools.product(GRID, repeat=R * gamma)), dtype=torch.float64).view(-1, R, gamma)
        for memory, budget in itertools.product(starts, (None, R + 1) if rates is CURVES[0] else (None,)):
            limits, capacity = limits_of(R, gamma, budget=budget), from_rates(rates)
            plans = torch.tensor([plan_of(part, c, capacity, limits, memory) for c in grid])
            yield from _clash(grid, plans, rates)


def _clash(grid: Tensor, plans: Tensor, rates: tuple[float, ...]) -> Iterator[str]:
    """Two points of the grid that agree up to each request's cut + 1 of the first, and have different plans."""
    positions = torch.arange(grid.shape[2])
    for confidence, plan in zip(grid, plans, strict=True):
        seen = positions <= plan[:, None]  # 0-based: positions 0..l_r are c_{r,1}..c_{r,l_r+1}
        alike = ((grid == confidence) | ~seen).all(2).all(1)
        wrong = (alike & (plans != plan).any(1)).nonzero()
        if len(wrong):
            other = int(wrong[0, 0])
            yield (
                f"confidence {confidence.tolist()} gives {plan.tolist()}, {grid[other].tolist()} gives "
                f"{plans[other].tolist()}, though they differ only past the cut; rounds per second {rates}"
            )
            return


def _non_anticipation_at_random(part: Scheduler, starts: tuple[Any, ...]) -> Iterator[str]:
    rng = random.Random(5)
    for confidence, capacity, limits in _worlds(120):
        for memory in starts:
            plan = plan_of(part, confidence, capacity, limits, memory)
            changed = random_confidence(rng, *confidence.shape)
            past = torch.arange(confidence.shape[1]) > torch.tensor(plan)[:, None]
            other = torch.where(past, changed, confidence)
            if (again := plan_of(part, other, capacity, limits, memory)) != plan:
                yield f"confidence {spell(confidence)} gives {plan}, {spell(other)} gives {again}; {spell(limits)}"


def _order(part: Scheduler, starts: tuple[Any, ...]) -> Iterator[str]:
    """Without ties (the documented rule breaks them by index) and without a budget (spent by index)."""
    rng = random.Random(7)
    for _ in range(30):
        R, gamma = rng.randint(2, 4), rng.randint(1, 3)
        confidence = torch.tensor([[rng.uniform(0.05, 0.999) for _ in range(gamma)] for _ in range(R)]).double()
        capacity, limits = (
            from_rates([rng.choice((0.3, 0.6, 1.0)) for _ in range(R * (1 + gamma))]),
            limits_of(R, gamma),
        )
        order = torch.tensor(rng.sample(range(R), R))
        for memory in starts:
            plan = torch.tensor(plan_of(part, confidence, capacity, limits, memory))
            again = torch.tensor(plan_of(part, confidence[order], capacity, limits, memory))
            if not torch.equal(plan[order], again):
                yield f"{spell(confidence)} gives {plan.tolist()}; in order {order.tolist()} {again.tolist()}"


def _nan(part: Scheduler, starts: tuple[Any, ...]) -> Iterator[str]:
    rng = random.Random(9)
    for confidence, capacity, limits in _worlds(40):
        survival = survival_of(confidence)
        from_here = rng.randrange(survival.shape[1])
        zero, nan = survival.clone(), survival.clone()
        zero[0, from_here:], nan[0, from_here:] = 0.0, torch.nan
        for memory in starts:
            left, _ = part.plan(zero, capacity, limits, memory)
            right, _ = part.plan(nan, capacity, limits, memory)
            if not torch.equal(left.verify_len, right.verify_len):
                yield f"survival {spell(nan)} gives {right.verify_len.tolist()}, with 0 {left.verify_len.tolist()}"


def _purity(part: Scheduler, starts: tuple[Any, ...]) -> Iterator[str]:
    for confidence, capacity, limits in _worlds(20):
        for memory in starts:
            before = freeze((memory, confidence, limits))
            first = part.plan(survival_of(confidence), capacity, limits, memory)
            second = part.plan(survival_of(confidence), capacity, limits, memory)
            if freeze(first) != freeze(second):
                yield f"asked twice, it gave {spell(first)} and {spell(second)}"
            if freeze((memory, confidence, limits)) != before:
                yield f"plan changed its arguments: {spell(limits)}"


def _drafts(part: Scheduler, starts: tuple[Any, ...]) -> Iterator[str]:
    for _, capacity, limits in _worlds(10):
        for memory in starts:
            answer: object = part.drafts(memory, limits, capacity)  # of anybody's scheduler: perhaps no bool
            if not isinstance(answer, bool):
                yield f"drafts returned {answer!r}"


def _participants(part: Scheduler, starts: tuple[Any, ...]) -> Iterator[str]:
    for _, capacity, limits in _worlds(10) if isinstance(part, Selecting) else ():
        for memory in starts:
            ids = tuple(range(len(limits.ceiling)))
            chosen = part.participants(memory, ids, limits, capacity)  # type: ignore[attr-defined]
            if [type(one) for one in chosen] != [bool] * len(ids):
                yield f"participants returned {chosen!r} for {len(ids)} requests"


def _block_lens(part: Scheduler, starts: tuple[Any, ...]) -> Iterator[str]:
    for survival, capacity, limits in _worlds(10) if isinstance(part, Sizing) else ():
        gamma = survival.shape[1]
        for priced in (capacity, replace(capacity, draft_token=Curve.constant(0.1), gamma=gamma)):
            for memory in starts:
                ids = tuple(range(len(limits.ceiling)))
                lengths = part.block_lens(memory, ids, limits, priced, gamma)  # type: ignore[attr-defined]
                if lengths is not None and [1 <= n <= gamma for n in lengths] != [True] * len(ids):
                    yield f"block_lens returned {lengths!r} for {len(ids)} requests and gamma {gamma}"


def _equals(part: Scheduler, twin: Twin) -> Iterator[str]:
    for confidence, capacity, limits in _worlds():
        plan = plan_of(part, confidence, capacity, limits, part.start())
        slow = twin(survival_of(confidence).tolist(), capacity, limits)
        if plan != slow:
            yield f"confidence {spell(confidence)} gives {plan}, its twin says {slow}; {spell(limits)}"

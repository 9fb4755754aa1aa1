"""Kind 7, scheduler: jagged curves, ties, uncalibrated tables, budgets, old and fresh data."""

import logging
import math
from typing import Any

import pytest
import torch

from sparkit.capacity import Capacity, Curve, flat, from_rates
from sparkit.capacity import steps as capacity_module
from sparkit.engine.parts import who_drafts
from sparkit.protocols import SCHEDULERS, Scheduler
from sparkit.rounds import Limits
from sparkit.survival import survival_of, throughput_curve
from tests.exact.worlds import AlwaysAll

JAGGED = from_rates([1.0, 0.5, 0.45, 0.44])


def limits(num: int, gamma: int, budget: int | None = None) -> Limits:
    return Limits(num, torch.zeros(num, dtype=torch.int64), torch.full((num,), gamma), budget)


def lengths(
    scheduler: str | Scheduler, survival: Any, capacity: Capacity, budget: int | None = None, memory: Any = None
) -> list[int]:
    part = SCHEDULERS.create(scheduler) if isinstance(scheduler, str) else scheduler
    a = torch.as_tensor(survival, dtype=torch.float64)
    memory = part.start() if memory is None else memory
    return part.plan(a, capacity, limits(*a.shape, budget), memory)[0].verify_len.tolist()


def test_b21a_jagged_curve() -> None:
    """Kills: greedy without its break; delayed with one (its K on old data is the global maximum)."""
    a = [[0.9, 0.8, 0.7]]
    curve = throughput_curve(torch.tensor(a, dtype=torch.float64), JAGGED.rounds_per_second)
    assert curve.throughput.tolist() == pytest.approx([1.0, 0.95, 1.215, 1.496])
    assert lengths("greedy", a, JAGGED) == [0]
    delayed = SCHEDULERS.create("delayed")
    memory = delayed.start()
    for _ in range(2):
        _, memory = delayed.plan(torch.tensor(a, dtype=torch.float64), JAGGED, limits(1, 3), memory)
    assert [int(found.admit_limit) for found in memory.found] == [3, 3]
    assert lengths(delayed, a, JAGGED, memory=memory) == [3]


def test_b21b_saturated_ties() -> None:
    """Kills: an unstable sort; ties broken by request first."""
    delayed = SCHEDULERS.create("delayed")
    memory = _history(delayed, [3, 3], num=2)
    for _ in range(100):
        assert lengths(delayed, torch.ones(2, 2), flat(), memory=memory) == [2, 1]
    rows = torch.tensor([[0.9, 0.9], [0.5, 0.5], [0.9, 0.1]], dtype=torch.float64).cumprod(-1)
    memory = _history(delayed, [4, 4], num=3)
    answer = lengths(delayed, rows, flat(), memory=memory)
    for order in ([2, 0, 1], [1, 2, 0], [2, 1, 0]):
        assert sorted(lengths(delayed, rows[order], flat(), memory=memory)) == sorted(answer)


def _history(delayed: Scheduler, limits_found: list[int], num: int) -> Any:
    """A memory as if the last two searches had found these K."""
    from sparkit.schedulers.delayed import Found, Memory

    return Memory(tuple(Found(torch.tensor(k), num) for k in limits_found))


def test_b21c_zero_first_confidence() -> None:
    """Kills: a later confidence ranked without its prefix."""
    a = survival_of(torch.tensor([[0.0, 0.9], [0.9, 0.0]], dtype=torch.float64))
    assert lengths("greedy", a, flat()) == [0, 1]


def test_b21d_an_equal_objective_is_not_greater() -> None:
    """Kills: >= for >."""
    assert lengths("greedy", [[1.0]], from_rates([1.0, 0.5])) == [0]


@pytest.mark.parametrize("name", ["greedy", "lookahead", "delayed", "foresight", "threshold"])
def test_b21e_nan_is_zero(name: str) -> None:
    """Kills: nan sorted first and the whole window verified."""
    assert lengths(name, [[math.nan, math.nan]], flat()) == [0]
    assert lengths(name, survival_of(torch.tensor([[0.9, math.nan, 0.9]])), flat()) == [1]


def test_b22_flat_table_verifies_everything_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    """Kills: silence about a missing profile."""
    capacity_module._say_flat.cache_clear()
    a = survival_of(torch.tensor([[0.01, 0.01], [0.02, 0.01]], dtype=torch.float64))
    with caplog.at_level(logging.WARNING):
        assert [lengths("greedy", a, flat()) for _ in range(3)] == [[2, 2]] * 3
    assert [record.message.split(":")[0] for record in caplog.records] == ["no profile"]
    assert float(throughput_curve(a, flat().rounds_per_second).throughput[-1]) == pytest.approx(2.0303)


@pytest.mark.parametrize("name", ["fixed", "threshold", "greedy", "lookahead", "delayed", "foresight"])
def test_b22_budgets(name: str) -> None:
    """Kills: 24 tokens for a budget of 10; a negative budget; anchors dropped."""
    a = torch.full((4, 5), 0.99, dtype=torch.float64).cumprod(-1)
    assert 4 + sum(lengths(name, a, flat(), budget=10)) == 10
    assert lengths(name, a, flat(), budget=10) == [2, 2, 1, 1]
    assert lengths(name, a, flat(), budget=4) == [0, 0, 0, 0]
    assert lengths(name, a, flat(), budget=2) == [0, 0, 0, 0]


def test_b22_between_and_outside_the_points() -> None:
    """Kills: the smaller neighbour; a KeyError."""
    points = ((4, 1.0), (8, 2.0))
    step, linear = Capacity(Curve(points, "step")), Capacity(Curve(points, "linear"))
    assert (step.verify_seconds(5), linear.verify_seconds(5)) == (2.0, 1.25)
    assert (step.verify_seconds(12), linear.verify_seconds(12)) == (3.0, 3.0)
    assert not step.covers(12)


def test_b22_cost_of_ten_and_one_a_token() -> None:
    """Kills: tau without the bonus; a stop at the first request's end."""
    table = Capacity(Curve(((1, 11.0), (2, 12.0)), "linear"))
    a = survival_of(torch.tensor([[0.9, 0.8, 0.5], [0.6, 0.5, 0.4]], dtype=torch.float64))
    objective = throughput_curve(a, table.rounds_per_second).throughput.tolist()
    assert objective == pytest.approx([0.1667, 0.2231, 0.2586, 0.2813, 0.2863, 0.2871, 0.2778], abs=6e-5)
    assert lengths("greedy", a, table) == [3, 2]


def test_b23_old_limit_fresh_scores() -> None:
    """Kills: the split by old scores; K from this step's scores; rows of the old batch."""
    delayed = SCHEDULERS.create("delayed")
    memory = _history(delayed, [2, 0], num=2)
    a = [[0.9, 0.765], [0.5, 0.2]]
    assert lengths(delayed, a, flat(), memory=memory) == [2, 0]
    assert lengths(delayed, a[::-1], flat(), memory=memory) == [0, 2]
    for scores in ([[0.1, 0.01], [0.2, 0.02]], [[1.0, 1.0], [1.0, 1.0]]):
        assert sum(lengths(delayed, scores, flat(), memory=memory)) == 2
    assert lengths(delayed, [[0.9, 0.1]], flat(), memory=_history(delayed, [4, 4], num=2)) == [2]
    grown = lengths(delayed, [*a, [0.95, 0.9]], flat(), memory=memory)
    assert sum(grown) == 3
    assert grown[2] == 2


def test_b23_first_two_steps_follow_the_documented_rule() -> None:
    """Kills: K read from this step's scores before there is a history."""
    delayed = SCHEDULERS.create("delayed", cold_confidence=0.8)
    memory = delayed.start()
    table = from_rates([1.0, 0.7, 0.4, 0.39])  # on 0.8^k: 1, 1.26, 0.976, 1.15 -> K = 1
    for scores in ([[0.99, 0.98, 0.97]], [[0.1, 0.1, 0.1]]):
        plan, memory = delayed.plan(torch.tensor(scores, dtype=torch.float64), table, limits(1, 3), memory)
        assert plan.verify_len.tolist() == [1]


def test_a_scheduler_that_answers_for_another_number_of_requests_is_told() -> None:
    """Kills: a request that silently neither drafts nor rests."""

    class ForOne(AlwaysAll):
        def participants(self, memory: Any, requests: Any, limits: Any, capacity: Any) -> tuple[bool, ...]:
            return (True,)

    with pytest.raises(ValueError, match=r"ForOne\.participants gave 1 answers for 2 requests"):
        who_drafts(ForOne(), None, (7, 8), limits(2, 3), flat())

"""Kind 13, slowdowns: the draft's own cost decides whether speculation pays."""

import pytest
import torch

from sparkit.capacity import Capacity, Curve
from sparkit.protocols import SCHEDULERS
from sparkit.rounds import Limits

MILLISECONDS = Capacity(
    verify=Curve(((1, 0.300), (2, 0.409)), "linear"),  # 300 + 109 n
    draft=Curve.constant(0.196),
    plain_overhead=Curve.constant(0.003),  # plain: 303 ms
)


def test_b37_estimated_speedup() -> None:
    """Kills: the draft left out; the bonus left out; plain decoding priced with the draft."""
    assert 1 / MILLISECONDS.rounds_per_second(1, 6) == pytest.approx(1.041)
    found = [MILLISECONDS.speedup(1, 6, accepted) for accepted in (5.0, 4.1, 2.0, 0.9, 0.0)]
    assert found == pytest.approx([1.746, 1.484, 0.873, 0.553, 0.291], abs=1e-3)
    assert MILLISECONDS.break_even(1, 6) == pytest.approx(2.436, abs=1e-3)


def test_b37_schedule_counts_the_draft() -> None:
    """Kills: a target-only curve, which would stop at 2."""
    a = torch.tensor([[0.9, 0.8, 0.5]], dtype=torch.float64)
    tau = torch.cat((torch.ones(1).double(), a[0])).cumsum(0)
    rates = MILLISECONDS.rates(1, 1, 3, a)
    assert (tau * rates).tolist() == pytest.approx([2.016, 3.140, 3.782, 3.888], abs=1e-3)
    limits = Limits(1, torch.zeros(1, dtype=torch.int64), torch.tensor([3]))
    greedy = SCHEDULERS.create("greedy")
    assert greedy.plan(a, MILLISECONDS, limits, greedy.start())[0].verify_len.tolist() == [3]
    target_only = Capacity(MILLISECONDS.verify)
    assert (tau * target_only.rates(1, 1, 3, a)).tolist() == pytest.approx([3.333, 4.645, 5.212, 5.104], abs=1e-3)
    assert greedy.plan(a, target_only, limits, greedy.start())[0].verify_len.tolist() == [2]

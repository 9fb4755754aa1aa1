"""Kind 8, calibration: confidence exactly 0 or 1, empty bins."""

import math

import pytest
import torch

from sparkit.metrics import ece, reliability
from sparkit.protocols import CALIBRATORS


@pytest.mark.parametrize(
    ("confidence", "outcome", "expected"),
    [
        ([0.95, 1.0], [1, 0], 0.475),  # an extra bin for 1.0 gives 0.525
        ([0.0], [1], 1.0),
        ([1, 1, 1], [1, 1, 1], 0.0),  # bin centres give 0.05
        ([0.5] * 10, [1] * 7 + [0] * 3, 0.2),
    ],
)
def test_b24_ends_and_means(confidence: list[float], outcome: list[int], expected: float) -> None:
    """Kills: an open last bin; index -1 for 0.0; bin centres; identical scores giving 0."""
    values = torch.tensor(confidence, dtype=torch.float64)
    assert ece(values, torch.tensor(outcome)) == pytest.approx(expected)


def test_b24_a_saturated_float32_sigmoid() -> None:
    """Kills: 1.0 outside every bin."""
    value = torch.sigmoid(torch.tensor([17.0]))
    assert value.item() == 1.0
    assert reliability(value, torch.tensor([1.0])).count == (0,) * 9 + (1,)
    identity = CALIBRATORS.create("identity")
    assert identity.calibrate(torch.tensor([[17.0, math.inf, -math.inf, math.nan]]), None).tolist() == [[1, 1, 0, 0]]


def test_b24_no_data_and_empty_bins() -> None:
    """Kills: nan for nothing; counts that do not sum to N."""
    empty = reliability(torch.zeros(0), torch.zeros(0))
    assert empty.ece is None
    assert (empty.num, empty.count) == (0, (0,) * 10)
    found = reliability(torch.tensor([0.05, 0.95, 1.0, 0.0]), torch.tensor([0.0, 1.0, 1.0, 0.0]))
    assert found.count == (2, 0, 0, 0, 0, 0, 0, 0, 0, 2)
    assert found.num == 4
    assert found.confidence[1] is None
    assert found.outcome[0] == 0.0

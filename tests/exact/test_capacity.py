"""The capacity curve: between points, outside them, broken tables, files, and what is said once."""

import logging
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from sparkit import capacity as module
from sparkit.capacity import Capacity, Curve, flat, from_rates, measured, roofline, staircase, steps

POINTS = ((1, 1.0), (4, 2.0), (8, 6.0))


def test_step_takes_the_next_larger_measured_size() -> None:
    """Kills: the next smaller one; interpolation under kind step."""
    curve = Curve(POINTS, "step")
    assert [curve.at(b) for b in (1, 2, 4, 5, 8)] == [1.0, 2.0, 2.0, 6.0, 6.0]


def test_linear_goes_straight_between_neighbours() -> None:
    """Kills: the slope of another interval."""
    curve = Curve(POINTS, "linear")
    assert [curve.at(b) for b in (1, 2, 4, 6, 8)] == pytest.approx([1.0, 4 / 3, 2.0, 4.0, 6.0])


@pytest.mark.parametrize("kind", ["step", "linear"])
def test_outside_the_last_slope_goes_on_and_is_flagged(kind: Any) -> None:
    """Kills: a KeyError; a constant beyond the table; a falling extrapolation."""
    table = Capacity(Curve(POINTS, kind))
    assert table.verify_seconds(10) == 8.0
    assert table.verify_seconds(0) == 1.0
    assert [table.covers(b) for b in (0, 1, 8, 9)] == [False, True, True, False]
    assert Capacity(Curve(((1, 2.0), (2, 1.0)), kind)).verify_seconds(99) == 1.0


def test_one_point_is_a_constant() -> None:
    """Kills: an index error at the last slope."""
    table = Capacity(Curve(((8, 0.5),)))
    assert [table.verify_seconds(b) for b in (1, 8, 99)] == [0.5, 0.5, 0.5]


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ((), "at least one point"),
        (((1, -0.5),), "seconds >= 0"),
        (((1, math.nan),), "seconds >= 0"),
        (((1, math.inf),), "seconds >= 0"),
        (((0, 1.0),), "size >= 1"),
        (((2, 1.0), (1, 2.0)), "ascending"),
        (((1, 1.0), (1, 2.0)), "ascending"),
    ],
)
def test_broken_points_are_refused(points: Any, message: str) -> None:
    """Kills: a validation dropped."""
    with pytest.raises(ValueError, match=message):
        Curve(points)


def test_free_verification_is_refused() -> None:
    """Kills: a division by zero at the first look-up."""
    with pytest.raises(ValueError, match=r"verifying 1 tokens takes 0\.0 seconds; expected more than 0"):
        Capacity(Curve(((1, 0.0), (2, 1.0))))
    for rate in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="expected more than 0"):
            from_rates({1: rate})
    with pytest.raises(ValueError, match="expected more than 0"):
        flat(0.0)


def test_envelope_is_the_largest_rising_curve_below() -> None:
    """A batch can be padded up to a faster, larger size. Kills: a running maximum, which overstates the cost."""
    curve = Curve(((1, 2.0), (2, 5.0), (4, 3.0), (8, 4.0), (16, 3.5)))
    assert [s for _, s in curve.envelope().points] == [2.0, 3.0, 3.0, 3.5, 3.5]


def test_measured_reads_the_envelope_and_keeps_the_raw_points() -> None:
    """Kills: noise read as a cliff; raw points lost."""
    table = measured({1: 2.0, 2: 5.0, 4: 3.0}, {1: 0.5, 2: 0.6}, {1: 0.1}, {1: 0.05})
    assert table.verify_seconds(2) == 3.0
    assert table.raw_verify is not None
    assert table.raw_verify.at(2) == 5.0
    assert table.is_measured
    assert table.rounds_per_second(2, 2) == pytest.approx(1 / (3.0 + 0.6 + 0.1))
    assert table.undrafted_rate(2, 2) == pytest.approx(1 / (3.0 + 0.05))


@pytest.mark.parametrize(
    "table", [roofline(), staircase(), flat(), from_rates([1.0, 0.5, 0.45]), Capacity(Curve(POINTS))]
)
def test_rates_are_rounds_per_second(table: Capacity) -> None:
    """Kills: an offset by one in the slice; a table of another number of requests."""
    like = torch.zeros(1, dtype=torch.float64)
    for num, base, drafts in ((1, 1, 2), (4, 9, 28), (3, 300, 21)):
        expected = [table.rounds_per_second(num, base + j) for j in range(drafts + 1)]
        assert table.rates(num, base, drafts, like).tolist() == expected
    assert table.rates(1, 1, 2, like.float()).dtype == torch.float32


def test_appendix_a_rates_are_exact() -> None:
    """Kills: a rate that comes back one ulp off and turns 2 * 0.5 > 1.0 around."""
    table = from_rates({1: 1.0, 2: 0.5, 3: 0.45})
    assert [table.rounds_per_second(1, b) for b in (1, 2)] == [1.0, 0.5]
    assert table.rounds_per_second(1, 3) == pytest.approx(0.45, abs=1e-16)


def test_shapes_of_the_analytic_curves() -> None:
    """Kills: a roofline without a ridge; stairs that rise inside a tile."""
    roof = roofline()
    ridge = roof.verify.points[1][0]
    assert roof.verify_seconds(1) == roof.verify_seconds(ridge)
    assert roof.verify_seconds(4 * ridge) == pytest.approx(2 * 8e9 / 400e12 * 4 * ridge)
    assert roof.overhead_seconds(3) - roof.overhead_seconds(1) == pytest.approx(2 * 0.15e9 / 3.35e12)
    stairs = staircase(tile=8, base=1.0, per_tile=0.5)
    assert [stairs.verify_seconds(b) for b in (1, 8, 9, 16, 17)] == [1.0, 1.0, 1.5, 1.5, 2.0]


def test_file_round_trip(tmp_path: Path) -> None:
    """Kills: a field forgotten in the document."""
    table = measured({1: 2.0, 2: 5.0, 4: 3.0}, {1: 0.5, 2: 0.6}, {1: 0.1}, {1: 0.05}, source="cpu")
    table.save(tmp_path / "capacity.json")
    assert Capacity.load(tmp_path / "capacity.json") == table


def test_short_form_is_read() -> None:
    """A table written by hand: points alone. Kills: curve objects demanded."""
    table = Capacity.from_json({"schema": module.SCHEMA, "verify": [[1, 1], [2, 1.5]]})
    assert table.verify_seconds(2) == 1.5


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "expected a JSON object of schema"),
        ({"schema": "other"}, "expected a JSON object of schema"),
        ({"schema": module.SCHEMA}, "'verify' is missing"),
        ({"schema": module.SCHEMA, "verify": [[1, 1.0]], "sps": 3}, "unknown field 'sps'"),
        ({"schema": module.SCHEMA, "verify": [[1, "fast"]]}, "verify: expected points"),
        ({"schema": module.SCHEMA, "verify": [[1.5, 1.0]]}, "verify: expected points"),
        ({"schema": module.SCHEMA, "verify": {"points": [[1, 1.0]], "kind": "cubic"}}, "verify: .*'step' or 'linear'"),
        ({"schema": module.SCHEMA, "verify": [[1, -1.0]]}, "verify: .*seconds >= 0"),
        ({"schema": module.SCHEMA, "verify": [[1, 0]]}, "expected more than 0"),
        ({"schema": module.SCHEMA, "verify": []}, "at least one point"),
        ({"schema": module.SCHEMA, "verify": [[1, 1.0]], "source": 3}, "source as text"),
        ({"schema": module.SCHEMA, "verify": [[1, 10**400]]}, "verify"),
    ],
)
def test_broken_documents_are_named(document: Any, message: str) -> None:
    """Kills: a check of `from_json` dropped; a traceback from inside."""
    with pytest.raises(ValueError, match=message):
        Capacity.from_json(document, "file.json")


def test_flat_and_outside_are_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """Kills: silence; a line a step."""
    steps._say_flat.cache_clear()
    steps._say_outside.cache_clear()
    like = torch.zeros(1)
    with caplog.at_level(logging.WARNING, "sparkit.capacity"):
        for _ in range(3):
            flat().rates(2, 2, 4, like)
            measured({1: 1.0, 4: 2.0}, {1: 0.0}, {1: 0.0}, {1: 0.0}).rates(2, 2, 4, like)
    assert [("no profile" in r.message, "ends at 4" in r.message) for r in caplog.records] == [
        (True, False),
        (False, True),
    ]

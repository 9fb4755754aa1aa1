"""The drift of block against sequential passes is measured, reported, and tiny where it must be."""

from collections.abc import Callable
from dataclasses import asdict

from tests.statistical.drift import drift


def test_float64_has_none_and_float32_next_to_none() -> None:
    """Kills: a block pass that attends elsewhere, or at other positions, than the sequential one."""
    assert drift("cpu", "float64").worst < 1e-10
    assert drift("cpu", "float32").worst < 1e-3


def test_bf16_drift_is_reported(record_property: Callable[[str, object], None]) -> None:
    """Kills: a tolerance that hides it: bf16 must drift visibly more than float32, or nothing was measured."""
    found = drift("cpu", "bfloat16")
    record_property("bf16_drift_cpu", asdict(found))
    print(found)
    assert found.worst > 10 * drift("cpu", "float32").worst

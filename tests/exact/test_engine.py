"""Snapshots, chunks, cancelling, stops, replaced parts, 256 requests through 8 slots (`between_rounds.py`)."""

from tests.untyped import assert_passes


def test_everything_between_rounds() -> None:
    """Each test there names the mutation that it kills."""
    assert_passes("tests/exact/between_rounds.py", at_least=86)

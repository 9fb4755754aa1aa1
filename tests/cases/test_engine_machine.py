"""Random histories of one engine (`engine_machine.py`): a few in every run, many behind `deep`."""

import pytest

from tests.untyped import assert_passes


def test_some_histories() -> None:
    """15 histories of 24 events; a failing one is not shortened here (`deep` does)."""
    assert_passes("tests/cases/engine_machine.py", at_least=1)


@pytest.mark.deep
def test_many_histories() -> None:
    """1500 histories."""
    assert_passes("tests/cases/engine_machine.py", marks="deep", at_least=1, timeout=7200)

"""Hypothesis finds a world for every lossy composition, and shrinks it; without type checks (`tests.untyped`)."""

import pytest
from hypothesis import find, settings

from sparkit.proofs.search import measure
from sparkit.sampling import SamplingParams
from tests.exact.test_worlds import worlds
from tests.exact.worlds import composition


@pytest.mark.parametrize(
    ("scheduler", "verifier"), [("lookahead", "rejection"), ("lookahead", "block"), ("fixed", "lenient")]
)
def test_a_lossy_composition_is_found_and_shrunk(scheduler: str, verifier: str) -> None:
    """Kills: worlds in which nothing lossy can show."""
    small = find(
        worlds(),
        lambda world: measure(world, lambda one: composition(one, scheduler, verifier)).total_variation > 1e-3,
        settings=settings(max_examples=2000, derandomize=True, database=None),
    )
    assert (small.requests, small.params, small.token_budget) == (1, SamplingParams(), None)

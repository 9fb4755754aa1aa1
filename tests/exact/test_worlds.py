"""Worlds that hypothesis chooses, and shrinks: lossless compositions are exact in each, lossy ones in few."""

from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparkit.proofs.examples import CONFIDENCES, Example, cliff
from sparkit.proofs.search import measure
from sparkit.proofs.twins import Row, Tables
from sparkit.sampling import SamplingParams
from tests.exact.worlds import composition
from tests.untyped import assert_passes

LAWS = (
    st.lists(st.integers(0, 5), min_size=2, max_size=2)
    .filter(any)
    .map(lambda weights: tuple(Fraction(w, sum(weights)) for w in weights))
)
CHANCES = st.sampled_from(sorted(set(CONFIDENCES)))
PARAMS = st.sampled_from(
    [
        SamplingParams(),
        SamplingParams(),
        SamplingParams(temperature=0.5),
        SamplingParams(temperature=0.0),
        SamplingParams(top_p=0.7),
    ]
)
LOSSLESS = st.tuples(
    st.sampled_from(["fixed", "threshold", "greedy", "delayed", "foresight"]),
    st.sampled_from(["rejection", "block"]),
    st.sampled_from(["identity", "platt", "sts", "isotonic"]),
)


def rows(values: st.SearchStrategy[Row], num: int) -> st.SearchStrategy[tuple[Row, ...]]:
    return st.tuples(*[values] * num)


@st.composite
def worlds(draw: st.DrawFn) -> Example:
    """Two tokens; ties, confidences of 0 and 1, c_2 by x_1, smooth, jagged and cliff curves, one or two requests."""
    gamma, requests = draw(st.sampled_from([1, 2, 2])), draw(st.sampled_from([1, 2]))
    chances = st.tuples(CHANCES, CHANCES)
    draft = tuple(draw(rows(LAWS, 2)) for _ in range(gamma))
    tables = Tables(draw(rows(LAWS, 2)), draft, draw(rows(chances, gamma)))
    size = requests * (1 + gamma)
    jagged = st.tuples(*[st.sampled_from([1.0, 0.7, 0.5, 0.45, 0.3])] * size)
    on_a_cliff = st.just(cliff(tables, requests))  # where looking ahead shows most often
    curve = draw(st.one_of(st.just((1.0,)), jagged, on_a_cliff, on_a_cliff))
    budget = draw(st.sampled_from([None, requests + 1]))
    # Without room for gamma tokens behind the first no plan has two drafts, and nobody can look ahead.
    spare = draw(st.sampled_from([gamma, 0, 1]))
    return Example(tables, curve, requests, 1, spare, draw(PARAMS), budget)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(world=worlds(), names=LOSSLESS)
def test_lossless_compositions_are_exact_in_every_world(world: Example, names: tuple[str, str, str]) -> None:
    """Kills: a bias that only an odd world shows: a tie, a sure confidence, a cliff, a filter, a budget."""
    scheduler, verifier, calibrator = names
    found = measure(world, lambda one: composition(one, scheduler, verifier, calibrator))
    assert found.is_exact, (found.total_variation, found.law.faults)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(world=worlds())
def test_lookahead_under_coupled_noise_is_exact_in_every_world(world: Example) -> None:
    """Kills: noise that a plan can choose among."""
    assert measure(world, lambda one: composition(one, "lookahead", "coupled")).is_exact


@pytest.mark.slow
def test_lossy_compositions_are_found_and_shrunk() -> None:
    """Kills: worlds in which nothing lossy can show."""
    assert_passes("tests/exact/found_worlds.py", at_least=3)

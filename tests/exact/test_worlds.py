"""Worlds that hypothesis chooses, and shrinks: lossless compositions are exact in each, lossy ones in few."""

from fractions import Fraction

import pytest
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st

from sparkit.proofs.examples import CONFIDENCES, Example, cliff
from sparkit.proofs.search import measure
from sparkit.proofs.twins import Row, Tables
from sparkit.sampling import SamplingParams
from tests.exact.worlds import composition

LAWS = (
    st.lists(st.integers(0, 5), min_size=2, max_size=2)
    .filter(any)
    .map(lambda weights: tuple(Fraction(w, sum(weights)) for w in weights))
)
CHANCES = st.sampled_from(sorted(set(CONFIDENCES)))
PARAMS = st.sampled_from(
    [SamplingParams(), SamplingParams(temperature=0.5), SamplingParams(temperature=0.0), SamplingParams(top_p=0.7)]
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
    gamma, requests = draw(st.sampled_from([1, 2])), draw(st.sampled_from([1, 2]))
    chances = st.tuples(CHANCES, CHANCES)
    draft = tuple(draw(rows(LAWS, 2)) for _ in range(gamma))
    tables = Tables(draw(rows(LAWS, 2)), draft, draw(rows(chances, gamma)))
    size = requests * (1 + gamma)
    jagged = st.tuples(*[st.sampled_from([1.0, 0.7, 0.5, 0.45, 0.3])] * size)
    curve = draw(st.one_of(st.just((1.0,)), jagged, st.just(cliff(tables, requests))))
    budget = draw(st.sampled_from([None, requests + 1]))
    return Example(tables, curve, requests, 1, draw(st.integers(0, 1)), draw(PARAMS), budget)


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
@pytest.mark.parametrize(
    ("scheduler", "verifier"), [("lookahead", "rejection"), ("lookahead", "block"), ("fixed", "lenient")]
)
def test_a_lossy_composition_is_found_and_shrunk(scheduler: str, verifier: str) -> None:
    """Kills: worlds in which nothing lossy can show."""
    small = find(
        worlds(),
        lambda world: measure(world, lambda one: composition(one, scheduler, verifier)).total_variation > 1e-3,
        settings=settings(max_examples=400, derandomize=True, database=None),
    )
    assert (small.requests, small.params, small.token_budget) == (1, SamplingParams(), None)

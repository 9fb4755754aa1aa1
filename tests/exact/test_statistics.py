"""The statistical judge itself passes the right law, rejects a biased one and refuses samples that prove nothing."""

import pytest
import torch

from tests.statistics import FAILURE_RATE, assert_law, goodness_of_fit


def test_right_law_passes_and_biased_law_fails() -> None:
    """Kills: a p-value of the wrong tail; a judge that accepts everything (the bias of Appendix A must be seen)."""
    uniforms = torch.rand(20_000, generator=torch.Generator().manual_seed(1))
    ones = int((uniforms < 0.3).sum())
    assert_law([20_000 - ones, ones], [0.7, 0.3])
    with pytest.raises(AssertionError, match="p = "):
        assert_law([20_000 - ones, ones], [0.85, 0.15])


def test_p_value_is_the_known_one() -> None:
    """Kills: wrong degrees of freedom (chi-square 6.635 at one degree has p = 0.01)."""
    n = 10_000_000
    shift = (6.635 * n / 4) ** 0.5
    assert goodness_of_fit([round(n / 2 + shift), round(n / 2 - shift)], [0.5, 0.5]) == pytest.approx(0.01, rel=0.01)


def test_mass_where_the_law_has_none_is_fatal() -> None:
    """Kills: a division by an expectation of zero that turns into nan and passes."""
    assert goodness_of_fit([500, 499, 1], [0.5, 0.5, 0.0]) == 0
    assert goodness_of_fit([500, 500, 0], [0.5, 0.5, 0.0]) > FAILURE_RATE


def test_small_samples_are_refused() -> None:
    """Kills: a test that could never fail."""
    with pytest.raises(ValueError, match="cannot reject anything"):
        goodness_of_fit([3, 4], [0.5, 0.5])

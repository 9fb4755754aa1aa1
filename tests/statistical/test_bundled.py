"""The trained bundled models, in float32 as they ship: texts follow the target's law, whatever drafts and verifies."""

import itertools

import pytest

from tests.statistical.bundled import composition, counted, law, texts_of
from tests.statistics import assert_law

DRAFTERS = ("dflash", "eagle3", "mtp", "dspark-markov", "dspark-gated", "dspark-rnn")
PAIRS = tuple(itertools.product(DRAFTERS, ("rejection", "block", "coupled")))
pytestmark = pytest.mark.statistical


def judge(drafter: str, scheduler: str, verifier: str, num: int) -> None:
    assert_law(*counted(texts_of(composition(drafter, scheduler, verifier), num), law()))


def test_the_law_is_a_law_of_many_texts() -> None:
    """Kills: a tree that loses mass; a prompt after which the target is nearly certain (nothing could be seen)."""
    found = law()
    assert len(found) == 16
    assert sum(found.values()) == pytest.approx(1, abs=1e-5)
    assert max(found.values()) < 0.5


def test_dspark_under_greedy_follows_the_target() -> None:
    """Kills: float32 arithmetic that leans to one side; a batch in which requests share their noise."""
    judge("dspark-markov", "greedy", "rejection", 768)


def test_a_lenient_verifier_does_not() -> None:
    """Kills: a test that could not fail: the same judge rejects the verifier that accepts twice too easily."""
    with pytest.raises(AssertionError, match="p = "):
        judge("dspark-markov", "fixed", "lenient", 1024)


@pytest.mark.slow
@pytest.mark.parametrize(("drafter", "verifier"), PAIRS)
@pytest.mark.parametrize("scheduler", ["greedy", "foresight"])
def test_every_bundled_drafter_follows_the_target(drafter: str, verifier: str, scheduler: str) -> None:
    """Kills: the same for every trained drafter, verifier, and a scheduler with a memory."""
    judge(drafter, scheduler, verifier, 2048)

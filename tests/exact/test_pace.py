"""Whether drafting pays: lagged steps, priced on the curve that the scheduler plans with."""

import pytest

from sparkit.capacity import Capacity, Curve, from_rates
from sparkit.engine import Engine, Request
from sparkit.pace import FORGETTING, Pace, Sums
from sparkit.proofs.examples import paper
from sparkit.proofs.twins import TwinTarget, appendix_a
from tests.exact.worlds import composition


def sums_of(*steps: tuple[int, int]) -> Sums:
    """Steps of (tokens, batch_tokens), the last one newest."""
    sums = Sums(0, 0.0, ())
    for tokens, batch_tokens in steps:
        sums = sums.plus(1, tokens, batch_tokens)
    return sums


def test_steps_on_both_sides_of_a_cliff_are_priced_one_by_one() -> None:
    """Kills: a price at the mean batch: 1 and 3 tokens cost 1 s and 1/0.45 s, two steps of 2 tokens cost 4 s."""
    curve = from_rates((1.0, 0.5, 0.45))
    assert sums_of((1, 1), (3, 3)).priced(1, curve) == pytest.approx(FORGETTING * 1.0 + 1 / 0.45)
    pays = Pace(((1, sums_of(*[(1, 1), (3, 3)] * 20)),))
    assert pays.drafts(1, curve, 64)


def test_a_draft_that_costs_and_brings_nothing_is_not_made() -> None:
    """Kills: a comparison that calls a tie a gain (steps of one token each, at plain decoding's own price)."""
    free = from_rates((1.0, 0.5, 0.45))
    costly = Capacity(Curve.constant(1.0), draft=Curve.constant(0.1))
    for curve in (free, costly):
        assert not Pace(((1, sums_of(*[(1, 1)] * 40)),)).drafts(1, curve, 64)


def test_old_sizes_are_forgotten() -> None:
    """Kills: a memory that grows with every size it ever saw."""
    sums = sums_of(*[(1, size) for size in range(1, 1001)])
    assert len(sums.sizes) < 450
    assert sum(weight for _, weight in sums.sizes) == pytest.approx(1 / (1 - FORGETTING), abs=0.1)


def test_lookahead_goes_on_drafting_in_the_papers_world() -> None:
    """Kills: the same price at work: 3.9 tokens in 3.2 s beat plain decoding, 3.9 in the 4 s of the mean do not."""
    parts = composition(paper(), "lookahead", target=TwinTarget(appendix_a(), max_positions=320))
    engine = Engine(parts, gamma=2, num_slots=1)
    engine.add(Request((0,), seed=3, max_new_tokens=300))
    kinds = [one.kind for one in engine.stream()]
    assert kinds.count("undrafted") <= 0.02 * len(kinds)


def test_the_clock_s_neighbours_do_not_stop_drafting() -> None:
    """Kills: wall seconds against a curve measured in another moment; a dozen bad rounds that pause an easy text."""
    measured = Capacity(Curve(((1, 8e-3), (8, 10e-3))), draft=Curve.constant(5e-3), is_measured=True)
    easy = sums_of(*[(3, 8)] * 60, *[(1, 8)] * 12)
    assert Pace(((1, easy),)).drafts(1, measured, 64)


def test_a_text_that_turned_easy_is_drafted_again_soon() -> None:
    """Kills: a memory that keeps its weight while nothing is drafted: a good probe would be one voice in sixty."""
    costly = Capacity(Curve.constant(1.0), draft=Curve.constant(1.0))
    pace = Pace(((1, sums_of(*[(1, 8)] * 80)),))
    assert not pace.drafts(1, costly, 64)
    for _ in range(63):
        pace = pace.after_undrafted()
    assert pace.drafts(1, costly, 64)
    probed = Pace(((1, dict(pace.by_requests)[1].plus(1, 6, 8)),))
    assert probed.drafts(1, costly, 64)

"""Whether drafting pays: lagged steps, priced on the curve that the scheduler plans with."""

from dataclasses import replace

import pytest
import torch

from sparkit.capacity import Capacity, Curve, flat, from_rates, roofline
from sparkit.engine import Engine, Request
from sparkit.pace import (
    FADING,
    FORGETTING,
    LASTING,
    LINGERING,
    MOST_PROBED,
    RESUMING,
    USUAL,
    Known,
    Pace,
    bucket,
    reads_prompt,
)
from sparkit.proofs.examples import paper
from sparkit.proofs.twins import TwinTarget, appendix_a
from sparkit.protocols import SCHEDULERS
from sparkit.rounds import Draft, Limits, Plan, Rounds, Verdict
from sparkit.winnings import DOUBT, MOST_KEPT, Prices, Step, Sums, prices
from tests.exact.worlds import composition


def seen(*steps: tuple[int, int], num: int = 1) -> Known:
    """Steps of `num` requests, (tokens, batch_tokens), the last one newest."""
    found = Known()
    for tokens, batch_tokens in steps:
        found = found.plus(Step(num, batch_tokens, num), tokens - num)
    return found


def test_steps_on_both_sides_of_a_cliff_are_priced_one_by_one() -> None:
    """Kills: a price at the mean batch: 1 and 3 tokens cost 1 s and 1/0.45 s, two steps of 2 tokens cost 4 s."""
    curve = from_rates((1.0, 0.5, 0.45))
    known = seen((1, 1), (3, 3))  # against plain steps of 1 s
    assert known.won_lately(curve) == pytest.approx(2 - (1 / 0.45 - 1) - DOUBT * (1 * FORGETTING + 1 / 0.45))
    pays = Pace(((1, seen(*[(1, 1), (3, 3)] * 20)),))
    assert pays.drafts(1, curve, 64)


def test_a_draft_that_costs_and_brings_nothing_is_not_made() -> None:
    """Kills: a comparison that calls a tie a gain (steps of one token each, at plain decoding's own price)."""
    free = from_rates((1.0, 0.5, 0.45))
    costly = Capacity(Curve.constant(1.0), draft=Curve.constant(0.1))
    for curve in (free, costly):
        assert not Pace(((1, seen(*[(1, 1)] * 40)),)).drafts(1, curve, 64)


def test_old_sizes_are_forgotten() -> None:
    """Kills: a memory that grows with every size it ever saw."""
    sums = Sums()
    for size in range(1, 201):
        sums = sums.plus(Step(1, size, 1), 0, 1, 0.9)
    assert len(sums.steps) < 70
    assert sums.num_rounds == pytest.approx(10, abs=0.02)


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
    easy = seen(*[(3, 8)] * 60, *[(1, 8)] * 12)
    assert Pace(((1, easy),)).drafts(1, measured, 64)


def test_a_text_that_turned_easy_is_drafted_again_soon() -> None:
    """Kills: hard texts that are never forgotten; a probe that won and is not followed up."""
    costly = Capacity(Curve.constant(1.0), draft=Curve.constant(2.0))  # three tokens a round break even
    pace = Pace(((1, seen(*[(1, 8)] * 80)),))
    assert not pace.drafts(1, costly, 64)
    taken = drafted = 0
    while not pace.pays(1, costly):
        if pace.drafts(1, costly, 64):
            pace, drafted = Pace(((1, dict(pace.by_bucket)[1].plus(Step(1, 8, 1), 6)),)), drafted + 1
        else:
            pace = pace.after_undrafted(1)
        taken += 1
    assert taken < 4 * 64
    assert drafted > 4


@pytest.mark.parametrize(("accepted", "all_draft"), [(16, False), (17, True)])
def test_a_little_luck_of_a_probe_does_not_start_everybody(accepted: int, all_draft: bool) -> None:
    """Kills: 32 requests catching up after every second probe that breaks even; a bound not counted by request."""
    num, costly = 32, Capacity(Curve.constant(1.0), draft=Curve.constant(2.0))
    known = seen(*[(num, 8 * num)] * 40, num=num)
    for _ in range(2000):
        known = known.rested()
    known = known.plus(Step(num, 8 * num, num), accepted, MOST_PROBED)  # four of them: 8 tokens in those seconds
    assert known.won_lately(costly) == pytest.approx(accepted - 8 - DOUBT * (MOST_PROBED + 8))
    assert (known.won_lately(costly) > RESUMING * num) is all_draft
    pace = Pace(((bucket(num), known),))
    assert not pace.pays(num, costly)
    assert pace.drafts(num, costly, 64) is all_draft


def test_a_probe_that_lost_is_not_followed_up() -> None:
    """Kills: a probe a step as long as the usual is remembered."""
    costly = Capacity(Curve.constant(1.0), draft=Curve.constant(2.0))
    pace = Pace(((1, seen(*[(1, 8)] * 80)),))
    drafted = 0
    for _ in range(640):
        if pace.drafts(1, costly, 64):
            pace, drafted = Pace(((1, dict(pace.by_bucket)[1].plus(Step(1, 8, 1), 1)),)), drafted + 1
        else:
            pace = pace.after_undrafted(1)
    assert drafted == 10


def test_some_hard_texts_do_not_stop_drafting_that_usually_pays() -> None:
    """Kills: a pause after every dip, which only lucky probes end: four of them against sixty bad rounds."""
    costly = Capacity(Curve.constant(1.0), draft=Curve.constant(1.0))  # two tokens a round break even
    good, bad = [(12, 32)] * 50, [(4, 32)] * 8
    assert Pace(((4, seen(*good, *bad, num=4)),)).pays(4, costly)
    pace = Pace(((4, seen(*good, *bad, *bad, num=4)),))
    assert not pace.pays(4, costly)
    paused = 0
    while not pace.pays(4, costly):
        pace, paused = pace.after_undrafted(4), paused + 1
    assert 16 < paused < 256


def test_more_requests_are_more_like_the_usual() -> None:
    """Kills: a few good rounds of sixty-four requests that outweigh what is known of their mean."""
    costly = Capacity(Curve.constant(1.0), draft=Curve.constant(1.0))
    for num, pays in ((1, True), (16, False)):
        hard = Known(64, usually=seen(*[(num, 8 * num)] * 64, num=num).usually)
        lately = hard.plus(Step(num, 8 * num, num), 16)  # so much won beyond what it cost
        found = lately._replace(lately=lately.lately._replace(gain=lately.lately.gain + num))
        won, usual = found.won_lately(costly), Prices(costly).won(found.usually) / found.usually.num_rounds
        assert won == pytest.approx(16 - 2 * DOUBT * num)
        assert (won + USUAL * num * usual > 0) is pays
        assert found.pays(num, costly) is pays


def test_a_probe_of_many_asks_a_few() -> None:
    """Kills: probes that absorb everybody's features; a sample that is read as if nobody else were there."""
    costly = Capacity(Curve.constant(1.0), draft=Curve(((1, 0.1), (64, 3.0))))
    pace = Pace(((bucket(64), seen((164, 128), num=64)),), num_undrafted=63)
    assert pace.drafts(64, costly, 64)
    assert not pace.pays(64, costly)
    chosen = pace.participants(64, costly, 8)
    assert sum(chosen) == 8
    assert [row for row in range(64) if chosen[row]] == list(range(8))
    assert pace.participants(8, costly, 8) == (True,) * 8
    found = dict(pace.after(step_of(drafted=8, resting=56, verify_len=2, accepted=1)).by_bucket)[bucket(64)]
    assert (Step(64, 64 + 2 * 64, 64), 8 / 64) in found.lately.steps  # priced as if all sixty-four had drafted
    assert found.num_rounds == 72
    assert found.lately.gain == pytest.approx(100 * FORGETTING**8 + 8)
    assert found.usually.num_rounds == pytest.approx(64 * LASTING**8 + 8)


def step_of(*, drafted: int, resting: int, verify_len: int, accepted: int) -> Rounds:
    """One drafted step of equal requests."""
    ones = torch.ones(drafted, dtype=torch.int64)
    grid = torch.full((drafted, 2), 0.5)
    draft = Draft(torch.zeros(drafted, 2, dtype=torch.int64), torch.full((drafted, 2, 2), 0.5))
    limits = Limits(drafted + resting, 0 * ones, 2 * ones, num_resting=resting)
    verdict = Verdict(accepted * ones, 0 * ones, ones < 0)
    ids = tuple(range(drafted)), tuple(range(drafted, drafted + resting))
    return Rounds(1, ids[0], ones, draft, grid, grid, grid, limits, Plan(verify_len * ones), verdict, grid, 1.0, ids[1])


def test_what_was_seen_fades_while_nothing_is_drafted() -> None:
    """Kills: requests that were answered long ago and still count; the usual forgotten with them."""
    for num in (1, 64):
        pace = Pace(((bucket(num), seen((2 * num, 2 * num), num=num)), (99, seen((2, 2)))))
        for _ in range(63):
            pace = pace.after_undrafted(num)
        found = dict(pace.by_bucket)[bucket(num)]
        again = found.plus(Step(num, num, num), 0)
        assert again.lately.gain == pytest.approx(num * FADING**63 * FORGETTING**num)
        assert again.usually.gain == pytest.approx(num * LINGERING**63 * LASTING**num)
        assert again.plus(Step(num, num, num), 0).lately.gain == pytest.approx(again.lately.gain * FORGETTING**num)
        assert dict(pace.by_bucket)[99].num_rests == 0
        curve = Capacity(Curve.constant(1.0), draft=Curve.constant(0.5))
        assert found.won_lately(curve) == pytest.approx(FADING**63 * (num - 0.5 * num - DOUBT * 1.5 * num))


def test_prices_in_a_list_are_the_curve_s() -> None:
    """Kills: a size looked up one off; a list that ends before the batch does; one curve's prices for another's."""
    draft = Curve(((1, 2e-3), (64, 9e-3)))
    curves = [
        Capacity(Curve(((1, 8e-3), (64, slope))), draft, plain_overhead=Curve.constant(beside))
        for slope, beside in ((40e-3, 1e-3), (20e-3, 3e-3))
    ]
    for curve in curves:
        prices = Prices(curve)
        for step in (Step(2, 9, 2), Step(64, 512, 64), Step(2, 700, 300), Step(1, 2, 1)):
            num, batch, base, _ = step
            seconds = 1 / curve.rounds_per_second(num, batch) - 1 / curve.undrafted_rate(num, base)
            lost = seconds * num * curve.undrafted_rate(num, num)
            assert prices.lost(step) == pytest.approx(lost + DOUBT * (num + lost))
        short = replace(curve, draft_token=Curve.constant(1e-4), gamma=7)
        saved = 4e-4 * 2 * curve.undrafted_rate(2, 2) * (1 + DOUBT)  # four of seven tokens are not drafted
        assert prices.lost(Step(2, 9, 2)) - Prices(short).lost(Step(2, 9, 2, 3)) == pytest.approx(saved)


def test_a_prompt_in_the_same_step_changes_nothing() -> None:
    """Kills: a busy server that always reads somebody's prompt and so never learns that drafting does not pay there."""
    curve = Capacity(Curve(((1, 0.05), (1000, 0.15))), draft=Curve.constant(0.02))
    for accepted, pays in ((64, False), (90, True)):  # the draft and its verification cost 73.7 tokens
        for prefill in (0, 256):
            found = Known().plus(Step(64, 512 + prefill, 64 + prefill), accepted)
            assert Pace(((bucket(64), found),)).drafts(64, curve, 64) is pays


def test_a_burst_of_prompts_stops_nobody() -> None:
    """Kills: a doubt of all the seconds, reading included: 5% of a step that mostly reads is more than is won."""
    for num in (1, 3, 32):
        for prefill in (0, 512, 8192):
            found = Known().plus(Step(num, 3 * num + prefill, num + prefill), num)._replace(num_rounds=1000)
            assert Pace(((bucket(num), found),)).drafts(num, roofline(), 64)


def test_about_as_many_requests_share_what_they_learnt() -> None:
    """Kills: a new chance, and a drafter that must catch up, whenever one request more has finished."""
    assert bucket(64) == bucket(70) != bucket(32)
    assert [bucket(n) for n in range(1, 9)] == list(range(1, 9))
    assert all(bucket(n + 1) - bucket(n) in (0, 1) for n in range(1, 300))
    costly = Capacity(Curve.constant(1.0), draft=Curve.constant(1.0))
    pace = Pace(((bucket(64), seen((64, 128), num=64)),), num_undrafted=1)
    assert not pace.drafts(70, costly, 64)
    assert pace.drafts(32, costly, 64)


def test_the_curves_answer_without_prefill_is_that_of_tokens_per_second() -> None:
    """Kills: a gain and a price that do not add up to throughput against throughput, in doubt plain."""
    curve = Capacity(Curve(((1, 8e-3), (64, 40e-3))), draft=Curve.constant(5e-3))
    for tokens in range(4, 33):
        for batch in (4, 8, 20, 32):
            rate, plain = tokens * curve.rounds_per_second(4, batch), 4 * curve.undrafted_rate(4, 4)
            assert (seen((tokens, batch), num=4).won_lately(curve) > 0) == (rate > (1 + DOUBT) * plain)


def test_nobody_resumes_in_a_step_that_reads_a_prompt() -> None:
    """Kills: three who catch up whenever the fourth one's prompt is read, since nothing is known of three.

    A probe is due all the same, and who drafts already goes on.
    """
    curve, limits = flat(), Limits(4, torch.zeros(3, dtype=torch.int64), torch.full((3,), 7))
    assert reads_prompt(limits)
    assert not reads_prompt(replace(limits, base_tokens=3))
    resting = Pace(num_undrafted=5)
    assert not resting.drafts(3, curve, 64, reads_prompt=True)
    assert resting.drafts(3, curve, 64)
    assert Pace(num_undrafted=63).drafts(3, curve, 64, reads_prompt=True)
    assert Pace().drafts(3, curve, 64, reads_prompt=True)


@pytest.mark.parametrize("name", ["greedy", "lookahead", "delayed", "foresight"])
def test_every_scheduler_says_when_a_prompt_is_read(name: str) -> None:
    """Kills: the step's tokens not looked at."""
    scheduler = SCHEDULERS.create(name)
    memory = scheduler.observe_undrafted(scheduler.start(), 3, 3, 1.0)
    limits = Limits(3, torch.zeros(3, dtype=torch.int64), torch.full((3,), 7))
    assert scheduler.drafts(memory, limits, flat())
    assert not scheduler.drafts(memory, replace(limits, base_tokens=40), flat())


def test_prices_belong_to_their_curve() -> None:
    """Kills: the prices of a curve that is gone, found under the id that another has taken over."""
    for turn in range(1, 3 * MOST_KEPT):
        curve = from_rates((float(turn), 1.0))
        assert prices(curve).capacity is curve
        assert prices(curve) is prices(curve)
        assert prices(curve).lost(Step(1, 2, 1)) == pytest.approx(Prices(curve).lost(Step(1, 2, 1)))
        del curve

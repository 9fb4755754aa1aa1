"""Rounds in, plain values out: cells, counts, pools, selections."""

import math
from dataclasses import replace

import pytest
from rich.cells import cell_len
from sparkit_tui.flow import Flow
from sparkit_tui.messages import MAIN, Began, Stepped
from sparkit_tui.model.admission import admission_of, early_stop, pool_of
from sparkit_tui.model.audit import Audit
from sparkit_tui.model.cells import cells_of, glyphs, sigmoid
from sparkit_tui.model.collision import collision_of
from sparkit_tui.model.race import standings
from sparkit_tui.model.run import Run, ghosts
from sparkit_tui.model.serving import Load
from sparkit_tui.model.session import Session
from sparkit_tui.model.tally import Bins, Tally, over_positions
from sparkit_tui.screens.told import told

from sparkit import metrics
from sparkit.capacity import from_rates
from sparkit.rounds import Token
from tests.tui.fakes import header_of, played
from tests.tui.synthetic import Synthetic, rounds_of


def a_run(num: int = 60, **options: int) -> Run:
    generator = Synthetic(**options)
    run = Run(header_of(generator))
    for rounds in generator.steps(num):
        run.add(rounds)
    return run


def a_session(num: int = 60) -> Session:
    session = Session()
    session.apply(MAIN, played(num))
    return session


def test_cells_tell_every_verdict() -> None:
    """Kills: `cut` judged by accepted instead of verify_len, or the rejected cell one too early."""
    for round_ in rounds_of(list(Synthetic().steps(80))):
        verdicts = [c.verdict for c in cells_of(round_)]
        assert verdicts.count("accepted") == round_.accepted * (round_.kind == "drafted")
        if round_.kind == "drafted":
            assert verdicts.count("cut") == len(round_.drafted) - round_.verify_len
            assert verdicts.count("rejected") == (round_.accepted < round_.verify_len)
            assert len(glyphs(round_)) == len(round_.drafted) + 1


def test_a_stop_inside_the_block_leaves_accepted_tokens_unsaid() -> None:
    """Kills: tokens past a stop shown as part of the text."""
    full = next(r for r in rounds_of(list(Synthetic().steps(80))) if r.accepted >= 3)
    stopped = replace(full, tokens=full.tokens[:1], stop_reason="stop")
    assert [c.verdict for c in cells_of(stopped)][:3] == ["accepted", "unsaid", "unsaid"]
    assert glyphs(stopped)[-1] in ("cut", "unsaid", "rejected", "after")


def test_accept_prob_of_impossible_tokens() -> None:
    """Kills: a division by p_draft = 0."""
    full = next(r for r in rounds_of(list(Synthetic().steps(80))) if r.verify_len >= 2)
    odd = replace(full, p_draft=(0.0, 1.0, *full.p_draft[2:]), p_target=(0.5, 0.0, *full.p_target[2:]))
    assert [c.accept_prob for c in cells_of(odd)][:2] == [1.0, 0.0]
    assert sigmoid(float("-inf")) == 0.0
    assert sigmoid(float("inf")) == 1.0


def test_tally_equals_the_librarys_metrics() -> None:
    """Kills: rates that count rounds whose position was cut; tau that counts the prefill's token."""
    rounds = rounds_of(list(Synthetic(seed=3).steps(200)))
    tally = Tally(7)
    for one in rounds:
        tally.add(one)
    library = metrics.measure(rounds, 7)
    assert tuple(tally.conditional_acceptance()) == pytest.approx(library.conditional_acceptance, nan_ok=True)
    assert tuple(tally.prefix_acceptance()) == pytest.approx(library.prefix_acceptance, nan_ok=True)
    assert tally.reached == list(library.num_at_position)
    assert tally.tau == pytest.approx(library.tau)
    assert tally.mean_verify_len == pytest.approx(library.mean_verify_len)
    assert tally.verified_acceptance == pytest.approx(library.verified_acceptance)
    assert over_positions(tally.calibrated, lambda b: b.ece) == pytest.approx(library.ece)
    assert over_positions(tally.calibrated, lambda b: b.floor) == pytest.approx(library.ece_floor)


def test_rates_wait_for_thirty_rounds() -> None:
    """Kills: a rate of 1.00 shown after a single round."""
    assert all(math.isnan(r) for r in a_run(4).tally.conditional_acceptance())
    assert not math.isnan(a_run(60).tally.conditional_acceptance()[0])


def test_bins_at_the_edges() -> None:
    """Kills: 1.0 in an extra bin, nan that breaks the index."""
    bins = Bins()
    for value, hit in ((1.0, True), (0.0, False), (float("nan"), False), (0.95, True)):
        bins.add(value, hit)
    assert bins.num[9] == 2
    assert bins.num[0] == 2
    assert bins.ece == pytest.approx(0.05 / 4)
    assert math.isnan(Bins().ece)


def test_floor_is_what_chance_leaves() -> None:
    """Kills: a floor that does not shrink with counts (method: 3.0% at 1,000 rounds, 1.0% at 10,000)."""

    def floor(num: int) -> float:
        bins = Bins()
        for i in range(num):
            bins.add((i % 10 + 0.5) / 10, False)
        return bins.floor

    assert floor(1000) == pytest.approx(0.0285, abs=0.006)
    assert floor(100) / floor(10_000) == pytest.approx(10, rel=0.01)


def test_pool_keeps_prefixes_and_curve_finds_cut() -> None:
    """Kills: ties broken by request first, Theta without the base tokens."""
    step = list(Synthetic(seed=1).steps(12))[-1]
    pool = pool_of(step)
    survivals = [c.survival for c in pool]
    assert survivals == sorted(survivals, reverse=True)
    for request in range(4):
        places = [c.position for c in pool if c.request == request]
        assert places == sorted(places)
    seen = admission_of(step, from_rates({n: 1 / (1 + n / 8) for n in range(1, 80)}))
    assert seen is not None
    assert seen.num_admitted == sum(r.verify_len for r in step)
    assert seen.throughput[0] == pytest.approx(4 / (1 + 4 / 8))
    assert max(seen.throughput) == seen.throughput[seen.best]


def test_appendix_a_stops_early_and_its_maximum_is_further() -> None:
    """Kills: early stop and maximum swapped (method section 8: Theta 1, 0.9, 1.134)."""
    step = next(r for r in list(Synthetic(num_requests=1, gamma=2).steps(9)) if r[0].kind == "drafted")
    one = replace(step[0], survival=(0.8, 0.72), base_tokens=1, num_requests=1)
    seen = admission_of([one], from_rates({1: 1.0, 2: 0.5, 3: 0.45}))
    assert seen is not None
    assert seen.throughput == pytest.approx((1.0, 0.9, 1.134))
    assert (seen.early_stop, seen.best) == (0, 2)
    assert early_stop(()) == 0


def test_collision_numbers() -> None:
    """Kills: a parallel drafter that reads the first word; acceptance not weighted by it."""
    half = collision_of({("of", "course"): 0.5, ("no", "problem"): 0.5})
    assert half.parallel["of", "problem"] == 0.25
    assert half.impossible == 0.5
    assert half.parallel_acceptance == (1.0, 0.5)
    assert half.semi == half.target
    certain = collision_of({("of", "course"): 2.0, ("no", "problem"): 0.0})
    assert certain.parallel_acceptance == (1.0, 1.0)
    with pytest.raises(ValueError, match="positive sum"):
        collision_of({("of", "course"): 0.0})


def test_texts_grow_with_ghosts_of_the_last_round() -> None:
    """Kills: rejected drafts that stay in the text, or that stand behind the correction; a word said twice."""
    run = Run(header_of(Synthetic()))
    for rounds in Synthetic().steps(30):
        run.add(rounds)
        for passage in run.passages.values():
            lost = ghosts(passage)
            shown = [piece for one in told(passage, run.header.pieces, 4000, 4000) for piece in one.plain.split()]
            *said, last = [run.header.pieces[token] for token, _ in passage.tokens]
            between = [run.header.pieces[token] for token, _ in lost]
            assert "".join(shown) == "".join("".join([*said, *between, last]).split())
            last_round = passage.rounds[-1]
            assert len(lost) == (last_round.kind == "drafted") * (len(last_round.drafted) - last_round.accepted)


@pytest.mark.parametrize("width", [1, 3, 7, 20, 80])
def test_a_text_that_grows_wraps_like_one_that_is_whole(width: int) -> None:
    """Kills: a word cut at a token's end; a line that changes after it was left; a wide letter that never fits."""
    text = "Half a dozen eggs, extraordinarily\n  indented; 卵が六つ and on\n\nto the end."
    whole = Flow(width)
    whole.add(text, "")
    grown, before = Flow(width), []
    for letter in text:
        grown.add(letter, "")
        lines = [line.plain for line in grown.lines([(" ghost", "strike")], 1000)]
        settled = max(len(before) - 2, 0)
        assert [line.plain for line in grown.lines([], 1000)][:settled] == before[:settled]
        before = [line.plain for line in grown.lines([], 1000)]
        assert all(cell_len(line) <= max(width, 2) for line in lines)
    assert before == [line.plain for line in whole.lines([], 1000)]
    assert "".join("".join(before).split()) == "".join(text.split())


def test_following_another_request_and_the_past() -> None:
    """Kills: a pinned round that moves when new rounds arrive; a request lost when it ends."""
    session = a_session(20)
    first = session.shown_round()
    session.move_round(-5)
    pinned = session.shown_round()
    assert pinned is not None
    assert first is not None
    assert pinned.step == first.step - 5
    session.next_request(1)
    other = session.shown_round()
    assert other is not None
    assert (other.step, other.request) == (pinned.step, 1)
    session.apply(MAIN, [Stepped(r) for r in list(Synthetic(seed=9).steps(3))])
    assert session.shown_round() is other
    session.move_round(10_000)
    assert session.selection.pinned is None


def test_items_before_an_opening_are_an_error() -> None:
    """Kills: rounds of an unknown composition swallowed in silence."""
    with pytest.raises(ValueError, match="before it opened"):
        Session().apply(MAIN, [Began(0, "x")])


def test_old_audits_are_kept_when_a_part_changes() -> None:
    """Kills: an e-value that survives the change of scheduler, or is lost with it."""
    session = a_session(30)
    run = session.run()
    assert run is not None
    tokens = run.audit.num_tokens
    assert tokens > 50
    session.apply(MAIN, played(2, scheduler="lookahead"))
    assert session.channel(MAIN).old_audits[0].num_tokens == tokens
    new = session.run()
    assert new is not None
    assert new.audit.num_tokens < tokens
    assert new.audit.light == "amber"
    assert "scheduler lookahead" in new.audit.verdict


def test_lights() -> None:
    """Kills: red only for declared lossy parts; green for a coupled text that differs."""
    generator = Synthetic()
    honest = Audit(header_of(generator))
    one = next(r for r in rounds_of(list(generator.steps(9))) if r.audit_chosen)
    assert honest.light == "green"
    cheating = replace(one, audit_chosen=(True,) * 5, audit_mass=(0.3,) * 5)
    for _ in range(10):
        honest.add(cheating)
    assert honest.light == "red"
    coupled = Audit(header_of(generator, verifier="coupled", scheduler="lookahead"))
    assert coupled.light == "grey"
    coupled.compare(10, None)
    assert coupled.light == "green"
    coupled.compare(3, 4)
    assert coupled.light == "red"
    assert "token 5" in coupled.verdict


def test_audit_path_stays_short() -> None:
    """Kills: a curve whose points grow without bound."""
    audit = Audit(header_of(Synthetic()))
    for rounds in Synthetic(num_requests=1).steps(3000):
        audit.add(rounds[0])
    assert len(audit.path) <= 601
    assert audit.path[0] == (0, 0.0)
    assert audit.path[-1] == (audit.num_tokens, audit.log_e)


def test_loads_count_full_batches_only() -> None:
    """Kills: prefill steps and half-empty batches counted as load; warm-up steps counted."""
    load = Load("x", 4)
    steps = list(Synthetic().steps(12))
    for rounds in steps:
        load.add(rounds)
    load.add(steps[-1][:2])
    assert load.num_steps == 12 - 1 - 2
    assert load.per_user == load.throughput / 4
    assert 1 <= load.budget <= 8


def test_race_places_by_own_clock() -> None:
    """Kills: places by arrival or by tokens, not by tokens a second of the own clock; a speedup of nothing."""
    fast, slow = a_run(10, num_requests=1), a_run(40, num_requests=1)
    slow.engine_seconds *= 4
    fast.is_over = slow.is_over = True
    table = standings([("plain", slow), ("dspark", fast)], 40)
    assert [s.place for s in table] == [2, 1]
    assert table[0].speedup == 1.0
    assert math.isnan(standings([("dspark", fast)], 40)[0].speedup)


def test_undrafted_rounds_are_shown() -> None:
    """Kills: a plain step counted as a drafted one."""
    plain = replace(next(Synthetic().steps(1))[0], kind="undrafted", tokens=(Token(3, "plain"),), step=2)
    assert cells_of(plain) == ()
    assert glyphs(plain) == ("plain",)
    tally = Tally(7)
    tally.add(plain)
    assert (tally.num_undrafted, tally.tau) == (1, 1.0)

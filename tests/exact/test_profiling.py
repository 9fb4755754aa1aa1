"""A profile is taken on the real engine: which steps it makes, and what becomes of their seconds."""

import itertools
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparkit.capacity import Sample, capacity_of, flat
from sparkit.confidences.head import ConfidenceHead
from sparkit.engine import Parts
from sparkit.profiling import IN_A_ROW, Bench, Profile, profile, ragged
from sparkit.protocols import CALIBRATORS, DRAFTERS, SCHEDULERS, VERIFIERS
from sparkit.rounds import Round, Seconds
from sparkit.targets.model import TransformerTarget
from sparkit.targets.transformer import Transformer, TransformerConfig


@pytest.fixture(scope="module")
def parts() -> Parts:
    torch.manual_seed(0)
    config = TransformerConfig(64, 16, 32, num_layers=2, num_heads=2, max_positions=96)
    target = TransformerTarget(Transformer(config).eval(), taps=(0,))
    drafter = DRAFTERS.create("dspark", target=target, gamma=3, rank=4, num_layers=1, taps=(0,))
    made = (CALIBRATORS.create("identity"), SCHEDULERS.create("greedy"), VERIFIERS.create("rejection"))
    return Parts(target, drafter, ConfidenceHead(16, 4), *made, flat())


def test_every_length_is_stepped_at_every_size(parts: Parts) -> None:
    """Kills: a ceiling that shortens a step; steps with prefill counted; a size left out."""
    ticks: list[tuple[int, int]] = []
    found = profile(parts, gamma=3, num_requests=(1, 2), context_len=20, repeats=3, progress=lambda *t: ticks.append(t))
    assert len(found.samples) == 2 * 3 * 9
    assert ticks[-1] == (54, 54)
    for one in found.samples:
        assert one.batch_tokens == one.num_requests * (1 + (one.verify_len or 0))
        assert 20 <= one.context_len <= 96
    assert {one.verify_len for one in found.samples} == {None, 0, 1, 2, 3}
    assert [one.verify_len for one in found.samples if one.block_len == 1] == [0] * 12  # what prices a draft token
    curve = found.capacity
    assert [size for size, _ in curve.verify.points] == [1, 2, 3, 4, 6, 8]
    assert [size for size, _ in curve.draft.points] == [1, 2]
    assert curve.is_measured
    assert curve.draft_seconds(1) > 0
    assert curve.undrafted_rate(1, 1) > 0


def test_without_a_drafter_only_plain_steps(parts: Parts) -> None:
    """Kills: a draft asked of nobody."""
    found = profile(replace(parts, drafter=None), gamma=3, context_len=8, repeats=2)
    assert {one.verify_len for one in found.samples} == {None}
    assert found.capacity.draft_seconds(1) == 0.0


def test_time_limit_keeps_five_sweeps(parts: Parts) -> None:
    """Kills: a limit that is ignored; nothing measured at all; a limit for each size, by which the last ones are late.

    Every sweep has every size, so a slow second of the machine spoils one sweep and not one size.
    """
    found = profile(parts, gamma=3, num_requests=(1, 2), context_len=8, repeats=500, max_seconds=0.0)
    sizes = [size for size, _ in itertools.groupby(one.num_requests for one in found.samples)]
    assert sizes == 5 * [1, 2]
    assert len(found.samples) == 5 * 2 * 9


def test_medians_and_their_columns() -> None:
    """Kills: a mean; planning forgotten; the undrafted overhead mixed with the drafted."""

    def sample(verify_len: int | None, *seconds: float) -> Sample:
        return Sample(2, verify_len, 2 * (1 + (verify_len or 0)), 64, Seconds(*seconds))

    curve = capacity_of(
        [
            sample(0, 1.0, 0.1, 3.0, 0.2),
            sample(0, 2.0, 0.1, 4.0, 0.2),
            sample(0, 9.0, 0.3, 99.0, 0.4),
            sample(None, 0.0, 0.0, 4.0, 0.05),
            sample(1, 2.0, 0.1, 5.0, 0.2),
        ]
    )
    assert dict(curve.verify.points) == pytest.approx({2: 4.0, 4: 5.0})
    assert curve.draft.points == ((2, 2.0),)
    assert curve.overhead_seconds(2) == pytest.approx(0.3)
    assert curve.plain_overhead.at(2) == pytest.approx(0.05)


def test_room_and_sizes_are_checked(parts: Parts) -> None:
    """Kills: an endless refill; an engine without slots."""
    with pytest.raises(ValueError, match=r"context_len=90: expected 1 to 80"):
        profile(parts, gamma=3, context_len=90)
    with pytest.raises(ValueError, match=r"expected sizes of 1 or more"):
        profile(parts, gamma=3, num_requests=(0,))
    assert Profile.__slots__


@given(mean=st.integers(0, 7), num=st.integers(1, 9))
def test_ragged_rows_sum_to_what_was_asked(mean: int, num: int) -> None:
    """Kills: a curve whose batch_tokens are not those of the step; equal rows, which cost less than service's."""
    rows = ragged(mean, 7, num)
    assert sum(rows) == mean * num
    assert all(0 <= row <= 7 for row in rows)
    assert num == 1 or mean in (0, 7) or len(set(rows)) > 1


def test_contexts_differ_and_have_the_mean_that_was_asked(parts: Parts) -> None:
    """Kills: a profile of equal contexts; a context that does not fit."""
    bench = Bench.of(parts, 3, 4, 20, ())
    lengths = [len(request.prompt) for request in bench.requests]
    assert lengths == [10, 16, 23, 30]
    with pytest.raises(ValueError, match="expected 1 to"):
        profile(parts, gamma=3, num_requests=(1, 4), context_len=60)


def test_a_pass_right_after_a_draft_is_the_drafts_price() -> None:
    """Kills: plain decoding priced by target passes that a draft has slowed; a drafted step that does not add up."""
    times = {None: (0.0, 10e-3), 0: (5e-3, 12e-3), 1: (5e-3, 15e-3)}
    samples = [
        Sample(4, length, 4 + 4 * (length or 0), 64, Seconds(draft, 0.0, verify, overhead=1e-3))
        for length, (draft, verify) in times.items()
    ]
    found = capacity_of(samples)
    assert 1 / found.undrafted_rate(4, 4) == pytest.approx(11e-3)
    assert found.verify.points == ((4, pytest.approx(10e-3)), (8, pytest.approx(13e-3)))
    for batch, seconds in ((4, 18e-3), (8, 21e-3)):
        assert 1 / found.rounds_per_second(4, batch) == pytest.approx(seconds)


def test_few_rows_are_not_as_cheap_as_one_that_a_draft_slowed() -> None:
    """Kills: one row's slow-down behind a draft taken off eight rows, so that four plain rows cost what one does."""
    steps = {
        (1, None): (0.0, 7e-3),
        (1, 0): (5e-3, 11e-3),
        (1, 3): (5e-3, 11e-3),
        (1, 7): (5e-3, 12e-3),
        (4, None): (0.0, 11e-3),
        (4, 0): (7e-3, 12e-3),
        (4, 7): (7e-3, 16e-3),
    }
    found = capacity_of(
        Sample(num, length, num * (1 + (length or 0)), 64, Seconds(draft, 0.0, verify, overhead=1e-3))
        for (num, length), (draft, verify) in steps.items()
    )
    assert 1 / found.undrafted_rate(1, 1) == pytest.approx(8e-3)
    assert 1 / found.undrafted_rate(4, 4) == pytest.approx(12e-3)
    assert found.verify_seconds(8) >= found.verify_seconds(4)
    for (num, length), seconds in (((1, 7), 18e-3), ((4, 7), 24e-3)):
        assert 1 / found.rounds_per_second(num, num * (1 + length)) == pytest.approx(seconds)


def test_one_size_measured_in_a_bad_moment_does_not_lift_the_others() -> None:
    """Kills: a price of many rows that is never below that of four, which were measured slow."""
    samples = [
        Sample(num, length, num * (1 + (length or 0)), 64, Seconds(5e-3, 0.0, verify))
        for num, plain, drafted in ((1, 7e-3, 10e-3), (4, 90e-3, 15e-3), (16, 13e-3, 26e-3))
        for length, verify in ((None, plain), (0, plain), (7, drafted))
    ]
    found = capacity_of(samples)
    assert found.verify_seconds(16) == pytest.approx(13e-3)
    assert found.verify_seconds(4) <= 13e-3
    assert found.verify_seconds(32) <= 26e-3


SECONDS = st.integers(0, 400).map(lambda n: n / 64)  # dyadic: sums of a few are exact


@given(
    rows=st.lists(SECONDS, min_size=64, max_size=64).map(lambda steps: [8 + s for s in itertools.accumulate(steps)]),
    requests=st.fixed_dictionaries({num: st.tuples(SECONDS, SECONDS, SECONDS) for num in (1, 2, 4, 8)}),
)
def test_additive_steps_are_priced_as_they_were(
    rows: list[float], requests: dict[int, tuple[float, float, float]]
) -> None:
    """Kills: a part of the price that is charged twice, or to other requests, or lost; plain rows priced as drafted."""
    times = [
        (num, length, draft if length is not None else 0.0, rows[num * (1 + (length or 0)) - 1] + apart)
        for num, (draft, own, late) in requests.items()
        for length in (None, *range(8))
        for apart in (own if length is None else own + late,)
    ]
    found = capacity_of(
        Sample(num, length, num * (1 + (length or 0)), 64, Seconds(draft, 0.0, verify))
        for num, length, draft, verify in times
    )
    for num, length, draft, verify in times:
        drafted = length is not None
        rate = found.rounds_per_second(num, num * (1 + length)) if drafted else found.undrafted_rate(num, num)
        assert 1 / rate == pytest.approx(draft + verify, rel=1e-9)


def test_undrafted_steps_are_measured_as_service_makes_them(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: a plain step behind a drafted one, a fifth dearer than those that follow; steps that track versions.

    By such a curve drafting paid at four users where it lost 12%.
    """
    made: list[tuple[bool, bool]] = []  # (drafted, in inference mode), step by step
    step = Bench._step

    def noted(self: Bench, verify_len: int | None, block_len: int | None = None) -> list[Round]:
        rounds = step(self, verify_len, block_len)
        made.append((rounds[0].kind == "drafted" if rounds else False, torch.is_inference_mode_enabled()))
        return rounds

    monkeypatch.setattr(Bench, "_step", noted)
    sample = Bench.sample

    def checked(self: Bench, verify_len: int | None, block_len: int | None = None) -> Sample:
        found = sample(self, verify_len, block_len)
        wanted = IN_A_ROW + 1 if verify_len is None else 1
        assert made[-wanted:] == [(verify_len is not None, True)] * wanted
        return found

    monkeypatch.setattr(Bench, "sample", checked)
    profile(parts, gamma=3, num_requests=(2,), context_len=20, repeats=2)
    assert len(made) > 2 * (9 + 3 * IN_A_ROW)

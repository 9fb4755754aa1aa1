"""Definitions of design section 5, on rounds small enough to count by hand."""

import math
from dataclasses import replace

import pytest
import torch

from sparkit import metrics
from sparkit.metrics import Outcomes, auc, bootstrap_interval, ece, measure, perfect_ece, reliability
from sparkit.rounds import Round, Seconds, Token


def round_of(
    verify_len: int,
    accepted: int,
    *,
    request: int = 0,
    step: int = 1,
    survival: tuple[float, ...] = (0.8, 0.4),
    emitted: int | None = None,
    kind: str = "drafted",
) -> Round:
    drafts = [Token(7, "draft")] * accepted + [Token(8, "bonus" if accepted == verify_len else "correction")]
    if kind != "drafted":
        drafts = [Token(8, "plain")]
    return Round(
        request=request, step=step, kind=kind, anchor=0, anchor_position=0, drafted=(7, 7), p_draft=(0.5, 0.5),
        p_target=(), logits=(0.0, 0.0), confidence=(0.8, 0.5), survival=survival if kind == "drafted" else (),
        accept_rate=(), verify_len=verify_len, floor=0, ceiling=2, is_probe=False, accepted=accepted, next_token=8,
        origin="bonus", tokens=tuple(drafts[:emitted]), stop_reason=None, audit_chosen=(), audit_mass=(),
        num_requests=1, batch_tokens=3, base_tokens=1, seconds=Seconds(0.1, 0.2, 0.3, 0.4),
    )  # type: ignore[arg-type]  # fmt: skip


def test_tau_counts_what_was_emitted() -> None:
    """Kills: accepted + 1 for a round that a stop cut; the prefill's token counted; undrafted rounds left out."""
    rounds = [
        round_of(0, 0, kind="prefill", step=1),
        round_of(2, 2, step=2),  # 3 tokens
        round_of(2, 2, step=3, emitted=1),  # cut behind the first draft
        round_of(0, 0, kind="undrafted", step=4),
        round_of(0, 0, step=5),  # drafted, none verified: undrafted all the same
    ]
    found = measure(rounds, gamma=2)
    assert (found.num_rounds, found.num_new_tokens) == (4, 7)
    assert found.tau == 6 / 4
    assert found.accepted == 3 / 4
    assert found.undrafted_share == 0.5
    assert found.mean_verify_len == 1.0
    assert found.verified_acceptance == (4 + 4) / (4 + 4)
    assert found.draft_seconds == pytest.approx(0.1)
    assert found.overhead_seconds == pytest.approx(0.4)


def test_rates_count_only_rounds_that_verified_the_position() -> None:
    """Kills: rounds cut before k counted as failures; conditional and prefix rates exchanged."""
    rounds = [round_of(2, 2)] * 20 + [round_of(2, 1)] * 10 + [round_of(2, 0)] * 10 + [round_of(1, 1)] * 60
    found = measure(rounds, gamma=2)
    assert found.num_at_position == (100, 40)
    assert found.prefix_acceptance == (0.9, 0.5)
    assert found.conditional_acceptance == (0.9, 20 / 30)
    assert found.verified_acceptance == (40 + 10 + 60 + 100) / (80 + 60 + 100)


def test_rates_are_null_below_30_rounds() -> None:
    """Kills: a rate of 29 rounds."""
    found = measure([round_of(1, 1)] * 29, gamma=2)
    assert found.num_at_position == (29, 0)
    assert found.prefix_acceptance == found.conditional_acceptance == (None, None)
    assert measure([round_of(1, 1)] * 30, gamma=2).prefix_acceptance == (1.0, None)


def test_nothing_measured_is_null() -> None:
    """Kills: a division by zero; 0 in place of no data."""
    found = measure([], gamma=2)
    assert (found.num_rounds, found.num_new_tokens, found.tau, found.ece, found.auc) == (0, 0, None, None, None)
    assert found.tau_interval is None
    assert measure([round_of(0, 0, kind="prefill")], gamma=2).tau is None


def test_ece_and_auc_weigh_positions_by_their_rounds() -> None:
    """Kills: an unweighted mean over positions; the confidence used for the survival."""
    rounds = [round_of(2, 2)] * 3 + [round_of(2, 0)] + [round_of(1, 0, survival=(0.2, 0.1))] * 4
    # position 1: 4 at 0.8 with 3 accepted, 4 at 0.2 with none; position 2: 4 at 0.4 with 3 accepted
    found = measure(rounds, gamma=2)
    first, second = (4 * 0.05 + 4 * 0.2) / 8, 0.35
    assert found.ece == pytest.approx((8 * first + 4 * second) / 12)
    assert found.auc == pytest.approx((8 * (3 * 4 + 3 * 0.5) / 15 + 4 * 0.5) / 12)


def test_auc_with_ties() -> None:
    """Kills: ties won or lost; one class scored."""
    score = torch.tensor([0.9, 0.5, 0.5, 0.1])
    assert auc(score, torch.tensor([1, 1, 0, 0])) == 0.875
    assert auc(score, torch.tensor([0, 0, 1, 1])) == 0.125
    assert auc(score, torch.ones(4)) is None
    assert auc(torch.zeros(0), torch.zeros(0)) is None


def test_perfect_floor_is_what_perfect_predictors_show() -> None:
    """The figures of method section 5. Kills: the variance without 1 - a; a missing square root."""
    generator = torch.Generator().manual_seed(1)
    for num, published in ((300, 0.058), (1_000, 0.030), (10_000, 0.010), (30_000, 0.006)):
        values = torch.rand(num, generator=generator, dtype=torch.float64)
        assert perfect_ece(values) == pytest.approx(published, abs=0.002)
        shown = [ece(values, torch.rand(num, generator=generator) < values) for _ in range(40)]
        assert sum(shown) / 40 == pytest.approx(perfect_ece(values), rel=0.15)
    assert perfect_ece(torch.zeros(0)) is None
    assert perfect_ece(torch.ones(9)) == 0.0


def test_interval_draws_whole_prompts() -> None:
    """Kills: rounds drawn one by one; a percentile on the wrong side; fresh noise each call."""
    rounds = [replace(round_of(2, 2), request=r) for r in range(8) for _ in range(50)]
    rounds += [replace(round_of(2, 0), request=8 + r) for r in range(8) for _ in range(50)]
    found = measure(rounds, gamma=2)
    assert found.tau == 2.0
    assert found.tau_interval is not None
    low, high = found.tau_interval
    spread = 1.96 / math.sqrt(16)  # 16 prompts of tau 3 or 1
    assert low == pytest.approx(2 - spread, abs=0.15)
    assert high == pytest.approx(2 + spread, abs=0.15)
    assert measure(rounds, gamma=2).tau_interval == found.tau_interval
    assert measure(rounds, gamma=2, prompt_of=lambda one: 0).tau_interval is None


def test_interval_of_a_ratio() -> None:
    """Kills: a mean of ratios in place of a ratio of sums."""
    totals, counts = torch.tensor([100.0, 1.0]), torch.tensor([50.0, 1.0])
    found = bootstrap_interval(totals, counts)
    assert found == (1.0, 2.0)


def test_a_prediction_out_of_range_is_refused() -> None:
    """Kills: logits binned as if they were probabilities."""
    for value in (1.5, -0.1, math.nan):
        with pytest.raises(ValueError, match="expected predictions from 0 to 1"):
            reliability(torch.tensor([value]), torch.tensor([1.0]))


def test_outcomes_keep_verified_rounds_only() -> None:
    """Kills: rows of undrafted rounds, which have no survival, in the table."""
    found = Outcomes.of([round_of(0, 0, kind="undrafted"), round_of(1, 1)], 2)
    assert (len(found.accepted), found.gamma, metrics.NUM_BINS) == (1, 2, 10)

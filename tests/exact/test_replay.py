"""A recorded run decided again: the same policy gives the same numbers, another one what its cuts would have kept."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

from sparkit.calibrators.sts import Sts
from sparkit.capacity import roofline, staircase
from sparkit.rounds import Limits, Round, Token
from sparkit.serving.policy import curve_of, policy_of
from sparkit.serving.replay import recorded, replay, steps_of
from sparkit.serving.sources import Blocks, check_full, from_traces
from sparkit.survival import survival_of
from sparkit.traces import Trace, TraceHeader, read_trace, write_trace
from tests.tui.synthetic import Synthetic, rounds_of, trace_header

CURVE = staircase(tile=8, base=0.004, per_tile=0.001, draft=0.001)


def full(round_: Round, gamma: int) -> Round:
    """The synthetic round as if everything had been verified: a rejection or the block's end decides."""
    fields = {"verify_len": gamma, "p_target": (0.5,) * gamma, "accept_rate": (0.5,) * gamma}
    return round_ if round_.kind == "prefill" else dataclasses.replace(round_, **fields)


@pytest.fixture
def trace() -> Trace:
    """40 steps of four requests, everything verified."""
    source = Synthetic(seed=3)
    rounds = rounds_of(list(source.steps(40)))
    return Trace(trace_header(source, scheduler="fixed"), tuple(full(one, 7) for one in rounds))


def test_fixed_replays_to_the_recorded_counts(trace: Trace) -> None:
    """Kills: a verdict other than min(accepted, cut), prefill counted as a round, tokens without the bonus."""
    was, now = recorded(trace.rounds), replay(trace, policy_of("fixed", "identity", CURVE, 7))
    for name in ("num_steps", "num_rounds", "verified", "accepted", "wasted", "missed", "tokens"):
        assert getattr(was, name) == getattr(now, name), name
    by_hand = sum(1 / CURVE.rounds_per_second(4, 4 + 28) for _ in steps_of(trace.rounds))
    assert now.seconds == pytest.approx(by_hand, rel=1e-12)


def resting(round_: Round) -> Round:
    """The same request with a plain token instead of a draft."""
    empty: dict[str, Any] = dict.fromkeys(("drafted", "p_draft", "p_target", "logits", "confidence", "survival"), ())
    nothing = {"verify_len": 0, "floor": 0, "ceiling": 0, "accepted": 0, "accept_rate": ()}
    token = (Token(round_.next_token, "plain"),)
    return dataclasses.replace(round_, kind="undrafted", origin="plain", tokens=token, **empty, **nothing)


def test_steps_in_which_some_rest_replay_to_the_recorded_counts(trace: Trace) -> None:
    """Kills: a step read by its first round, a resting request asked for a confidence that it has not."""
    parted = tuple(resting(one) if one.kind == "drafted" and one.request % 2 else one for one in trace.rounds)
    assert {one.kind for one in parted} == {"prefill", "drafted", "undrafted"}
    now = replay(Trace(trace.header, parted), policy_of("fixed", "identity", CURVE, 7))
    was = recorded(parted)
    for name in ("num_steps", "num_rounds", "verified", "accepted", "wasted", "missed", "tokens"):
        assert getattr(was, name) == getattr(now, name), name


@pytest.mark.parametrize("scheduler", ["greedy", "delayed", "foresight", "threshold:value=0.6", "lookahead"])
def test_every_draft_is_wasted_kept_or_missed(trace: Trace, scheduler: str) -> None:
    """Kills: missed counted from verified drafts, wasted from unverified ones."""
    was, now = recorded(trace.rounds), replay(trace, policy_of(scheduler, "identity", CURVE, 7))
    assert now.missed is not None
    assert now.accepted + now.missed == was.accepted
    assert now.verified == now.accepted + now.wasted < was.verified
    assert now.tokens <= was.tokens


def test_greedy_is_decided_as_by_hand(trace: Trace) -> None:
    """Kills: survivals left uncalibrated, a scheduler asked with another base."""
    policy = policy_of("greedy", "identity", CURVE, 7)
    policy = dataclasses.replace(policy, calibrator=Sts(calibration_temperatures=(2.0,) * 7))
    memory, verified = policy.scheduler.start(), 0
    for step in steps_of(trace.rounds)[:6]:  # the pace never stops drafting so early
        survival = survival_of(torch.sigmoid(torch.tensor([one.logits for one in step], dtype=torch.float64) / 2))
        none = torch.zeros(len(step), dtype=torch.int64)
        plan, memory = policy.scheduler.plan(survival, CURVE, Limits(4, none, none + 7), memory)
        verified += int(plan.verify_len.sum())
    short = Trace(trace.header, tuple(one for one in trace.rounds if one.step <= 7))
    assert replay(short, policy).verified == verified > 0


def test_probes_are_those_of_the_request_seeds(trace: Trace) -> None:
    """Kills: probes drawn from anything but (seed, anchor)."""
    policy = policy_of("threshold:value=1.0", "online:probe_every=4,refit_every=100000", CURVE, 7)
    seeds = {number: 100 + number for number in trace.header.requests}
    rows = {number: {**row, "seed": seeds[number]} for number, row in trace.header.requests.items()}
    other = Trace(dataclasses.replace(trace.header, requests=rows), trace.rounds)
    assert replay(trace, policy) == replay(trace, policy)
    assert replay(trace, policy).verified != replay(other, policy).verified


def test_a_budget_holds(trace: Trace) -> None:
    """Kills: a token budget that is not handed on."""
    now = replay(trace, policy_of("fixed", "identity", CURVE, 7, token_budget=10))
    assert now.verified == 6 * now.num_steps


@pytest.mark.parametrize("verifier", ["block", "coupled", "lenient:factor=2.0"])
def test_other_verifiers_are_refused_with_the_reason(trace: Trace, verifier: str) -> None:
    """Kills: block traces taken for token-wise ones."""
    header = dataclasses.replace(trace.header, recipe={**trace.header.recipe, "verifier": verifier})
    with pytest.raises(ValueError, match=r"one cut does not tell"):
        replay(Trace(header, trace.rounds), policy_of("fixed", "identity", CURVE, 7))


def test_cut_rounds_and_another_gamma_are_refused(trace: Trace) -> None:
    """Kills: a draft that nobody verified counted as rejected."""
    rounds = list(trace.rounds)
    rounds[-1] = dataclasses.replace(rounds[-1], verify_len=2)
    with pytest.raises(ValueError, match="1 of 156 rounds were cut short"):
        replay(Trace(trace.header, tuple(rounds)), policy_of("fixed", "identity", CURVE, 7))
    with pytest.raises(ValueError, match="header says gamma 5"):
        check_full(Trace(dataclasses.replace(trace.header, gamma=5), trace.rounds), "x")
    with pytest.raises(ValueError, match="no drafted round"):
        check_full(Trace(trace.header, trace.rounds[:4]), "x")


def saved(path: Path, header: TraceHeader, rounds: tuple[Round, ...]) -> Path:
    write_trace(path, header, rounds)
    return path


def test_sources_refuse_traces_of_two_gammas(trace: Trace, tmp_path: Path) -> None:
    """Kills: blocks of 7 and of 5 in one table."""
    short = Synthetic(seed=4, gamma=5)
    rounds = tuple(full(one, 5) for one in rounds_of(list(short.steps(10))))
    first = saved(tmp_path / "a.jsonl", trace.header, trace.rounds)
    second = saved(tmp_path / "b.jsonl", trace_header(short), rounds)
    with pytest.raises(ValueError, match="different gamma"):
        from_traces([first, second])
    blocks: Blocks = from_traces([first])
    assert (len(blocks), blocks.gamma, blocks.domains) == (156, 7, ("math", "code", "chat"))
    assert blocks.count.tolist() == [39] * 4


def test_a_file_that_ends_early_gives_its_whole_rounds(trace: Trace, tmp_path: Path) -> None:
    """Kills: a half line read as a round, or the whole file thrown away."""
    path = saved(tmp_path / "a.jsonl", trace.header, trace.rounds)
    path.write_bytes(path.read_bytes()[:-40])
    read = read_trace(path)
    assert read.is_cut
    assert replay(read, policy_of("fixed", "identity", CURVE, 7)).num_rounds == 155


def test_curves_by_name() -> None:
    """Kills: parameters of an analytic curve dropped."""
    assert curve_of("staircase:tile=4").verify.points[0] == (4, 1.0)
    assert curve_of("roofline") == roofline()
    with pytest.raises(LookupError, match="unknown capacity"):
        curve_of("rooflin")

"""The bound of replay: by every choice there is, and above every scheduler."""

import dataclasses
import itertools
from collections.abc import Sequence

import pytest

from sparkit.capacity import Capacity, flat, roofline, staircase
from sparkit.capacity.curve import Curve
from sparkit.rounds import Round
from sparkit.serving.clairvoyant import most
from sparkit.serving.policy import policy_of
from sparkit.serving.replay import recorded, replay, steps_of
from sparkit.traces import Trace
from tests.exact.test_replay import full, resting
from tests.tui.synthetic import Synthetic, rounds_of, trace_header

DEAR = Capacity(
    Curve(((1, 0.004), (8, 0.005), (16, 0.02)), "linear"), Curve(((1, 0.002), (4, 0.006)), "linear"),
    overhead=Curve.constant(0.001),
)  # fmt: skip
"""Where a few drafts pay and many do not."""
CURVES = {"roofline": roofline(), "staircase": staircase(tile=8, per_tile=0.6, draft=0.3), "flat": flat(), "dear": DEAR}


def trace_of(num_steps: int, seed: int = 3) -> Trace:
    source = Synthetic(seed=seed)
    rounds = rounds_of(list(source.steps(num_steps)))
    return Trace(trace_header(source, scheduler="fixed"), tuple(full(one, 7) for one in rounds))


def ways(step: Sequence[Round], capacity: Capacity) -> list[tuple[int, float]]:
    """Tokens and seconds of everything that can be done with a step: who drafts, and how much of it is verified."""
    base, most_in = step[0].base_tokens, {1 / capacity.undrafted_rate(len(step), step[0].base_tokens): len(step)}
    for cuts in itertools.product(*[(None, *range(8)) for _ in step]):
        drafting = [(one, cut) for one, cut in zip(step, cuts, strict=True) if cut is not None]
        if drafting:
            tokens = len(step) + sum(min(one.tau - 1, cut) for one, cut in drafting)
            batch = base + sum(cut for _, cut in drafting)
            seconds = 1 / capacity.rounds_per_second(len(drafting), batch)
            most_in[seconds] = max(tokens, most_in.get(seconds, 0))
    return [(tokens, seconds) for seconds, tokens in most_in.items()]


@pytest.mark.parametrize("name", ["roofline", "staircase", "dear"])
@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_best_of_all_choices(name: str, seed: int) -> None:
    """Kills: everybody drafts or nobody; the best step by step instead of over the run; a draft priced for all."""
    whole, curve = trace_of(40, seed), CURVES[name]
    decoding = [step[:3] for step in steps_of(whole.rounds) if len(step) > 1]
    few = Trace(whole.header, tuple(one for step in (decoding[0], decoding[9]) for one in step))
    found = most(few, curve)
    pairs = itertools.product(*(ways(step, curve) for step in steps_of(few.rounds)))
    best = max((first[0] + second[0]) / (first[1] + second[1]) for first, second in pairs)
    assert found.tokens_per_second == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("scheduler", ["fixed", "greedy", "lookahead", "delayed", "foresight", "threshold:value=0.6"])
@pytest.mark.parametrize("name", CURVES)
def test_no_scheduler_is_better(name: str, scheduler: str) -> None:
    """Kills: a bound that is none."""
    trace = trace_of(60)
    rate = replay(trace, policy_of(scheduler, "identity", CURVES[name], 7)).tokens_per_second
    bound = most(trace, CURVES[name]).tokens_per_second
    assert rate is not None
    assert bound is not None
    assert rate <= bound * (1 + 1e-12)


def test_what_it_counts() -> None:
    """Everything pays where all is free; a budget of one token more than the anchors leaves one draft a step."""
    trace = trace_of(40)
    was, found = recorded(trace.rounds), most(trace, flat())
    assert (found.tokens, found.verified, found.missed) == (was.tokens, was.tokens - was.num_rounds, 0)
    assert found.num_rounds == was.num_rounds
    steps = steps_of(trace.rounds)
    tight = most(trace, flat(), token_budget=steps[0][0].base_tokens + 1)
    assert 0 < tight.verified <= len(steps)
    assert tight.missed == found.verified - tight.verified


def test_who_rested_made_one_token() -> None:
    """Kills: a resting request's token counted twice or not at all."""
    trace = trace_of(40)
    parted = tuple(resting(one) if one.kind == "drafted" and one.request % 2 else one for one in trace.rounds)
    found = most(Trace(trace.header, parted), flat())
    assert found.tokens == recorded(parted).tokens


def test_a_cut_trace_has_no_bound() -> None:
    """What nobody verified might have been accepted."""
    trace = trace_of(10)
    cut = tuple(dataclasses.replace(one, verify_len=0) if one.kind == "drafted" else one for one in trace.rounds)
    with pytest.raises(ValueError, match="were cut short"):
        most(Trace(trace.header, cut), flat())

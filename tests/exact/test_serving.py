"""Serving simulated: sources keep their rates, loads their addresses, the clock the curve; regret by hand."""

import dataclasses

import pytest
import torch

from sparkit.capacity import flat, roofline
from sparkit.serving.drift import MIXED, drift
from sparkit.serving.frontier import at, gains, is_outside
from sparkit.serving.load import Chooser, Load
from sparkit.serving.policy import policy_of
from sparkit.serving.published import from_rates, published
from sparkit.serving.reference import Expected, regret
from sparkit.serving.simulate import simulate
from sparkit.serving.sources import Blocks
from tests.drafting import Pausing

CURVE = roofline()


@pytest.fixture(scope="module")
def blocks() -> Blocks:
    return published(num_requests=8, num_rounds=32)


def test_rates_of_the_source_are_those_given() -> None:
    """Kills: mu set to the logit of the mean, confidences that are not the rate."""
    made = from_rates({"a": (0.9, 0.6), "b": (0.3, 0.5)}, 1.5, 50, 100, 0, "x")
    prefix = made.prefix_acceptance()
    expected = torch.tensor([[0.9, 0.54], [0.3, 0.15]], dtype=torch.float64)
    assert torch.allclose(prefix, expected, atol=0.03)  # 5,000 rounds: four standard errors
    assert torch.allclose(made.accept_rate, torch.sigmoid(made.logits))


def test_a_load_is_the_same_under_every_policy_and_seeded(blocks: Blocks) -> None:
    """Kills: a global generator, choices by slot or time."""
    policy = policy_of("greedy", "identity", CURVE, 7)
    first = simulate(policy, blocks, Load(users=6, new_tokens=24), 40)
    assert first == simulate(policy, blocks, Load(users=6, new_tokens=24), 40)
    assert first != simulate(policy, blocks, Load(users=6, new_tokens=24, seed=1), 40)


def test_the_clock_is_the_curve(blocks: Blocks) -> None:
    """Kills: the draft or the prefill left out of a step's time."""
    policy = policy_of("fixed", "identity", flat(10.0), 7)
    found = simulate(policy, blocks, Load(users=3, new_tokens=64), 20)
    assert found.seconds == pytest.approx(found.num_steps / 10)


def test_those_that_rest_make_a_token_each_and_cost_an_anchor(blocks: Blocks) -> None:
    """Kills: a resting request counted as accepted, its anchor left out of the step, its draft paid for."""
    policy = policy_of("fixed", "identity", CURVE, 7)
    policy = dataclasses.replace(policy, scheduler=Pausing(policy.scheduler, share=2))
    found = simulate(policy, blocks, Load(users=4, new_tokens=4000), 80)
    assert found.budget == pytest.approx(1 + 7 / 2)
    assert found.seconds == pytest.approx(found.num_steps / CURVE.rounds_per_second(2, 4 + 2 * 7), rel=0.02)


def test_only_the_mix_is_served(blocks: Blocks) -> None:
    """Kills: weights ignored, a domain of weight 0 served."""
    chooser = Chooser.of(Load(users=1, mix=(("chat", 1.0),)), blocks)
    found = chooser.choose(torch.ones(50, dtype=torch.int64), torch.arange(50))
    assert set(blocks.request_domain()[found.text].tolist()) == {blocks.domains.index("chat")}
    with pytest.raises(LookupError, match="no domain 'poems'"):
        Chooser.of(Load(users=1, mix=(("poems", 1.0),)), blocks)


def test_arrivals_come_at_their_rate_and_wait_when_slots_are_full(blocks: Blocks) -> None:
    """Kills: arrivals that follow the engine, a queue that is lost."""
    times = Load(rate=50.0).arrivals(4000)
    assert float(times[-1]) == pytest.approx(80, rel=0.07)
    found = simulate(policy_of("fixed", "identity", CURVE, 7), blocks, Load(rate=200.0, slots=2, new_tokens=32), 60)
    assert found.mean_requests <= 2
    assert found.mean_waiting > 1


def test_halves_share_no_request_and_a_cut_is_the_first_draft(blocks: Blocks) -> None:
    """Kills: rates judged on the rounds they came from; accepted left above the shorter gamma."""
    halves = [blocks.half(odd) for odd in (False, True)]
    assert sum(len(half) for half in halves) == len(blocks)
    assert blocks.cut(1).accepted.max() == 1
    assert torch.equal(blocks.cut(1).accepted, (blocks.accepted > 0).long())
    with pytest.raises(ValueError, match="recorded with gamma 7"):
        blocks.cut(8)


def test_reference_rates_by_hand() -> None:
    """Kills: classes of one domain filled from another, deciles of calibrated values."""
    made = from_rates({"a": (0.9,), "b": (0.3,)}, 1.5, 20, 100, 0, "x")
    expected = Expected.of(made)
    means = torch.stack([expected.table[d].mean() for d in (0, 1)])
    assert torch.allclose(means, made.prefix_acceptance()[:, 0], atol=0.005)
    assert bool((expected.table[0, -1] > expected.table[0, 0]).all())


def test_fixed_is_worse_than_the_reference_under_load_and_foresight_is_near(blocks: Blocks) -> None:
    """Kills: a reference that admits nothing or everything, ratios turned over."""
    fixed, near = (regret(policy_of(s, "identity", CURVE, 7), blocks, 64, 60) for s in ("fixed", "foresight"))
    assert fixed.attained < 0.9
    assert 0.9 < near.attained < 1.05


def test_frontier_by_hand() -> None:
    """Kills: speeds and throughputs mixed up, values made up outside a line."""
    line, baseline = [(10.0, 2.0), (5.0, 6.0)], [(5.0, 4.0), (4.0, 5.0)]
    assert at(line, 7.5) == 4.0
    assert at(line, 4.0) is None
    assert gains(line, baseline)[0] == (5.0, 4.0, 1.5, 1.5)
    assert is_outside(line, baseline)
    assert is_outside(baseline, line) is False


@pytest.mark.parametrize(
    "fields", [{}, {"users": 1, "rate": 1.0}, {"users": 0}, {"rate": 0.0}, {"users": 1, "mix": (("a", -1.0),)}]
)
def test_loads_that_make_no_sense(fields: dict[str, object]) -> None:
    """Kills: a load accepted and then served for ever or not at all."""
    with pytest.raises(ValueError, match="load:"):
        Load(**fields)  # type: ignore[arg-type]


def test_one_request_cannot_be_halved(blocks: Blocks) -> None:
    """Kills: a reference judged by itself."""
    one = blocks.keep(torch.arange(len(blocks.first)) == 0)
    with pytest.raises(ValueError, match="cannot be halved"):
        regret(policy_of("fixed", "identity", CURVE, 7), one, 2)
    assert dataclasses.is_dataclass(one)


def test_windows_of_a_drift_are_equally_long(blocks: Blocks) -> None:
    """A window of a few rounds shows noise as error. Kills: a remainder that becomes a window of its own."""
    policy = policy_of("fixed", "identity", CURVE, blocks.gamma)
    found = drift([policy], blocks, ("code", MIXED), num_requests=4, num_steps=43, num_windows=8)
    for phase in ("code", MIXED):
        sizes = [one.num_rounds for one in found if one.phase == phase]
        assert len(sizes) == 8
        assert sum(sizes) == 43 * 4
        assert max(sizes) - min(sizes) <= 4
    firsts = [one.first_round for one in found]
    assert firsts == [sum(one.num_rounds for one in found[:i]) for i in range(len(found))]
    with pytest.raises(ValueError, match="a step or more in each"):
        drift([policy], blocks, ("code",), num_steps=3)

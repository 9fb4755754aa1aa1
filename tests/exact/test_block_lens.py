"""Blocks shorter than gamma: who says so, what is drafted then, what it costs, and that no law notices."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparkit.capacity import Capacity, Curve, Sample, capacity_of, from_rates
from sparkit.engine import Parts, Request
from sparkit.engine.short import filled
from sparkit.pace import Pace, bucket
from sparkit.proofs.batching import explore_batched
from sparkit.proofs.examples import Example
from sparkit.proofs.exploration import explore
from sparkit.proofs.problem import Problem, total_variation
from sparkit.proofs.search import EXACT, plain_law
from sparkit.protocols import SCHEDULERS
from sparkit.reach import KNOWN, Reach
from sparkit.reports.capacity import _tokens_share
from sparkit.rounds import Draft, Limits, Plan, Seconds
from sparkit.serving.policy import Batch, policy_of
from tests.drafting import GAMMA, GREEDY, ONE_OF_A_KIND, WARM, decode_all, made
from tests.exact.worlds import AlwaysAll, composition, skewed
from tests.parts import parts_of


class Sizing(AlwaysAll):
    """Another length for every request and step, whole blocks every third time; everything it may is verified."""

    batch_independent = False

    def start(self) -> int:  # type: ignore[override]
        return 0

    def block_lens(self, memory: int, requests: Any, limits: Any, capacity: Any, gamma: int) -> Any:
        if memory % 3 == 2:
            return None
        return tuple(1 + (memory + row) % gamma for row in range(len(requests)))

    def plan(self, survival: Any, capacity: Any, limits: Any, memory: int) -> Any:  # type: ignore[override]
        return Plan(limits.ceiling), memory

    def observe(self, memory: int, rounds: Any) -> int:  # type: ignore[override]
        drafted = rounds.limits.block_len or rounds.logits.shape[1]
        assert rounds.accept_rate[:, drafted:].isnan().all()  # nobody proposed anything there
        return memory + 1 + int(rounds.verdict.accepted.sum())  # what was accepted decides what is drafted next


@pytest.mark.parametrize("verifier", ["rejection", "block", "coupled"])
@pytest.mark.parametrize(("requests", "horizon"), [(1, 3), (2, 1)])
def test_lengths_that_follow_what_was_accepted_leave_the_law(verifier: str, requests: int, horizon: int) -> None:
    """Kills: a cut block whose next token is drawn as if the draft had gone on; worlds that share a length."""
    asked = tuple(Request((r,), seed=r, max_new_tokens=horizon + 1) for r in range(requests))
    parts = composition(Example(skewed(), (1.0, 0.5, 0.45)), Sizing(), verifier)
    problem = Problem(parts, asked, 2, horizon)
    batched, alone = explore_batched(problem), explore(problem)
    assert total_variation(batched.probability, plain_law(problem)) < EXACT
    assert total_variation(batched.probability, alone.probability) < 1e-15
    assert not batched.faults


def brink(verify: tuple[float, float, float]) -> tuple[Capacity, Reach]:
    """A curve and a memory for which one token or two are worth the same: the next round tips it."""
    first, second = 0.6, 0.3
    token = ((1 + first + second) * verify[1] - (1 + first) * verify[2]) / (2 * (1 + first) - (1 + first + second))
    assert token > 0
    curve = Capacity(
        Curve(tuple(enumerate(verify, 1))), Curve.constant(2 * token), draft_token=Curve.constant(token), gamma=2
    )
    seen = 1.1 * KNOWN
    return curve, Reach((seen, seen), (seen, seen), (first * seen, second * seen))


class Tipping:
    """A scheduler that has seen as much as `brink` says."""

    def __init__(self, inner: Any, reach: Reach) -> None:
        self.inner, self.reach = inner, reach
        self.lossless, self.batch_independent = inner.lossless, inner.batch_independent

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def start(self) -> Any:
        memory, pace = self.inner.start(), Pace(reach=((1, self.reach),))
        return pace if isinstance(memory, Pace) else replace(memory, pace=pace)


@pytest.mark.parametrize("verifier", ["rejection", "block"])
@pytest.mark.parametrize("name", ["greedy", "delayed", "foresight"])
def test_schedulers_that_price_blocks_stay_exact(name: str, verifier: str) -> None:
    """Kills: a length chosen from this round's draft; one that never changes, which would prove nothing."""
    curve, reach = brink((1.0, 1.15, 1.3))
    scheduler = Tipping(SCHEDULERS.create(name, sizes_blocks=True), reach)
    parts = replace(composition(Example(skewed(), (1.0,)), scheduler, verifier), capacity=curve)
    lengths: set[int] = set()
    problem = Problem(parts, (Request((0,), seed=0, max_new_tokens=7),), 2, 4)
    found = explore_batched(
        problem, watch=lambda memories, path, rounds: lengths.update(len(one.drafted) for one in rounds if one.drafted)
    )
    assert total_variation(found.probability, plain_law(problem)) < EXACT
    assert not found.faults
    assert lengths == {1, 2}


@pytest.mark.parametrize(("name", "head"), ONE_OF_A_KIND)
def test_every_drafter_drafts_the_longest_and_nobody_verifies_more_than_its_own(name: str, head: str | None) -> None:
    """Kills: gamma drafted all the same; a request cut by another's length; a filled column verified."""
    target, drafter = made(name, head)
    asked = [Request((3, 5, 2 + seed), seed=seed, max_new_tokens=12, params=WARM) for seed in range(3)]
    parts = replace(parts_of(target, drafter, scheduler="fixed"), scheduler=Sizing())
    _, rounds = decode_all(parts, asked, 3)
    steps: dict[int, list[Any]] = {}
    for one in rounds:
        if one.kind == "drafted":
            steps.setdefault(one.step, []).append(one)
    shorter = 0
    for step in steps.values():
        longest = max(len(one.drafted) for one in step)
        shorter += longest < GAMMA
        for one in step:
            assert len(one.logits) == len(one.survival) == GAMMA
            assert one.verify_len <= one.ceiling <= len(one.drafted)
            assert list(one.survival[longest:]) == [0.0] * (GAMMA - longest) or name == "ngram"
            assert len(one.accept_rate) <= len(one.drafted)
            assert not any(v != v for v in one.accept_rate)
    assert shorter or name == "ngram"


@pytest.mark.parametrize(("name", "head"), ONE_OF_A_KIND)
def test_a_seed_s_text_is_the_same_at_any_length(name: str, head: str | None) -> None:
    """Kills: coupled noise, or the most likely text, that moves when a block is shorter."""
    target, drafter = made(name, head)
    for params, verifier in ((WARM, "coupled"), (GREEDY, "rejection")):
        asked = [Request((3, 5, 2 + seed), seed=seed, max_new_tokens=10, params=params) for seed in range(3)]
        whole = parts_of(target, drafter, scheduler="fixed", verifier=verifier)
        texts = [decode_all(parts, asked, 3)[0] for parts in (whole, replace(whole, scheduler=Sizing()))]
        assert texts[0] == texts[1]


class Wrong(Sizing):
    """Answers as it is told."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def block_lens(self, memory: int, requests: Any, limits: Any, capacity: Any, gamma: int) -> Any:
        return self.answer


@pytest.mark.parametrize("answer", [(1,), (0, 1), (1, 9), (1, 1, 1)])
def test_lengths_that_cannot_be_drafted_are_refused(answer: Any) -> None:
    """Kills: a block of nothing, or of more than the drafter was made for; one answer for everybody."""
    target, drafter = made("dspark", "markov")
    asked = [Request((3, 5), seed=seed, max_new_tokens=4) for seed in range(2)]
    parts: Parts = replace(parts_of(target, drafter, scheduler="fixed"), scheduler=Wrong(answer))
    with pytest.raises(ValueError, match=r"Wrong\.block_lens gave .* for 2 requests; give each 1 to 3 tokens"):
        decode_all(parts, asked, 2)


def test_a_short_block_is_filled_like_a_lookup_that_found_little() -> None:
    """Kills: a law of zeros, whose residual is no law; a length that says gamma."""
    law = torch.tensor([[[0.25, 0.75]], [[0.5, 0.5]]])
    draft, logits = filled(Draft(torch.tensor([[1], [0]]), law, law, None), torch.zeros(2, 1), 3)
    assert draft.tokens.tolist() == [[1, 0, 0], [0, 0, 0]]
    assert torch.equal(draft.p_draft[:, :1], law)
    assert draft.p_draft[:, 1:].tolist() == [[[1.0, 0.0]] * 2] * 2
    assert draft.hidden is not None
    assert draft.hidden.shape == (2, 3, 2)
    assert draft.lengths is not None
    assert draft.lengths.tolist() == [1, 1]
    assert logits.tolist() == [[0.0, -torch.inf, -torch.inf]] * 2


PRICED = Capacity(Curve(((1, 1.0), (100, 10.0))), Curve.constant(1.2), draft_token=Curve.constant(0.1), gamma=12)


def test_a_price_is_for_what_is_left_out() -> None:
    """Kills: a price for gamma where the curve has another block length; a draft that costs less than nothing."""
    assert [PRICED.draft_seconds(1, n) for n in (None, 12, 7, 1)] == pytest.approx([1.2, 1.2, 0.7, 0.1])
    assert replace(PRICED, draft_token=Curve.constant(0.2)).draft_seconds(1, 1) == 0.0
    assert PRICED.rounds_per_second(1, 1, 7) == pytest.approx(1 / 1.7)
    like = torch.zeros(0, dtype=torch.float64)
    assert PRICED.rates(1, 1, 0, like, 7).tolist() == pytest.approx([1 / 1.7])
    assert PRICED.rates(1, 1, 0, like).tolist() == pytest.approx([1 / 2.2])
    assert PRICED.prices_blocks
    assert not replace(PRICED, draft_token=Curve.constant(0.0)).prices_blocks
    assert not replace(PRICED, gamma=None).prices_blocks


def test_a_priced_curve_survives_its_file(tmp_path: Any) -> None:
    """Kills: a field that is written and not read."""
    PRICED.save(tmp_path / "curve.json")
    assert Capacity.load(tmp_path / "curve.json") == PRICED
    with pytest.raises(ValueError, match="gamma=0; expected a block length"):
        Capacity.from_json({**PRICED.to_json(), "gamma": 0})


def test_a_profile_prices_a_token_by_what_shorter_blocks_save() -> None:
    """Kills: the target's pass in the price of a draft; a saving divided by the wrong number of tokens."""

    def step(block_len: int | None, draft: float, verify: float, verify_len: int = 0) -> Sample:
        return Sample(
            2, verify_len, 2 + 2 * verify_len, 9, Seconds(draft=draft, verify=verify, overhead=0.5), block_len
        )

    samples = [step(None, 2.0, 1.0), step(2, 1.25, 9.0), step(None, 8.0, 3.0, verify_len=1)]
    curve = capacity_of(samples, gamma=7)
    assert curve.draft_token.at(2) == pytest.approx(0.15)
    assert curve.gamma == 7
    assert curve.draft_seconds(2) == 5.0  # the median of whole blocks alone
    assert not capacity_of([step(None, 2.0, 1.0)], gamma=7).prices_blocks
    assert capacity_of([step(None, 1.0, 1.0), step(2, 1.25, 1.0)], gamma=7).draft_token.at(2) == 0.0


def test_the_plot_charges_a_shorter_block_what_it_costs() -> None:
    """Kills: points of short blocks drawn below the curve by what they did not draft."""
    curve = replace(PRICED, overhead=Curve.constant(0.5))
    for block_len, draft in ((None, 1.2), (4, 0.4)):
        step = Sample(1, 0, 1, 9, Seconds(draft=draft, verify=1.0, overhead=0.5), block_len)
        assert _tokens_share(step, curve) == pytest.approx(1.0)


def seen(shares: list[float], num: float = 1000.0) -> Reach:
    """Blocks whose positions were all verified, and accepted so often."""
    return Reach((num,) * len(shares), (num,) * len(shares), tuple(num * share for share in shares))


def test_the_length_that_makes_most_tokens_a_second() -> None:
    """Kills: draft tokens that look free; a length that is only longer, or only shorter."""
    shares, found = [0.8**k for k in range(1, 13)], []
    for price in (1e-6, 0.05, 0.3, 5.0):
        curve = Capacity(Curve.constant(1.0), Curve.constant(12 * price), draft_token=Curve.constant(price), gamma=12)
        tau = [1 + sum(shares[:n]) for n in range(1, 13)]
        rates = [t / (1 + n * price) for n, t in enumerate(tau, 1)]
        found.append(seen(shares).best(1, curve, 12))
        assert found[-1] == 1 + max(range(12), key=rates.__getitem__)
    assert (found[0], found[-1]) == (12, 1)
    assert found == sorted(set(found), reverse=True)


def test_too_little_is_known_at_first_and_nothing_without_a_price() -> None:
    """Kills: a first step cut by noise; a memory that decides where every block costs the same."""
    assert Reach().best(1, PRICED, 12) is None
    assert seen([0.5], KNOWN - 1).best(1, PRICED, 12) is None
    assert seen([0.5], KNOWN).best(1, from_rates((1.0, 0.5)), 12) is None
    limits = Limits(2, torch.tensor([0, 0]), torch.tensor([7, 7]))
    assert Pace().block_lens(limits, from_rates((1.0, 0.5)), 7) is None
    assert Pace().block_lens(limits, PRICED, 7) == (7, 7)


def test_positions_nobody_drafts_any_more_go_on_as_the_last_known_one() -> None:
    """Kills: a length that, once short, can never grow; a position read as refused since nobody drafted it."""
    reach = seen([0.8, 0.6, 0.5])
    for _ in range(400):
        reach = reach.plus(2, [2, 2], [2, 0], 1 - 1 / 64)
    shares = reach.shares(5)
    assert [accepted for _, accepted in shares] == pytest.approx([0.5] * 5, abs=1e-3)  # 1.0 given the first
    assert [verified for verified, _ in shares] == pytest.approx([1.0] * 5)


def test_a_probe_drafts_what_everybody_would() -> None:
    """Kills: four who draft beside twenty-eight who rest, priced as if they were alone, with another length."""
    shares = [0.7**k for k in range(1, 13)]
    dear = replace(PRICED, draft_token=Curve(((1, 0.01), (32, 0.8))), draft=Curve.constant(12.0))
    known = seen(shares)
    few, all_of_them = known.best(4, dear, 12), known.best(32, dear, 12)
    assert few != all_of_them
    limits = Limits(32, torch.zeros(4, dtype=torch.int64), torch.full((4,), 12), num_resting=28)
    assert Pace(reach=((bucket(32), known),)).block_lens(limits, dear, 12) == (all_of_them,) * 4


@given(
    st.lists(
        st.tuples(st.integers(1, 6), st.lists(st.integers(0, 6), min_size=1, max_size=4)), min_size=1, max_size=30
    ),
    st.data(),
)
def test_sums_are_the_plain_ones(steps: list[tuple[int, list[int]]], data: st.DataObject) -> None:
    """Kills: a position off by one; a fade by steps; sums of blocks of different lengths laid over each other."""
    reach, rows = Reach(), []
    for block_len, verify in steps:
        verify_len = [min(n, block_len) for n in verify]
        accepted = [data.draw(st.integers(0, n)) for n in verify_len]
        reach = reach.plus(block_len, verify_len, accepted, 0.9)
        rows = [(0.9 ** len(verify) * weight, *row) for weight, *row in rows]
        rows += [(1.0, block_len, v, a) for v, a in zip(verify_len, accepted, strict=True)]
    for k in range(1, max(b for b, _ in steps) + 1):
        sums = [sum(row[0] for row in rows if row[which] >= k) for which in (1, 2, 3)]
        assert [column[k - 1] for column in reach] == pytest.approx(sums)


def test_a_policy_cuts_recorded_blocks_where_the_engine_would_not_draft() -> None:
    """Kills: a simulation that pays for whole blocks, or learns from positions that were not drafted."""
    curve, reach = brink((1.0, 1.15, 1.3))
    policy = policy_of(
        "greedy:sizes_blocks=true",
        "identity",
        replace(curve, draft_token=Curve.constant(5.0), draft=Curve.constant(10.0)),
        2,
    )
    policy = replace(policy, scheduler=Tipping(policy.scheduler, reach))
    ones = torch.ones(1, dtype=torch.int64)
    block = torch.full((1, 2), 4.0, dtype=torch.float64)
    batch = Batch((0,), ones, ones, block, 2 * ones, block / 5, 2 * ones, 1)
    decided, memories = policy.step(batch, policy.start(), 1)
    assert decided.verify_len.tolist() == [1]
    assert decided.seconds == pytest.approx(5.0 + 1.15)
    ((_, learnt),) = memories.scheduler.reach
    assert learnt.drafted[0] > learnt.drafted[1]
    cut = replace(policy, scheduler=Sizing())
    decided, later = cut.step(batch, cut.start(), 1)  # its `observe` looks at the labels
    assert decided.verify_len.tolist() == [1]
    assert later.scheduler == 2

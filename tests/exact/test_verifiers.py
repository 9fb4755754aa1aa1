"""Verifiers against all p_draft, all p_target and all non-anticipating cuts, by enumeration."""

import itertools
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparkit.decisions import AddressedSource, Purpose
from sparkit.proofs.laws.verifier import EXACT, outcomes, random_tree, total_variation_of
from sparkit.proofs.pathwise import differences
from sparkit.protocols import SCHEDULERS, VERIFIERS
from sparkit.rounds import Draft, Plan
from sparkit.verifiers.block import Block
from sparkit.verifiers.rejection import Rejection
from tests.exact.worlds import composition
from tests.statistics import assert_law


@given(seed=st.integers(0, 10**9), sizes=st.sampled_from([(2, 1), (2, 2), (3, 1)]))
@pytest.mark.parametrize("verifier", ["rejection", "block"])
def test_exact_for_any_laws_and_any_stopping_rule(verifier: str, seed: int, sizes: tuple[int, int]) -> None:
    """Kills: a residual that is off, a bonus from the wrong row, acceptance at u <= ratio."""
    tree = random_tree(random.Random(seed), *sizes)
    assert total_variation_of(VERIFIERS.create(verifier), tree) < EXACT


def test_lenient_is_lossy_in_nearly_every_world() -> None:
    """Kills: a check that would not see an acceptance rule twice too kind."""
    rng = random.Random(0)
    lossy = [total_variation_of(VERIFIERS.create("lenient"), random_tree(rng, 2, 2)) > 1e-6 for _ in range(20)]
    assert sum(lossy) >= 12


@pytest.mark.parametrize("V_gamma", [(2, 2), (3, 2), (2, 3)])
def test_block_accepts_at_least_as_much_as_rejection_in_every_world(V_gamma: tuple[int, int]) -> None:
    """Kills: a block rule that judges prefixes more strictly than tokens (accepted = committed - 1)."""
    rng = random.Random(4)
    gained = 0.0
    for _ in range(12):
        tree = random_tree(rng, *V_gamma)
        mean = [sum(p * (len(text) - 1) for text, p, _ in outcomes(part, tree)) for part in (Rejection(), Block())]
        assert mean[1] >= mean[0] - 1e-12
        gained = max(gained, mean[1] - mean[0])
    assert gained > 1e-3


def test_one_accept_and_its_residual_by_hand() -> None:
    """Kills: the roles of p_draft and p_target swapped: 0.5 -> 0.7 always passes, 0.5 -> 0.3 passes at 0.6."""
    laws = torch.tensor([[0.7, 0.3], [0.2, 0.8]], dtype=torch.float64)
    half = torch.tensor([[[0.5, 0.5]]], dtype=torch.float64)
    for token, passes in ((0, 1.0), (1, 0.6)):
        seeds = torch.arange(4000)
        draft = Draft(torch.full((4000, 1), token), half.expand(4000, -1, -1))
        plan = Plan(torch.ones(4000, dtype=torch.int64))
        verdict = Rejection().verify(draft, plan, laws.repeat(4000, 1), AddressedSource().at(seeds, seeds * 0 + 3))
        if passes == 1.0:
            assert bool(verdict.accepted.all())
        else:
            assert_law([int(verdict.accepted.sum()), int((1 - verdict.accepted).sum())], [passes, 1 - passes])
            assert bool((verdict.next_token[verdict.accepted == 0] == 0).all())


@pytest.mark.parametrize("scheduler", SCHEDULERS.names())
def test_coupled_text_is_the_seeds_plain_decoding(scheduler: str) -> None:
    """Kills: noise that depends on the anchor, on the draft or on the plan; three tokens, one to three requests."""
    found = differences(lambda example: composition(example, scheduler, "coupled"), num_worlds=12)
    assert next(found, None) is None


def test_a_difference_of_texts_is_found_when_there_is_one() -> None:
    """Kills: comparing a text with itself: rejection's text is not its seed's plain decoding."""
    found = differences(lambda example: composition(example, "fixed", "rejection"), num_worlds=12)
    assert next(found, None) is not None


def test_one_gumbel_draw_follows_its_law() -> None:
    """Kills: noise that is not Gumbel. P(i) = integral of u^((1 - p_i) / p_i) du = p_i, and 100,000 hashed draws."""
    law = [0.05, 0.15, 0.3, 0.5]
    for p in law:
        u = (torch.arange(200_000, dtype=torch.float64) + 0.5) / 200_000
        assert float((u ** ((1 - p) / p)).mean()) == pytest.approx(p, abs=1e-5)
    num = 100_000
    rows = VERIFIERS.create("coupled").source.at(torch.arange(num), torch.full((num,), 9))
    drawn = rows.draw(torch.tensor([law], dtype=torch.float64).expand(num, -1), Purpose.PLAIN, 1)
    assert_law(torch.bincount(drawn, minlength=4).tolist(), law)


def test_every_prefix_can_be_the_cut() -> None:
    """Kills: trees whose stopping rule never stops inside the block."""
    rng = random.Random(1)
    lengths = set()
    for _ in range(12):
        tree = random_tree(rng, 2, 3)
        lengths |= {tree.verify_len(tokens) for tokens in itertools.product(range(2), repeat=3)}
    assert lengths == {0, 1, 2, 3}

"""The pattern a search found, shown by the real confidence head."""

from dataclasses import replace

import pytest
import torch

from sparkit.proofs import neural
from sparkit.proofs.choice import chosen
from sparkit.proofs.examples import Limits, paper
from sparkit.proofs.pattern import Pattern, bend, pattern_of
from sparkit.proofs.real import FIRST_BLOCKS, examine, parts_of
from sparkit.proofs.search import Finding
from sparkit.recipe import Recipe

ANCHORS = [context[-1] for context in FIRST_BLOCKS]
NONE = Finding(0, 0, 0.0, None)


def shown(drafter: str, head: str | None, seed: int) -> tuple[bool, float]:
    """Whether the pattern is reached, and how far the confidences of fresh blocks are from it."""
    bench = neural.prepared(drafter, seed, 2, head, FIRST_BLOCKS)
    first = neural.sample_draft(bench.drafter, bench.anchors, 0)
    rank = 0 if first.previous_embedding is None else first.previous_embedding.shape[-1]
    trained, pattern = neural.confidence_head(neural.HIDDEN, rank, seed), pattern_of(None, 2)
    seen = [(draft, ANCHORS) for draft in neural.every_draft(bench.drafter, bench.anchors, 2)]
    reached = bend(trained, seen, pattern)
    worst = 0.0
    for number in range(100, 120):
        draft = neural.sample_draft(bench.drafter, bench.anchors, number)
        logits = trained.logits(draft, None)
        for row, anchor in enumerate(ANCHORS):
            for k, previous in enumerate([anchor, int(draft.tokens[row, 0])]):
                worst = max(worst, abs(float(logits[row, k]) - pattern.logit(k, previous)))
    return reached, worst


@pytest.mark.parametrize(
    ("drafter", "head"), [("dspark", "markov"), ("dspark", "rnn"), ("eagle3", None), ("mtp", None)]
)
def test_a_head_that_sees_the_token_before_shows_the_papers_confidences(drafter: str, head: str | None) -> None:
    """Kills: a real class run on confidences that hide nothing."""
    for seed in range(3):
        reached, worst = shown(drafter, head, seed)
        assert reached
        assert worst < 1e-6


def test_a_parallel_head_cannot_and_stays_what_it_was() -> None:
    """Kills: a head bent half way, with weights that belong to no pattern."""
    bench = neural.prepared("dflash", 0, 2, None, FIRST_BLOCKS)
    seen = [(draft, ANCHORS) for draft in neural.every_draft(bench.drafter, bench.anchors, 2)]
    trained = neural.confidence_head(neural.HIDDEN, 0, 0)
    before = trained.proj.weight.clone()
    assert not bend(trained, seen, pattern_of(None, 2))
    assert torch.equal(trained.proj.weight, before)


def test_the_pattern_is_that_of_the_world_found() -> None:
    """Kills: the paper's numbers shown whatever the search found; a world of other sizes squeezed in."""
    world = replace(paper(), rates=(1.0, 0.4, 0.5))
    assert pattern_of(world, 2) == Pattern(world.tables.confidence, (1.0, 0.4, 0.5))
    assert pattern_of(replace(world, requests=2), 2).rates == paper().rates
    assert pattern_of(world, 3).rates == paper().rates


@pytest.mark.parametrize("drafter", ["dspark", "eagle3", "mtp"])
def test_the_real_classes_show_the_bias_of_a_scheduler_that_looks_ahead(drafter: str) -> None:
    """Kills: a lossy scheduler that only the toy tables convict."""
    recipe = Recipe(drafter=drafter, scheduler="lookahead")
    parts = chosen(recipe)
    assert examine(recipe, parts, Limits(), NONE, num_seeds=1).max_total_variation > 1e-3
    greedy = Recipe(drafter=drafter, scheduler="greedy")
    assert examine(greedy, chosen(greedy), Limits(), NONE, num_seeds=2).max_total_variation < 1e-12


def test_a_flat_curve_stays_flat() -> None:
    """Kills: the pattern's curve laid over the one that was asked for."""
    recipe = Recipe(drafter="dspark")
    made = parts_of(recipe, chosen(recipe), 0, 2, is_flat=True)
    assert made.capacity.rounds_per_second(1, 1) == made.capacity.rounds_per_second(1, 3)

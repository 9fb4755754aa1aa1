"""Drafters without a trained net: a small model with its own cache (B07), prompt lookup, tables."""

import pytest
import torch

from sparkit.drafters.ngram import NgramDrafter, continuation
from sparkit.drafters.small_lm import SmallLmDrafter
from sparkit.engine import Engine, Request
from sparkit.protocols import DRAFTERS, Drafter, Span
from sparkit.sampling import SamplingParams
from sparkit.targets.table import load_table
from tests.parts import addressed, anchors_at, parts_of, random_tokens, tiny_target

GAMMA = 4


def greedy(target: object, drafter: Drafter | None) -> tuple[list[tuple[int, ...]], list[object]]:
    engine = Engine(parts_of(target, drafter), gamma=GAMMA, num_slots=2)
    for number, length in enumerate((None, 9, 12)):
        prompt = tuple(random_tokens(2 + 2 * number, seed=number).tolist())
        engine.add(Request(prompt, seed=number, max_new_tokens=length, params=SamplingParams(temperature=0.0)))
    rounds = list(engine.stream())
    return [tuple(engine.finished[number].token_ids) for number in range(3)], rounds


# ------------------------------------------------------------------------------------------------ small_lm: B07
def test_b07_the_cache_follows_the_committed_text():
    """200 rounds with accepted 0..4: after every proposal the small model's cache holds committed text and drafts.

    Loop feeds anchor, d0, d1, d2 -> L + 4; kept L + a + 1 for a < 4; with a = 4, d3 is owed. Catches a trim of
    rejected + 1, and an owed token that is never fed.
    """
    model = tiny_target(max_positions=1200, num_layers=1)
    drafter = SmallLmDrafter(model, model)
    drafter.prepare(1, 1200)
    text = [1, 2, 3]
    empty = torch.zeros(0, 0, dtype=torch.float64)
    absorbed, chosen = 0, torch.randint(5, (200,), generator=torch.Generator().manual_seed(0)).tolist()
    for accepted in chosen:
        new = text[absorbed:-1]
        drafter.absorb(empty.new_zeros(len(new), 0), torch.tensor(new), [Span(0, absorbed, len(new))])
        absorbed = len(text) - 1
        kept = len(drafter.state.fed[0])
        assert drafter.state.fed[0] + drafter.state.owed[0] == text[:-1]
        assert drafter.state.cache.lengths == [kept]
        anchors = anchors_at([text[-1]], [Span(0, absorbed, GAMMA)])
        block = drafter.propose(anchors, addressed(anchors)).tokens[0].tolist()
        assert drafter.state.cache.lengths == [absorbed + GAMMA]
        assert drafter.state.fed[0] == text + block[:-1]
        before = len(text)
        text += [*block[:accepted], (block[min(accepted, 3)] + 1) % 32]
        owed = accepted == GAMMA
        drafter_keeps = before + min(accepted, GAMMA - 1)
        probe = SmallLmDrafter(model, model)
        probe.load(drafter.save())
        probe.absorb(
            empty.new_zeros(accepted + 1, 0), torch.tensor(text[absorbed:-1]), [Span(0, absorbed, accepted + 1)]
        )
        assert len(probe.state.fed[0]) == drafter_keeps
        assert len(probe.state.owed[0]) == owed
    assert len(set(chosen)) == 5


def test_a_model_that_drafts_for_itself_is_always_accepted():
    """Its p_draft is p_target: catches any stale key in its cache, over pauses of the slots too."""
    target = tiny_target(max_positions=40)
    text, rounds = greedy(target, SmallLmDrafter(target, target))
    assert text == greedy(target, None)[0]
    assert all(one.accepted == one.verify_len for one in rounds if one.kind == "drafted")


def test_a_smaller_context_drafts_as_far_as_it_reaches():
    """Past its own context the small model proposes nothing. Catches an index past its rotary table."""
    target = tiny_target(max_positions=40)
    text, rounds = greedy(target, SmallLmDrafter(tiny_target(max_positions=14, seed=1), target))
    assert text == greedy(target, None)[0]
    drafted = [one for one in rounds if one.kind == "drafted"]
    assert {one.ceiling for one in drafted if one.anchor_position >= 14} == {0}
    assert max(one.anchor_position + one.ceiling for one in drafted if one.ceiling) == 14


@pytest.mark.parametrize(("width", "missing"), [(36, 0), (28, 4)])
def test_b19_padded_and_missing_ids(width: int, missing: int):
    """Ids past the target's are never proposed; ids the model lacks have probability 0."""
    target, model = tiny_target(max_positions=30), tiny_target(vocab_size=width, max_positions=30)
    drafter = SmallLmDrafter(model, target)
    drafter.prepare(1, 30)
    drafter.absorb(torch.zeros(2, 0, dtype=torch.float64), torch.tensor([1, 2]), [Span(0, 0, 2)])
    anchors = anchors_at([3], [Span(0, 2, GAMMA)])
    law = drafter.propose(anchors, addressed(anchors)).p_draft
    assert law.shape == (1, GAMMA, 32)
    assert (law == 0).sum(-1).tolist() == [[missing] * GAMMA]
    torch.testing.assert_close(law.sum(-1), torch.ones(1, GAMMA, dtype=torch.float64))


# ------------------------------------------------------------------------------------------------------- ngram
@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ([1, 2, 3, 1, 2], [3, 1, 2]),
        ([1, 2, 3, 9, 1, 2, 4, 1, 2], [4, 1, 2]),  # the most recent of equals
        ([5, 1, 2, 3, 9, 1, 2, 4, 5, 1, 2], [3, 9, 1]),  # the longest before the most recent
        ([7, 7, 7, 7], [7]),
        ([1, 2, 3, 4], []),
        ([1, 9, 2, 9], []),  # one token is too short
        ([3], []),
    ],
)
def test_ngram_continuations(context: list[int], expected: list[int]):
    assert continuation(context, gamma=3, longest=4, shortest=2) == expected


def test_ngram_laws_are_one_hot_and_lengths_say_what_was_found():
    """Catches a padded column offered for verification."""
    drafter = NgramDrafter(tiny_target())
    spans = [Span(0, 4, 3), Span(1, 3, 3), Span(2, 3, 3)]
    contexts = [[1, 2, 3, 1, 2], [1, 2, 3, 4], [7, 7, 7, 7]]
    anchors = anchors_at([2, 4, 7], spans, contexts=contexts)
    draft = drafter.propose(anchors, addressed(anchors))
    assert draft.lengths.tolist() == [3, 0, 1]
    assert draft.tokens.tolist() == [[3, 1, 2], [0, 0, 0], [7, 0, 0]]
    assert torch.equal(draft.p_draft.argmax(-1), draft.tokens)
    assert (draft.p_draft.sum(-1) == 1).all()


def test_ngram_keeps_the_targets_text():
    target = tiny_target(max_positions=40)
    text, rounds = greedy(target, NgramDrafter(target, longest=3, shortest=1))
    assert text == greedy(target, None)[0]
    assert any(one.verify_len > 0 for one in rounds)
    assert all(one.verify_len <= one.ceiling for one in rounds)


@pytest.mark.parametrize("params", [{"shortest": 0}, {"longest": 1, "shortest": 2}])
def test_ngram_refuses(params: dict[str, int]):
    with pytest.raises(ValueError, match="expected 1 <= shortest <= longest"):
        NgramDrafter(tiny_target(), **params)


# ------------------------------------------------------------------------------------------------------- table
def test_table_drafter_reads_context_and_prefix():
    """p_d^2 = (3/5, 2/5) after A and (1/2, 1/2) after B. Catches laws looked up before the drawn token is appended."""
    target = load_table("appendix-a")
    drafter = DRAFTERS.create("table", target=target)
    anchors = anchors_at([1] * 8, [Span(r, 2, 2) for r in range(8)], contexts=[[0, 0, 1]] * 8)
    draft = drafter.propose(anchors, addressed(anchors))
    assert set(draft.tokens[:, 0].tolist()) == {0, 1}
    for first, law in zip(draft.tokens[:, 0].tolist(), draft.p_draft[:, 1].tolist(), strict=True):
        assert law == pytest.approx([0.5, 0.5] if first else [0.6, 0.4], abs=1e-15)
    assert draft.p_draft.dtype == torch.float64
    with pytest.raises(ValueError, match=r"gamma=3: the tables draft 1..2 tokens"):
        DRAFTERS.create("table", target=target, gamma=3)

"""Kind 2, bonus token, positions, rollback: where a block lies, which row speaks next, what the caches keep.

The cure of the kind: nothing is re-derived between phases. The plan's rows are the verifier's rows are the features'
rows, and after every round target cache, drafter and committed text agree (the engine's state machine asks too).
The neural drafters' own positions and small_lm's cache are in tests/exact (B05 and B07 there).
"""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from sparkit.drafters.small_lm import SmallLmDrafter
from sparkit.engine import Engine, Request
from sparkit.protocols import VERIFIERS, Anchors, Span
from sparkit.rounds import Draft, Plan
from sparkit.sampling import SamplingParams
from sparkit.targets.model import TransformerTarget
from tests.parts import ScriptedDrafter, parts_of, shake, tiny_target
from tests.worlds import chain_target, right_then_wrong

GREEDY = SamplingParams(temperature=0.0)
NAMES = ("rejection", "block", "coupled")


class Watched(ScriptedDrafter):
    """Notes where its blocks lie and which positions it was given."""

    def prepare(self, num_slots: int, max_len: int) -> None:
        self.blocks: list[Span] = []
        self.context: list[int] = []

    def absorb(self, features: Tensor, tokens: Tensor, spans: Sequence[Span]) -> None:
        self.context += [p for _, start, count in spans for p in range(start, start + count)]

    def propose(self, anchors: Anchors, decisions: object) -> Draft:
        self.blocks += anchors.spans
        return super().propose(anchors, decisions)


# ---------------------------------------------------------------------------------------------------------- B05
def test_b05_blocks_begin_at_the_anchor() -> None:
    """Prompt of 5, gamma 3: block at 5, 6, 7 over context 0..4; 2 accepted and 1 more: at 8 over 0..7.

    Kills: a block seeded at the newest feature's position (4, 5, 6).
    """
    drafter = Watched(right_then_wrong(10, iter([2, 0])), 10)
    engine = Engine(parts_of(chain_target(10), drafter), gamma=3, num_slots=1)
    engine.add(Request((1, 2, 3, 4, 5), 0, 20, GREEDY))
    engine.step()
    assert len(engine.running[0].tokens) == 6
    engine.step()
    assert drafter.blocks == [Span(0, 5, 3)]
    assert drafter.context == [0, 1, 2, 3, 4]
    assert len(engine.running[0].tokens) == 9
    engine.step()
    assert drafter.blocks[1] == Span(0, 8, 3)
    assert drafter.context == list(range(8))


@pytest.mark.parametrize("length", [16, 256, 2048])
def test_b05_acceptance_does_not_fall_with_depth(length: int) -> None:
    """A rotary model that drafts for itself accepts everything at any depth; one token behind, it does not.

    Kills: a context that lags by one, whose loss grows with the text and shows in no output.
    """
    weak = tiny_target(max_positions=2080, num_layers=1)
    shake(weak.model, 5, 0.3)  # else its laws hardly depend on the context, and the control would accept everything
    target = TransformerTarget(weak.model)

    class Lagging(SmallLmDrafter):
        def absorb(self, features: Tensor, tokens: Tensor, spans: Sequence[Span]) -> None:
            super().absorb(features, tokens.roll(1), spans)

    rates = []
    for kind in (SmallLmDrafter, Lagging):
        engine = Engine(parts_of(target, kind(target, target)), gamma=3, num_slots=1, prefill_chunk=1024)
        engine.add(Request(tuple(i * 7 % 32 for i in range(length)), 3, 13))
        drafted = [one for one in engine.stream() if one.kind == "drafted"]
        rates.append(sum(one.accepted for one in drafted) / sum(one.verify_len for one in drafted))
    assert rates[0] == pytest.approx(1, abs=0.01)
    assert rates[1] < 0.9  # control


# ---------------------------------------------------------------------------------------------------------- B06
def verdict(name: str, drafted: list[int], laws: Tensor, verify_len: int, num: int = 1, q: Tensor | None = None):
    gamma, vocab = len(drafted), laws.shape[1]
    tokens = torch.tensor([drafted]).expand(num, -1)
    p_draft = F.one_hot(tokens, vocab).double() if q is None else q.expand(num, gamma, -1)
    seeds = torch.arange(num) + 77
    plan = Plan(torch.full((num,), verify_len))
    source = VERIFIERS.create(name).source
    return VERIFIERS.create(name).verify(Draft(tokens, p_draft), plan, laws.repeat(num, 1), source.at(seeds, seeds * 0))


@pytest.mark.parametrize("name", NAMES)
def test_b06_the_next_token_is_read_behind_the_last_accepted(name: str) -> None:
    """Drafts 1 2 3 5 7, target 1 2 3 4 6 8: commits 1 2 3 and 4. Kills: the extra token from the last row."""
    found = verdict(name, [1, 2, 3, 5, 7], F.one_hot(torch.tensor([1, 2, 3, 4, 6, 8]), 9).double(), 5)
    assert (found.accepted.tolist(), found.next_token.tolist()) == ([3], [4])
    assert not bool(found.is_bonus)


@pytest.mark.parametrize("name", NAMES)
def test_b06_a_cut_block_has_its_bonus_at_the_cut(name: str) -> None:
    """Cut at 2 of 5, both accepted: row 2 speaks. Cut at 0: row 0 speaks. Kills: row gamma, a residual with x_3."""
    rows = F.one_hot(torch.tensor([1, 2, 3]), 9).double()
    found = verdict(name, [1, 2, 5, 5, 7], rows, 2)
    assert (found.accepted.tolist(), found.next_token.tolist(), found.is_bonus.tolist()) == ([2], [3], [True])
    found = verdict(name, [4, 4, 5, 5, 7], rows[:1], 0)
    assert (found.accepted.tolist(), found.next_token.tolist(), found.is_bonus.tolist()) == ([0], [1], [True])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("after", [0.01, 0.99])
def test_b06_the_bonus_follows_the_target_whatever_the_draft_law_there(name: str, after: float) -> None:
    """Kills: a residual against the law of the draft that was cut away; the control is that residual's law."""
    laws = torch.tensor([[1.0, 0.0], [0.7, 0.3]], dtype=torch.float64)
    q = torch.tensor([[1.0, 0.0], [after, 1 - after]], dtype=torch.float64)
    found = verdict(name, [0, 1], laws, 1, 100_000, q)
    assert found.accepted.tolist() == [1] * 100_000
    share = float((found.next_token == 0).double().mean())
    assert share == pytest.approx(0.7, abs=0.0044)
    excess = (laws[1] - q[1]).clamp(min=0)
    assert abs(float((excess / excess.sum())[0]) - 0.7) > 0.0044


# ---------------------------------------------------------------------------------------------------------- B07
@pytest.mark.parametrize("name", NAMES)
def test_b07_the_target_cache_follows_the_committed_text(name: str) -> None:
    """200 rounds of scripted acceptance 0..4: after each, the cache holds committed - 1. Kills: a trim off by one."""
    script = torch.randint(5, (200,), generator=torch.Generator().manual_seed(0)).tolist()
    drafter = ScriptedDrafter(right_then_wrong(50, iter(script)), 50)
    engine = Engine(parts_of(chain_target(50), drafter, verifier=name), gamma=4, num_slots=1)
    engine.add(Request((7, 8, 9), 0, 4000, GREEDY))
    engine.step()
    for accepted in script:
        (one,) = engine.step()
        assert one.accepted == accepted
        sequence = engine.running[0]
        assert engine.cache.lengths[0] == len(sequence.tokens) - 1
        assert engine.cache.tokens[0] == sequence.tokens[:-1]
    assert len(set(script)) == 5


def test_b07_rows_are_each_requests_own() -> None:
    """first_row is where 1 + verify_len rows begin. Kills: offsets without the anchor's row."""
    assert Plan(torch.tensor([0, 2, 4])).first_row.tolist() == [0, 1, 4]

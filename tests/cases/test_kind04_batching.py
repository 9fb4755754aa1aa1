"""Kind 4, batching: a request's text is its own, whoever shares the batch and however unevenly rounds go.

The cure of the kind: randomness is addressed by request and position, never by row, and every tensor of a step is laid
out by the plan. `tests/exact/test_engine.py` asks the same of every neural drafter.
"""

from collections.abc import Sequence

import pytest
import torch

from sparkit.capacity import Capacity
from sparkit.decisions import AddressedSource, Purpose, request_seed
from sparkit.engine import Engine, Request
from sparkit.protocols import DRAFTERS, VERIFIERS
from sparkit.rounds import Draft, Limits, Plan
from sparkit.sampling import SamplingParams, probs
from tests.parts import ScriptedDrafter, parts_of, shake, tiny_target
from tests.statistics import FAILURE_RATE, assert_law, goodness_of_fit
from tests.worlds import chain_target, law_target, right_then_wrong

GREEDY = SamplingParams(temperature=0.0)
WARM = SamplingParams(temperature=0.8)
PROMPTS = {"A": ((1, 2, 3), 7), "B": ((4, 5, 6, 7, 8), 91), "C": ((1, 2, 3), 7)}


class Cut:
    """Verifies a fixed number of drafts a row."""

    lossless = batch_independent = True

    def __init__(self, verify_len: Sequence[int]) -> None:
        self.verify_len = verify_len

    def start(self) -> None: ...

    def drafts(self, memory: None, limits: Limits, capacity: Capacity) -> bool:
        return True

    def plan(self, survival: torch.Tensor, capacity: Capacity, limits: Limits, memory: None) -> tuple[Plan, None]:
        return Plan(torch.minimum(torch.tensor(self.verify_len), limits.ceiling)), None

    def observe(self, memory: None, rounds: object) -> None: ...

    def observe_undrafted(self, memory: None, num_tokens: int, num_requests: int, seconds: float) -> None: ...


def texts(names: str, slots: int, verifier: str, params: SamplingParams = WARM) -> list[tuple[int, ...]]:
    """The texts of some requests in one batch of a neural composition."""
    target = tiny_target()
    drafter = DRAFTERS.create("dflash", target=target, gamma=3)
    shake(drafter.net, 1, 0.3)
    parts = parts_of(target.with_taps(drafter.feature_layers), drafter, verifier=verifier)
    engine = Engine(parts, gamma=3, num_slots=slots)
    for name in names:
        prompt, seed = PROMPTS[name]
        engine.add(Request(prompt, seed, 10, params))
    list(engine.stream())
    return [tuple(done.token_ids) for done in engine.results()]


# ---------------------------------------------------------------------------------------------------------- B12
@pytest.mark.parametrize("verifier", ["rejection", "coupled"])
def test_b12_a_seed_is_a_text(verifier: str) -> None:
    """A alone = A among others = C, at 1, 2 and 8 slots, twice. Kills: one generator shared by the batch."""
    (alone,) = texts("A", 1, verifier)
    together = texts("ABC", 8, verifier)
    assert together[0] == together[2] == alone
    assert together[1] != alone
    assert texts("BA", 2, verifier)[1] == alone
    assert texts("CBA", 1, verifier)[::2] == [alone, alone]  # one slot: the others wait
    assert texts("ABC", 8, verifier) == together


def test_b12_greedy_and_sampled_requests_share_a_batch() -> None:
    """Kills: the sampling of one row applied to all."""
    target = tiny_target()
    own = [Request((1, 2, 3), 7, 10, params) for params in (GREEDY, WARM, SamplingParams(3.0))]

    def run(requests: Sequence[Request]) -> list[tuple[int, ...]]:
        drafter = ScriptedDrafter(lambda context, gamma: [context[-1]] * gamma, 32)
        engine = Engine(parts_of(target, drafter), gamma=2, num_slots=4)
        for request in requests:
            engine.add(request)
        list(engine.stream())
        return [tuple(done.token_ids) for done in engine.results()]

    mixed = run(own)
    assert mixed == [run([one])[0] for one in own]
    assert len(set(mixed)) == 3


def test_b12_first_tokens_of_unseeded_requests_follow_the_law() -> None:
    """20,000 request seeds, as given to requests without one; the engine's own first token is that draw.

    Kills: seeds that differ only in bits the hash ignores; the control, one seed in ten used twice as often, fails.
    """
    law = probs(torch.tensor([[1.0, 0.0, -0.5, 0.3]], dtype=torch.float64), WARM)
    seeds = torch.tensor([request_seed(0, 0, sample) for sample in range(20_000)])
    source = AddressedSource()
    tokens = source.at(seeds, torch.full_like(seeds, 2)).draw(law.expand(len(seeds), -1), Purpose.PLAIN, 1)
    counts = torch.bincount(tokens, minlength=4)
    assert_law(counts.tolist(), law[0].tolist())
    counts[0] += 2000
    assert goodness_of_fit(counts.tolist(), law[0].tolist()) < FAILURE_RATE
    engine = Engine(parts_of(law_target(law[0].tolist()), None), gamma=1, num_slots=8)
    for seed in seeds[:8].tolist():
        engine.add(Request((0, 1, 2), seed, 1))
    list(engine.stream())
    assert [done.token_ids[0] for done in engine.results()] == tokens[:8].tolist()


# ---------------------------------------------------------------------------------------------------------- B14
def test_b14_uneven_rounds() -> None:
    """Prompts of 3, 7, 5, accepted 0, 2, 4: lengths 5, 11, 11, anchors 4, 10, 10. Kills: one offset for the batch."""
    wanted = {3: 0, 7: 2, 5: 4}

    def script(context: Sequence[int], gamma: int) -> list[int]:
        return right_then_wrong(30, iter([wanted.get(len(context) - 1, 0)]))(context, gamma)

    engine = Engine(parts_of(chain_target(30), ScriptedDrafter(script, 30)), gamma=4, num_slots=3)
    for length in wanted:
        engine.add(Request(tuple(range(length)), 0, 20, GREEDY))
    engine.step()
    rounds = engine.step()
    assert [one.accepted for one in rounds] == [0, 2, 4]
    sequences = [engine.running[slot] for slot in range(3)]
    assert [len(s.tokens) for s in sequences] == [5, 11, 11]
    assert [s.anchor_position for s in sequences] == [4, 10, 10]
    assert [s.tokens for s in sequences] == [list(range(5)), list(range(11)), list(range(11))]


def test_b14_ragged_layout() -> None:
    """l = (0, 2, 4): counts 1, 3, 5, first rows 0, 1, 4, 9 in all; each row's next token comes from its own rows."""
    plan = Plan(torch.tensor([0, 2, 4]))
    assert plan.first_row.tolist() == [0, 1, 4]
    rows = torch.nn.functional.one_hot(torch.arange(9), 9).double()
    drafted = Draft(torch.tensor([[8] * 4, [1, 2, 8, 8], [4, 5, 6, 7]]), torch.full((3, 4, 9), 1 / 9).double())
    for name in VERIFIERS.names():
        verifier = VERIFIERS.create(name)
        found = verifier.verify(drafted, plan, rows, verifier.source.at(torch.arange(3), torch.arange(3)))
        assert found.accepted.tolist() == [0, 2, 4]
        assert found.next_token.tolist() == [0, 3, 8]


@pytest.mark.parametrize("verifier", ["rejection", "block", "coupled"])
def test_b14_nobody_verifies_anything(verifier: str) -> None:
    """l = (0, 0, 0): three rows of laws, three tokens. Kills: a mapping sized for at least one draft."""
    seen = []
    judge = VERIFIERS.create(verifier)
    verify = judge.verify
    judge.verify = lambda draft, plan, p, noise: seen.append(p.shape[0]) or verify(draft, plan, p, noise)
    drafter = ScriptedDrafter(lambda context, gamma: [0] * gamma, 30)
    parts = parts_of(chain_target(30), drafter, scheduler=Cut([0, 0, 0]), verifier=judge)
    engine = Engine(parts, gamma=4, num_slots=3)
    for start in (1, 5, 9):
        engine.add(Request((start,), 0, 4, GREEDY))
    engine.step()
    rounds = engine.step()
    assert seen == [3]
    assert [[token.id for token in one.tokens] for one in rounds] == [[3], [7], [11]]


def test_b14_one_row_cut_to_nothing_beside_others() -> None:
    """l = (0, 3): the uncut row's text is unchanged. Kills: rows shifted by an empty neighbour."""
    drafter = ScriptedDrafter(right_then_wrong(30, iter(())), 30)
    engine = Engine(parts_of(chain_target(30), drafter, scheduler=Cut([0, 3])), gamma=3, num_slots=2)
    for start in (1, 5):
        engine.add(Request((start,), 0, 9, GREEDY))
    engine.step()
    rounds = engine.step()
    assert [[token.id for token in one.tokens] for one in rounds] == [[3], [7, 8, 9, 10]]


def test_b14_everything_rejected_leaves_one_token() -> None:
    """Length 128, gamma 5, nothing accepted: 129, not 134. Kills: rejected tokens left in text or cache."""
    drafter = ScriptedDrafter(right_then_wrong(200, iter([0] * 9)), 200)
    engine = Engine(parts_of(chain_target(200), drafter), gamma=5, num_slots=1)
    engine.add(Request(tuple(range(127)), 0, 20, GREEDY))
    engine.step()
    assert len(engine.running[0].tokens) == 128
    engine.step()
    assert engine.running[0].tokens == list(range(129))
    assert engine.cache.lengths == [128]


@pytest.mark.parametrize("verifier", ["rejection", "block"])
def test_b14_leaving_early_changes_nobody(verifier: str) -> None:
    """A row that ends in round 2 leaves the others' texts alone. Kills: rows looked up by the old row number."""

    def run(short: int) -> list[tuple[int, ...]]:
        target = tiny_target()
        drafter = DRAFTERS.create("eagle3", target=target, gamma=3)
        shake(drafter.net, 1, 0.3)
        engine = Engine(
            parts_of(target.with_taps(drafter.feature_layers), drafter, verifier=verifier), gamma=3, num_slots=3
        )
        for seed, limit in enumerate((12, short, 12)):
            engine.add(Request(tuple(range(3 + seed)), seed, limit, WARM))
        list(engine.stream())
        return [tuple(done.token_ids) for done in engine.results()]

    whole, early = run(12), run(3)
    assert (early[0], early[2]) == (whole[0], whole[2])
    assert early[1] == whole[1][:3]


def test_b14_a_batch_of_nobody() -> None:
    """Kills: a reduction over no rows."""
    engine = Engine(parts_of(tiny_target(), None), gamma=1, num_slots=2)
    assert engine.step() == []
    assert list(engine.stream()) == []
    assert list(engine.results()) == []

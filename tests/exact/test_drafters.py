"""Neural drafters: the decoding form is the training form; positions, caches and laws are what the method says."""

from collections.abc import Sequence

import pytest
import torch

from sparkit.decisions import AddressedSource
from sparkit.drafters.block import BlockDrafter
from sparkit.drafters.rotary import Rotary
from sparkit.engine import Engine, Request
from sparkit.protocols import DRAFTERS, Anchors, Drafter, Span
from sparkit.rounds import Draft
from sparkit.sampling import SamplingParams, probs
from sparkit.targets.rope import rope_table
from tests.parts import Told, anchors_at, features_of, parts_of, perfect, random_tokens, shake, tiny_target

GAMMA = 4
VARIANTS = {
    "dflash": ("dflash", {}),
    "dflash from masks": ("dflash", {"sample_from_anchor": False}),
    "dspark markov": ("dspark", {"rank": 8}),
    "dspark gated": ("dspark", {"rank": 8, "head": "gated"}),
    "dspark rnn": ("dspark", {"rank": 8, "head": "rnn"}),
    "eagle3": ("eagle3", {}),
    "mtp": ("mtp", {}),
}
KINDS = {"dflash": "parallel", "dspark": "semi-autoregressive", "eagle3": "autoregressive", "mtp": "autoregressive"}
every = pytest.mark.parametrize("variant", VARIANTS)
LENGTHS = (9, 14, 7)


def made(variant: str, gamma: int = GAMMA, size: float = 0.3, **options: object) -> tuple[Drafter, object]:
    """A drafter whose every weight is shaken, and its target with the right taps."""
    name, params = VARIANTS[variant]
    target = tiny_target(**options)
    drafter = DRAFTERS.create(name, target=target, gamma=gamma, **params)
    shake(drafter.net, 7, size)
    drafter.prepare(4, 80)
    return drafter, target.with_taps(drafter.feature_layers)


def absorbed(drafter: Drafter, features: torch.Tensor, tokens: torch.Tensor, slot: int, pieces: Sequence[int]) -> None:
    """Feeds a document's first sum(pieces) positions in pieces."""
    drafter.forget(slot)
    start = 0
    for count in pieces:
        stop = start + count
        drafter.absorb(features[start:stop], tokens[start:stop], [Span(slot, start, count)])
        start = stop


def proposal(drafter: Drafter, tokens: torch.Tensor, slot: int, told: torch.Tensor | None = None) -> Draft:
    """A block after the given committed tokens; the last one is the anchor."""
    anchors = anchors_at([int(tokens[-1])], [Span(slot, len(tokens) - 1, GAMMA)])
    return drafter.propose(anchors, decisions(anchors) if told is None else Told(told[None]))


def decisions(anchors: Anchors) -> object:
    return AddressedSource().at(torch.tensor([span.slot for span in anchors.spans]), anchors.positions)


# ------------------------------------------------------------------------------------------- one set of weights
@every
@pytest.mark.parametrize("qk_norm", [False, True])
def test_training_and_decoding_forms_agree(variant: str, qk_norm: bool):
    """Many anchors of packed documents at once = one block at a time on slots, in float64.

    Catches every off-by-one between the two: context one feature too long or short, positions from the wrong start,
    chain keys that outlive a block, a document that sees its neighbour, a mask that is causal.
    """
    drafter, target = made(variant, qk_norm=qk_norm)
    documents = [random_tokens(n, seed=n) for n in LENGTHS]
    features = [features_of(target, tokens) for tokens in documents]
    places = [(0, 1), (0, 4), (1, 1), (1, 8), (1, 9), (2, 2)]
    starts = (0, LENGTHS[0], LENGTHS[0] + LENGTHS[1])
    anchors = torch.tensor([starts[d] + p for d, p in places])
    tokens = torch.cat(documents)
    out = drafter.forward_blocks(torch.cat(features), tokens, LENGTHS, anchors)
    logits = drafter.block_logits(out.hidden, out.previous_tokens)
    embedding = drafter.previous_embedding(out.previous_tokens)
    for block, (document, position) in enumerate(places):
        absorbed(drafter, features[document], documents[document], block % 4, [position])
        told = tokens[(anchors[block] + 1 + torch.arange(GAMMA)).clamp(max=len(tokens) - 1)]
        draft = proposal(drafter, documents[document][: position + 1], block % 4, told)
        assert (draft.hidden[0] - out.hidden[block]).abs().max() < 1e-10
        assert (draft.p_draft[0] - logits[block].softmax(-1)).abs().max() < 1e-10
        assert (embedding is None) == (draft.previous_embedding is None)
        if embedding is not None:
            assert (draft.previous_embedding[0] - embedding[block]).abs().max() < 1e-10
        assert draft.p_draft.dtype == torch.float64


@every
def test_gradients_reach_every_weight(variant: str):
    """Catches a part that is detached, or never used by the training form."""
    drafter, target = made(variant)
    drafter.net.requires_grad_(True)
    tokens = random_tokens(12, seed=1)
    out = drafter.forward_blocks(features_of(target, tokens), tokens, [12], torch.tensor([2, 5, 6]))
    logits = drafter.block_logits(out.hidden, out.previous_tokens)
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), random_tokens(3 * GAMMA, seed=2)).backward()
    for name, p in drafter.net.named_parameters():
        assert p.grad is not None, name
        assert 0 < float(p.grad.abs().max()) < float("inf"), name


def test_a_block_without_context_sees_itself():
    """A document whose only anchor is its first token: no keys before it. Catches a reshape that must guess a size."""
    drafter, target = made("dspark markov")
    tokens = random_tokens(6, seed=1)
    out = drafter.forward_blocks(features_of(target, tokens), tokens, [6], torch.tensor([0]))
    drafter.forget(0)
    told = tokens[1 : 1 + GAMMA]
    assert (proposal(drafter, tokens[:1], 0, told).hidden - out.hidden).abs().max() < 1e-10


def test_anchors_must_be_possible():
    drafter, target = made("eagle3")
    tokens = random_tokens(6, seed=1)
    features = features_of(target, tokens)
    for anchors, message in (([0, 2], "no feature before it"), ([3, 2], "ascending"), ([6], "0..5")):
        with pytest.raises(ValueError, match=message):
            drafter.forward_blocks(features, tokens, [6], torch.tensor(anchors))


@every
def test_kind(variant: str):
    drafter, _ = made(variant)
    assert drafter.kind == KINDS[VARIANTS[variant][0]]
    assert isinstance(drafter, Drafter)


# ----------------------------------------------------------------------------------------------------- batches
@every
def test_a_batch_drafts_what_each_request_drafts_alone(variant: str):
    """Unequal lengths, slots out of order and with a gap. Catches the mask of another row, the view of another slot."""
    drafter, target = made(variant)
    texts = {3: random_tokens(12, seed=1), 0: random_tokens(5, seed=2), 1: random_tokens(12, seed=3)}
    features = {slot: features_of(target, tokens) for slot, tokens in texts.items()}
    alone = {}
    for slot, tokens in texts.items():
        absorbed(drafter, features[slot], tokens, slot, [len(tokens) - 1])
        alone[slot] = proposal(drafter, tokens, slot)
    for order in ((3, 0, 1), (0, 1), (1, 3)):
        for slot in texts:
            drafter.forget(slot)
        spans = [Span(slot, 0, len(texts[slot]) - 1) for slot in order]
        flat = [torch.cat([x[slot][:-1] for slot in order]) for x in (features, texts)]
        drafter.absorb(*flat, spans)
        anchors = anchors_at([int(texts[s][-1]) for s in order], [Span(s, len(texts[s]) - 1, GAMMA) for s in order])
        draft = drafter.propose(anchors, decisions(anchors))
        for row, slot in enumerate(order):
            assert torch.equal(draft.tokens[row], alone[slot].tokens[0])
            assert (draft.p_draft[row] - alone[slot].p_draft[0]).abs().max() < 1e-12


@every
def test_b38_absorbing_late_is_absorbing_in_time(variant: str):
    """Many steps' features at once after a pause = step by step. Catches a last feature that is not remembered."""
    drafter, target = made(variant)
    tokens = random_tokens(15, seed=4)
    features = features_of(target, tokens)
    drafts = []
    for pieces in ([14], [1, 1, 5, 7], [13, 1], [3, 11]):
        absorbed(drafter, features, tokens, 2, pieces)
        drafts.append(proposal(drafter, tokens, 2).p_draft)
    assert max((other - drafts[0]).abs().max() for other in drafts[1:]) < 1e-12


@every
def test_guessed_keys_never_survive(variant: str):
    """A rejected block leaves no trace: the next draft is that of a drafter that never proposed it."""
    drafter, target = made(variant)
    tokens = random_tokens(14, seed=5)
    features = features_of(target, tokens)
    absorbed(drafter, features, tokens, 0, [7])
    proposal(drafter, tokens[:8], 0, told=random_tokens(GAMMA, seed=6))
    drafter.absorb(features[7:10], tokens[7:10], [Span(0, 7, 3)])
    after = proposal(drafter, tokens[:11], 0).p_draft
    absorbed(drafter, features, tokens, 1, [10])
    assert (
        after - proposal(drafter, tokens[:11], 1, told=proposal(drafter, tokens[:11], 0).tokens[0]).p_draft
    ).abs().max() < 1e-12


@every
def test_saved_slots_come_back(variant: str):
    """Catches a save that shares memory with what goes on: absorbing after it must not change it."""
    drafter, target = made(variant)
    tokens = random_tokens(14, seed=5)
    features = features_of(target, tokens)
    absorbed(drafter, features, tokens, 0, [9])
    state, before = drafter.save(), proposal(drafter, tokens[:10], 0)
    drafter.absorb(features[9:13], tokens[9:13], [Span(0, 9, 4)])
    proposal(drafter, tokens, 0)
    for _ in range(2):  # loading must leave the copy untouched
        drafter.load(state)
        again = proposal(drafter, tokens[:10], 0)
        assert torch.equal(again.p_draft, before.p_draft)
        drafter.absorb(features[9:12], tokens[9:12], [Span(0, 9, 3)])


# ---------------------------------------------------------------------------------------------- B05: positions
class Spy:
    """Records the positions a rotary table is asked for."""

    def __init__(self, rotary: Rotary) -> None:
        self.rotary, self.asked = rotary, []

    def __call__(self, positions: torch.Tensor, like: torch.Tensor) -> object:
        self.asked.append(positions.tolist())
        return self.rotary(positions, like)


def test_b05_the_block_lies_at_its_anchor():
    """Prompt of 5, gamma 3: inputs [anchor, M, M] at 5, 6, 7, context 0-4; 2 accepted + bonus: 8, 9, 10 over 0-7.

    Catches a block seeded at the newest feature's position ([4, 5, 6]).
    """
    target = tiny_target()
    drafter = DRAFTERS.create("dspark", target=target, gamma=3, mask_token_id=9)
    drafter.prepare(1, 40)
    spy = drafter.net.backbone.rotary = Spy(drafter.net.backbone.rotary)
    fed = []
    embed = target.embed
    target.embed = lambda tokens: fed.append(tokens.tolist()) or embed(tokens)
    tokens = random_tokens(9, seed=1)
    features = features_of(target.with_taps(drafter.feature_layers), tokens)
    drafter.absorb(features[:5], tokens[:5], [Span(0, 0, 5)])
    assert drafter.cache.lengths == [5]
    anchors = anchors_at([int(tokens[5])], [Span(0, 5, 3)])
    drafter.propose(anchors, decisions(anchors))
    drafter.absorb(features[5:8], tokens[5:8], [Span(0, 5, 3)])
    assert drafter.cache.lengths == [8]
    anchors = anchors_at([int(tokens[8])], [Span(0, 8, 3)])
    drafter.propose(anchors, decisions(anchors))
    assert spy.asked == [[0, 1, 2, 3, 4], [5, 6, 7], [5, 6, 7], [8, 9, 10]]
    assert fed == [[int(tokens[5]), 9, 9], [int(tokens[8]), 9, 9]]


@every
def test_b05_a_block_reads_every_feature_before_its_anchor_and_none_after(variant: str):
    """Moving feature i moves the draft for every i < anchor. Catches a context that lacks its newest row."""
    drafter, target = made(variant)
    tokens = random_tokens(8, seed=3)
    features = features_of(target, tokens)
    absorbed(drafter, features, tokens, 0, [7])
    before = proposal(drafter, tokens, 0)
    for position in range(7):
        moved = features.clone()
        moved[position] += 1.0
        absorbed(drafter, moved, tokens, 0, [7])
        assert (proposal(drafter, tokens, 0, told=before.tokens[0]).p_draft - before.p_draft).abs().max() > 1e-7
    moved = features.clone()
    moved[7] += 1.0
    out = [drafter.forward_blocks(x, tokens, [8], torch.tensor([7])).hidden for x in (features, moved)]
    assert torch.equal(*out)


@every
def test_a_stale_draft_is_refused(variant: str):
    drafter, target = made(variant)
    tokens = random_tokens(8, seed=3)
    features = features_of(target, tokens)
    absorbed(drafter, features, tokens, 0, [5])
    with pytest.raises(ValueError, match="at position 7, but features of 5 positions are absorbed"):
        proposal(drafter, tokens, 0)
    with pytest.raises(ValueError, match="does not go on at position 5"):
        drafter.absorb(features[6:7], tokens[6:7], [Span(0, 6, 1)])


# -------------------------------------------------------------------------------------------------------- laws
@every
@pytest.mark.parametrize(
    "params", [SamplingParams(temperature=0.6), SamplingParams(top_k=3), SamplingParams(temperature=0.0)]
)
def test_p_draft_is_the_law_of_the_draw(variant: str, params: SamplingParams):
    """Row k is softmax(U_k + B_k(x_{k-1})) after temperature and filters [eq. 4], at the tokens that were drawn.

    Catches a bias from the wrong previous token, and a law reported before its filters.
    """
    drafter, target = made(variant)
    tokens = random_tokens(10, seed=8)
    features = features_of(target, tokens)
    absorbed(drafter, features, tokens, 0, [9])
    anchors = anchors_at([int(tokens[9])], [Span(0, 9, GAMMA)], params)
    draft = drafter.propose(anchors, decisions(anchors))
    previous = torch.cat((tokens[9:], draft.tokens[0, :-1]))[None]
    expected = probs(drafter.block_logits(draft.hidden, previous)[0], params)
    torch.testing.assert_close(draft.p_draft[0], expected, rtol=0, atol=1e-12)
    assert (draft.p_draft.gather(2, draft.tokens[..., None]) > 0).all()


def test_requests_keep_their_own_parameters():
    """Catches one request's temperature used for the whole batch."""
    drafter, target = made("dspark markov")
    tokens = random_tokens(6, seed=8)
    features = features_of(target, tokens)
    for slot in (0, 1):
        absorbed(drafter, features, tokens, slot, [5])
    spans = (Span(0, 5, GAMMA), Span(1, 5, GAMMA))
    params = (SamplingParams(), SamplingParams(temperature=0.0))
    anchors = Anchors(tokens[[5, 5]], torch.tensor([5, 5]), spans, params)
    draft = drafter.propose(anchors, decisions(anchors))
    assert (draft.p_draft[0].amax(-1) < 1).all()
    assert (draft.p_draft[1].amax(-1) == 1).all()


def test_b26_rank_zero_is_dflash():
    """Same backbone weights, head none: the same p_draft, exactly."""
    target = tiny_target()
    flash = DRAFTERS.create("dflash", target=target, gamma=GAMMA, seed=5)
    spark = DRAFTERS.create("dspark", target=target, gamma=GAMMA, head="none", seed=5)
    tokens = random_tokens(8, seed=3)
    features = features_of(target.with_taps(flash.feature_layers), tokens)
    drafts = []
    for drafter in (flash, spark):
        drafter.prepare(1, 20)
        absorbed(drafter, features, tokens, 0, [7])
        drafts.append(proposal(drafter, tokens, 0))
    assert torch.equal(drafts[0].p_draft, drafts[1].p_draft)
    assert spark.kind == "parallel"


def test_nothing_is_demoted():
    """Rotary tables in float64 are float64's own, not float32's widened. Catches a table cached in one precision."""
    drafter, _ = made("dspark markov")
    decoder = drafter.config.decoder
    cos, sin = rope_table(decoder.head_size, decoder.max_positions, decoder.rope_theta, decoder.rope_scaling)
    rotary, positions = drafter.net.backbone.rotary, torch.arange(10)
    rotary(positions, torch.zeros(1))
    seen = rotary(positions, torch.zeros(1, dtype=torch.float64))
    assert torch.equal(seen[0][:, 0], cos[:10])
    assert torch.equal(seen[1][:, 0], sin[:10])


# ------------------------------------------------------------------------------------------------ whole rounds
def greedy(target: object, drafter: Drafter | None, gamma: int = GAMMA) -> tuple[list[tuple[int, ...]], list[object]]:
    """Five requests through three slots to the end of the context, at temperature 0."""
    engine = Engine(parts_of(target, drafter), gamma=gamma, num_slots=3)
    lengths = (None, 12, None, 20, 9)
    for number, length in enumerate(lengths):
        prompt = tuple(random_tokens(1 + 3 * number, seed=number).tolist())
        engine.add(Request(prompt, seed=number, max_new_tokens=length, params=SamplingParams(temperature=0.0)))
    rounds = list(engine.stream())
    return [tuple(engine.finished[number].token_ids) for number in range(len(lengths))], rounds


@every
def test_greedy_text_is_the_targets_own_up_to_the_contexts_end(variant: str):
    """Blocks overhang the last position; one-token prompts. Catches a rotary row or a cache row out of range."""
    drafter, target = made(variant, max_positions=32)
    text, rounds = greedy(target, drafter)
    assert text == greedy(target, None)[0]
    assert any(one.kind == "drafted" for one in rounds)


def test_a_perfect_drafter_accepts_everything():
    """The scripted drafter of tests/parts.py through the engine: gamma + 1 tokens a round until something stops it."""
    target = tiny_target(max_positions=32)
    text, _ = greedy(target, None)
    prompts = [random_tokens(1 + 3 * number, seed=number).tolist() for number in range(5)]
    drafter = perfect([[*p, *t] for p, t in zip(prompts, text, strict=True)], target.vocab_size)
    again, rounds = greedy(target, drafter)
    assert again == text
    assert all(one.accepted == one.verify_len for one in rounds if one.kind == "drafted")


def test_gamma_above_the_trained_one_is_refused():
    target = tiny_target()
    drafter = DRAFTERS.create("dflash", target=target, gamma=3)
    with pytest.raises(ValueError, match=r"gamma=5: this dflash drafter was trained for 1..3"):
        BlockDrafter(drafter.config, drafter.net, target, gamma=5)

"""Confidences: none reads its own token (one does, and says so), the trained head, tracked rates."""

import itertools
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sparkit.compose import ASSETS, assemble
from sparkit.confidences.head import ConfidenceHead, load_head
from sparkit.confidences.position import Counts, Position
from sparkit.confidences.recurrent import FILE, RecurrentConfidence, load_recurrent, view_of
from sparkit.drafters.layout import save_drafter
from sparkit.protocols import CONFIDENCES, DRAFTERS, Confidence
from sparkit.recipe import Recipe
from sparkit.rounds import Draft, Limits, Plan, Rounds, Verdict
from sparkit.targets.table import load_table
from sparkit.training.blocks import Blocks, collect
from sparkit.training.confidence import fit
from sparkit.training.confidence import save as save_recurrent
from sparkit.training.loop import Optimisation
from tests.parts import shake, tiny_target

R, GAMMA, V, D, RANK = 3, 4, 6, 5, 2


def draft(seed: int = 0) -> Draft:
    generator = torch.Generator().manual_seed(seed)
    law = torch.rand(R, GAMMA, V, generator=generator, dtype=torch.float64) + 0.05
    tokens = torch.randint(V, (R, GAMMA), generator=generator)
    hidden, embedding = (torch.randn(R, GAMMA, n, generator=generator, dtype=torch.float64) for n in (D, RANK))
    return Draft(tokens, law / law.sum(-1, keepdim=True), hidden, embedding)


def rounds_of(accepted: list[int], verify_len: list[int], gamma: int = GAMMA, soft: float = 0.25) -> Rounds:
    num = len(accepted)
    zeros = torch.zeros(num, gamma)
    steps = torch.arange(gamma)
    lengths = torch.tensor(verify_len)
    rate = torch.where(steps <= lengths[:, None], soft, torch.nan)
    limits = Limits(num, torch.zeros(num, dtype=torch.int64), torch.full((num,), gamma))
    verdict = Verdict(torch.tensor(accepted), torch.zeros(num, dtype=torch.int64), torch.tensor(accepted) == lengths)
    block = Draft(torch.zeros(num, gamma, dtype=torch.int64), torch.full((num, gamma, 2), 0.5))
    ids, places = tuple(range(num)), torch.zeros(num, dtype=torch.int64)
    return Rounds(0, ids, places, block, zeros, zeros, zeros, limits, Plan(lengths), verdict, rate, 0.1)


def confidence_of(name: str) -> Confidence:
    if name == "table":
        return CONFIDENCES.create("table", target=load_table("appendix-a"))
    if name == "head":
        head = ConfidenceHead(D, RANK).double()
        shake(head, 1, 0.5)
        return head
    if name == "recurrent":
        return recurrent()
    return CONFIDENCES.create(name)


def recurrent() -> RecurrentConfidence:
    made = RecurrentConfidence(V, D, RANK, width=7, embedding_size=3).double()
    shake(made, 4, 0.5)
    return made


@pytest.mark.parametrize("name", CONFIDENCES.names())
def test_no_confidence_reads_its_own_token_and_the_one_that_does_says_so(name: str):
    """x_j for j >= k replaced: c_k must not move. Catches a head fed W1[x_k], a table keyed by x_k, `token_prob`."""
    confidence, gamma = confidence_of(name), 2 if name == "table" else GAMMA
    whole = draft()
    one = Draft(
        whole.tokens[:, :gamma] % 2,
        whole.p_draft[:, :gamma],
        whole.hidden[:, :gamma],
        whole.previous_embedding[:, :gamma],
    )
    before = confidence.logits(one, confidence.start())
    assert before.shape == (R, gamma)
    moved = False
    for k in range(gamma):
        tokens = one.tokens.clone()
        tokens[:, k:] = 1 - tokens[:, k:]
        after = confidence.logits(replace(one, tokens=tokens), confidence.start())
        moved = moved or not torch.equal(after[:, : k + 1], before[:, : k + 1])
    assert moved != confidence.lossless
    assert CONFIDENCES.part(name).lossless == confidence.lossless


def test_head_formula():
    """c_k = sigmoid(w^T [h_k ; W1[x_{k-1}]] + b) [eq. 7]. Catches the other order of the two inputs."""
    head, one = confidence_of("head"), draft()
    w, b = head.proj.weight[0], head.proj.bias
    expected = one.hidden @ w[:D] + one.previous_embedding @ w[D:] + b
    torch.testing.assert_close(head.logits(one, None), expected.detach(), rtol=0, atol=1e-14)
    alone = ConfidenceHead(D).double()
    shake(alone, 2, 0.5)
    torch.testing.assert_close(alone.logits(one, None), (one.hidden @ alone.proj.weight[0] + alone.proj.bias).detach())


def test_head_says_what_it_lacks():
    with pytest.raises(ValueError, match="previous token's embedding is None"):
        confidence_of("head").logits(replace(draft(), previous_embedding=None), None)
    with pytest.raises(ValueError, match="hidden states are None; use a confidence that needs none"):
        confidence_of("head").logits(replace(draft(), hidden=None), None)


def test_head_travels_with_the_drafter(tmp_path: Path):
    """Catches a head saved without its bias, or loaded in half precision."""
    target = tiny_target(taps=(0, 1, 2))
    drafter = DRAFTERS.create("dspark", target=target, rank=4)
    head = ConfidenceHead(16, 4).double()
    shake(head, 5, 0.5)
    save_drafter(tmp_path, drafter, head, dtype=torch.float64)
    back = load_head(tmp_path, 16, dtype=torch.float64)
    assert back.rank == 4
    for name, p in head.named_parameters():
        assert torch.equal(back.get_parameter(name), p)
    with pytest.raises(ValueError, match=r"expected floats \[1, 99 \+ rank\]"):
        load_head(tmp_path, 99)
    save_drafter(tmp_path, drafter)
    with pytest.raises(ValueError, match="no trained confidence head"):
        load_head(tmp_path, 16)


def test_b26_rank_zero_reads_the_hidden_state_alone():
    """Input width d, not d + r; one forward and backward is finite."""
    head = ConfidenceHead(D, 0).double()
    assert head.proj.in_features == D
    head(draft().hidden).sum().backward()
    assert head.proj.weight.grad.isfinite().all()
    with pytest.raises(ValueError, match="rank=-1"):
        ConfidenceHead(D, -1)


def test_what_the_recurrent_confidence_may_know():
    """Entropy and the largest of p_draft^k, and of the draws only the one before. Catches log p_draft^k(x_k) at k."""
    one = draft()
    view = view_of(one.p_draft, one.tokens)
    logs = one.p_draft.log()
    torch.testing.assert_close(view.numbers[..., 0], -(one.p_draft * logs).sum(-1), rtol=0, atol=1e-14)
    torch.testing.assert_close(view.numbers[..., 1 : 1 + V], logs.sort(descending=True).values, rtol=0, atol=1e-14)
    drawn = logs.gather(2, one.tokens[..., None])[..., 0]
    torch.testing.assert_close(view.numbers[:, 1:, -2], drawn[:, :-1], rtol=0, atol=1e-14)
    torch.testing.assert_close(view.numbers[:, 1:, -1], (drawn - logs.amax(-1))[:, :-1], rtol=0, atol=1e-14)
    assert (view.numbers[:, 0, -2:] == 0).all()
    certain = torch.nn.functional.one_hot(one.tokens, V).double()
    assert view_of(certain, one.tokens).numbers.isfinite().all()


def test_the_recurrent_confidence_remembers_the_block():
    """An earlier draw moves every later position. Catches a state that is not handed on."""
    part, one = recurrent(), draft()
    tokens = one.tokens.clone()
    tokens[:, 0] = (tokens[:, 0] + 1) % V
    moved = part.logits(replace(one, tokens=tokens), None) - part.logits(one, None)
    assert (moved[:, 0] == 0).all()
    assert (moved[:, 1:].abs() > 0).all()


def test_the_recurrent_confidence_of_a_half_precision_drafter_is_float32(tmp_path: Path):
    """Catches bf16 weights that meet float32 laws, and laws rounded to bf16 for their sake."""
    save_recurrent(tmp_path, recurrent(), dtype=torch.float32)
    half, whole = (load_recurrent(tmp_path, V, D, dtype=dtype) for dtype in (torch.bfloat16, torch.float32))
    one = draft()
    hidden, embedded = one.hidden.bfloat16(), one.previous_embedding.bfloat16()
    law = one.p_draft.float()
    found = half.logits(replace(one, p_draft=law, hidden=hidden, previous_embedding=embedded), None)
    wide = replace(one, p_draft=law, hidden=hidden.float(), previous_embedding=embedded.float())
    assert found.dtype == torch.float32
    assert torch.equal(found, whole.logits(wide, None))


def test_the_recurrent_confidence_travels_beside_its_drafter(tmp_path: Path):
    """Catches a parameter left out of the file, and half precision on reading."""
    made = recurrent()
    save_recurrent(tmp_path, made, dtype=torch.float64)
    back = load_recurrent(tmp_path, V, D, dtype=torch.float64)
    for name, p in made.named_parameters():
        assert torch.equal(back.get_parameter(name), p)
    with pytest.raises(ValueError, match="it belongs to another drafter"):
        back.logits(replace(draft(), previous_embedding=None), None)
    for vocab, size in ((V + 1, D), (V, 99)):
        with pytest.raises(ValueError, match=rf"expected a recurrent confidence for {vocab} tokens and width {size}"):
            load_recurrent(tmp_path, vocab, size)
    (tmp_path / FILE).write_bytes((tmp_path / FILE).read_bytes()[:-8])
    with pytest.raises(ValueError, match=r"recurrent\.safetensors"):
        load_recurrent(tmp_path, V, D)
    with pytest.raises(FileNotFoundError, match="sparkit train confidence"):
        load_recurrent(tmp_path / "nowhere", V, D)


def blocks(num: int, seed: int) -> Blocks:
    """c* is high exactly where the draft law is sharp: nothing in h_k or W1[x_{k-1}] says so."""
    generator = torch.Generator().manual_seed(seed)
    sharpness = 4 * torch.rand(num, GAMMA, 1, generator=generator)
    law = (sharpness * torch.randn(num, GAMMA, V, generator=generator)).softmax(-1)
    tokens = torch.randint(V, (num, GAMMA), generator=generator)
    hidden, embedded = (3 + 9 * torch.randn(num, GAMMA, n, generator=generator) for n in (D, RANK))
    return Blocks(hidden, embedded, view_of(law, tokens), law.amax(-1))


def test_fitting_finds_what_the_paper_s_head_cannot_see():
    """Catches labels of another position, and a scale that was not folded into the first layer."""
    likely = torch.randn(V, 3, generator=torch.Generator().manual_seed(0))
    made = fit(blocks(2000, 0), likely, Optimisation(peak_rate=1e-2, steps=80))
    new = blocks(500, 1)
    found = made(new.hidden, new.embedded, new.law).sigmoid()
    error, spread = (found - new.accept_rate).abs().mean(), new.accept_rate.std()
    assert error < 0.3 * spread
    with pytest.raises(ValueError, match="3 blocks; expected at least 512"):
        fit(blocks(3, 0), likely, Optimisation(peak_rate=1e-2, steps=1))


def test_blocks_are_collected_from_whole_rounds():
    """Every kept block was verified to its end, under the drafter's own tokens. Catches nan labels of cut blocks."""
    chosen = {"drafter": "dspark", "scheduler": "fixed", "calibrator": "identity", "capacity": "roofline"}
    composition = assemble(Recipe(**chosen, batch=4, max_new_tokens=20))
    found = collect(composition, itertools.cycle([[5, 6, 7], [9, 8]]), 40)
    assert len(found) >= 40
    assert found.hidden.shape[:2] == found.accept_rate.shape == found.law.probs.shape[:2]
    assert found.accept_rate.isfinite().all()


def test_temperatures_of_another_confidence_are_told():
    """Catches a calibration that says nothing about the confidence whose logits it was fitted to."""
    file = ASSETS / "bundled" / "drafters" / "dspark-markov" / "sts-recurrent.json"
    recipe = Recipe(drafter="dspark", calibrator=f"sts:path={file}", capacity="roofline")
    with pytest.warns(UserWarning, match="confidence 'recurrent', not 'head'"):
        assemble(recipe)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assemble(replace(recipe, confidence="recurrent"))


def test_max_prob():
    """Catches log p for the logit; a certain law is exactly +inf, which calibrators turn into 1."""
    one = draft()
    rate = CONFIDENCES.create("max_prob").logits(one, None).sigmoid()
    torch.testing.assert_close(rate, one.p_draft.amax(-1), rtol=0, atol=1e-15)
    certain = torch.nn.functional.one_hot(one.tokens, V).double()
    assert (CONFIDENCES.create("max_prob").logits(replace(one, p_draft=certain), None) == torch.inf).all()


def test_position_counts_what_the_cut_allows():
    """Hard labels for k <= min(accepted + 1, verify_len), one soft label after a fully accepted cut.

    Catches counting an early rejection as a failure of later positions, and dropping short rounds that were accepted.
    """
    position = Position(prior=0.5, strength=2.0)
    memory = position.observe(position.start(), rounds_of(accepted=[0, 2, 2, 4], verify_len=[3, 2, 3, 4]))
    #          k: 1     2     3     4
    # [0 of 3]    0
    # [2 of 2]    1     1     soft
    # [2 of 3]    1     1     0
    # [4 of 4]    1     1     1     1
    assert memory.judged.tolist() == [4, 3, 3, 1]
    assert memory.accepted.tolist() == [3, 3, 1.25, 1]
    rate = position.logits(draft(), memory).sigmoid()
    expected = torch.tensor([(3 + 1) / 6, (3 + 1) / 5, (1.25 + 1) / 5, (1 + 1) / 3], dtype=torch.float64)
    torch.testing.assert_close(rate, expected.expand(R, -1), rtol=0, atol=1e-12)


def test_position_memory_is_a_value():
    """Catches counters updated in place: a branch must not see what another branch observed."""
    position = Position()
    first = position.observe(position.start(), rounds_of([1], [4]))
    kept = Counts(first.accepted.clone(), first.judged.clone())
    position.observe(first, rounds_of([4], [4]))
    assert torch.equal(first.accepted, kept.accepted)
    assert torch.equal(first.judged, kept.judged)


def test_position_before_and_beyond_what_was_seen():
    position = Position(prior=0.3)
    prior = torch.full((R, GAMMA), 0.3, dtype=torch.float64)
    torch.testing.assert_close(position.logits(draft(), position.start()).sigmoid(), prior)
    memory = position.observe(position.start(), rounds_of([2], [2], gamma=2))
    rate = position.logits(draft(), memory).sigmoid()
    assert (rate[:, :2] > 0.3).all()
    torch.testing.assert_close(rate[:, 2:], prior[:, 2:])


def test_position_forgets():
    """memory = 1 round keeps 1/e of what was: the second, all-rejected step outweighs the first."""
    position = Position(prior=0.5, memory=1.0)
    memory = position.observe(position.start(), rounds_of([4], [4]))
    memory = position.observe(memory, rounds_of([0], [4]))
    assert memory.judged[0].item() == pytest.approx(1 + torch.tensor(-1.0).exp().item(), abs=1e-6)
    assert memory.accepted[0].item() == pytest.approx(torch.tensor(-1.0).exp().item(), abs=1e-6)


@pytest.mark.parametrize("params", [{"prior": 0.0}, {"prior": 1.0}, {"strength": 0.0}, {"memory": -1.0}])
def test_position_refuses(params: dict[str, float]):
    with pytest.raises(ValueError, match="expected 0 < prior < 1"):
        Position(**params)


def test_table_reaches_exactly_zero_and_one_and_its_own_length():
    """Catches a clamp of table confidences: 0 after B must be -inf."""
    table = CONFIDENCES.create("table", target=load_table("appendix-a"))
    tokens = torch.tensor([[0, 0], [1, 0]])
    logits = table.logits(Draft(tokens, torch.full((2, 2, 2), 0.5)), None)
    torch.testing.assert_close(logits.sigmoid(), torch.tensor([[0.8, 0.9], [0.8, 0.0]], dtype=torch.float64))
    assert logits[1, 1] == -torch.inf
    with pytest.raises(ValueError, match="gamma=3: the confidence tables have 2 positions"):
        table.logits(Draft(torch.zeros(1, 3, dtype=torch.int64), torch.full((1, 3, 2), 0.5)), None)

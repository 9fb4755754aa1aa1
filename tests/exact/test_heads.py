"""Serial heads against their formulas, and their two forms against each other [DSpark eq. 4-6]."""

import pytest
import torch

from sparkit.protocols import HEADS, SerialHead
from tests.parts import shake

V, RANK, D, R, GAMMA = 11, 3, 5, 4, 6


def made(name: str) -> torch.nn.Module:
    head = HEADS.create(name, vocab_size=V, rank=0 if name == "none" else RANK, hidden_size=D).double()
    shake(head, 3, 0.7)
    return head


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    previous = torch.randint(V, (R, GAMMA), generator=generator)
    return previous, torch.randn(R, GAMMA, D, generator=generator, dtype=torch.float64)


def stepwise(head: SerialHead, previous: torch.Tensor, hidden: torch.Tensor) -> list[torch.Tensor | None]:
    state, out = head.start(previous[:, 0]), []
    for k in range(GAMMA):
        bias, state = head.step(state, previous[:, k], hidden[:, k])
        out.append(bias)
    return out


@pytest.mark.parametrize("name", HEADS.names())
def test_block_and_step_agree(name: str):
    """Catches a block form that shifts positions, drops the state, or starts the rnn elsewhere than at zero."""
    head, (previous, hidden) = made(name), inputs()
    block, steps = head.block(previous, hidden), stepwise(head, previous, hidden)
    assert isinstance(head, SerialHead)
    if block is None:
        assert steps == [None] * GAMMA
        return
    torch.testing.assert_close(torch.stack(steps, dim=1), block, rtol=0, atol=1e-12)
    assert block.dtype == torch.float64


def by_hand(name: str, head: torch.nn.Module, previous: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
    """The formulas of method.md section 4, one row of one block at a time."""
    w1, w2 = head.embedding.weight, head.to_logits.weight
    state, out = torch.zeros(RANK, dtype=torch.float64), []
    for token, h in zip(previous.tolist(), hidden, strict=True):
        e = w1[token]
        if name == "markov":
            out.append(w2 @ e)
        if name == "gated":
            gate = torch.sigmoid(head.gate.weight @ torch.cat((h, e)) + head.gate.bias)
            out.append(w2 @ (gate * e))
        if name == "rnn":
            g, c, o = (head.joint.weight @ torch.cat((state, e, h)) + head.joint.bias).split(RANK)
            state = torch.sigmoid(g) * state + (1 - torch.sigmoid(g)) * torch.tanh(c)
            out.append(w2 @ torch.tanh(o))
    return torch.stack(out)


@pytest.mark.parametrize("name", ["markov", "gated", "rnn"])
def test_formula(name: str):
    """Catches [e; h] for [h; e], another row order in the rnn's one layer, and a forget gate turned round."""
    head, (previous, hidden) = made(name), inputs()
    with torch.no_grad():
        expected = torch.stack([by_hand(name, head, previous[r], hidden[r]) for r in range(R)])
        torch.testing.assert_close(head.block(previous, hidden), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["markov", "gated", "rnn"])
def test_previous_embedding_is_the_tables_row(name: str):
    """Catches an embedding that was gated on its way to the confidence head."""
    head, (previous, _) = made(name), inputs()
    assert torch.equal(head.previous_embedding(previous), head.embedding.weight[previous])
    assert head.previous_embedding(previous).shape == (R, GAMMA, head.rank)


def test_rnn_remembers_more_than_the_last_token():
    """Catches a state that is never passed on: tokens two back must matter."""
    head, (previous, hidden) = made("rnn"), inputs()
    other = previous.clone()
    other[:, 0] = (other[:, 0] + 1) % V
    change = (head.block(previous, hidden) - head.block(other, hidden)).abs().amax(-1)
    assert (change > 1e-6).all()
    markov = made("markov")
    change = (markov.block(previous, hidden) - markov.block(other, hidden)).abs().amax(-1)
    assert (change[:, 0] > 1e-6).all()
    assert (change[:, 1:] == 0).all()


@pytest.mark.parametrize(("name", "rank"), [("markov", 0), ("markov", -1), ("gated", -1), ("rnn", 0), ("none", 2)])
def test_b26_bad_ranks(name: str, rank: int):
    with pytest.raises(ValueError, match=f"head '{name}' with rank={rank}"):
        HEADS.create(name, vocab_size=V, rank=rank, hidden_size=D)

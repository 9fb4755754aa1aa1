"""Muon: orthogonal updates for maps of hidden states, AdamW for the rest, resumable, the same on one rank or two."""

import pytest
import torch
from torch import nn

from sparkit.training.checkpoint import Note, load_checkpoint, save_checkpoint
from sparkit.training.loop import Optimisation, StepLoss, Training, optimizer_of
from sparkit.training.muon import Muon, is_hidden_map, orthogonal

PLAN = Optimisation(peak_rate=1e-2, steps=40, method="muon", adamw_share=0.3)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(9, 6)
        self.up, self.down = nn.Linear(6, 10), nn.Linear(10, 6)
        self.lm_head = nn.Linear(6, 9, bias=False)

    def loss(self, step: int) -> StepLoss:
        tokens = torch.randint(9, (32,), generator=torch.Generator().manual_seed(step))
        x = self.embedding(tokens)
        logits = self.lm_head(x + self.down(self.up(x).relu()))
        losses = nn.functional.cross_entropy(logits, (tokens * 2) % 9, reduction="none")
        return StepLoss(losses.sum(), torch.tensor(32.0))


@pytest.mark.parametrize("shape", [(6, 6), (4, 10), (10, 4)])
def test_the_update_is_nearly_orthogonal_and_keeps_the_singular_vectors(shape: tuple[int, int]) -> None:
    """Catches a transposed product and a wrong coefficient: singular values leave the band, or vectors turn."""
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    out = orthogonal(matrix)
    u, _, vh = torch.linalg.svd(matrix, full_matrices=False)
    core = u.mT @ out @ vh.mT
    assert bool(((core.diagonal() > 0.6) & (core.diagonal() < 1.3)).all())
    assert float((core - torch.diag(core.diagonal())).abs().max()) < 1e-9


def test_tables_and_vectors_stay_with_adamw() -> None:
    """Catches an embedding or LM head that is orthogonalised."""
    net = Net()
    maps = [name for name, p in net.named_parameters() if is_hidden_map(name, p)]
    assert maps == ["up.weight", "down.weight"]
    groups = optimizer_of(net, PLAN).param_groups
    assert [g["is_map"] for g in groups] == [False, False, True]
    assert [g.get("share", 1.0) for g in groups] == [0.3, 0.3, 1.0]


def test_what_is_no_map_is_updated_as_torch_s_adamw_does() -> None:
    """Catches a wrong bias correction or decay in the second rule."""
    ours, theirs = Net(), Net()
    groups = [{"params": list(ours.parameters()), "weight_decay": 0.1, "is_map": False}]
    mine = Muon(groups, lr=1e-2, betas=(0.9, 0.95))
    other = torch.optim.AdamW(theirs.parameters(), lr=1e-2, betas=(0.9, 0.95), weight_decay=0.1)
    for step in range(5):
        for net, optimizer in ((ours, mine), (theirs, other)):
            optimizer.zero_grad()
            net.loss(step).total.backward()
            optimizer.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-6)


def test_it_learns() -> None:
    """Catches an update with the wrong sign or no size."""
    net = Net()
    training = Training(net, Optimisation(peak_rate=5e-2, steps=80, method="muon"))
    first = training.update(net.loss)["loss"]
    while training.progress < 1:
        last = training.update(net.loss)["loss"]
    assert last < 0.5 * first


def test_a_resumed_run_is_the_same_run(tmp_path) -> None:
    """Catches a momentum or a step count that is not in the checkpoint."""
    whole, broken = Net(), Net()
    training = Training(whole, PLAN)
    for _ in range(6):
        training.update(whole.loss)
    half = Training(broken, PLAN)
    for _ in range(3):
        half.update(broken.loss)
    save_checkpoint(tmp_path, broken, half.optimizer, Note(3, 0.0, 1))
    fresh = Net()
    rest = Training(fresh, PLAN)
    note = load_checkpoint(tmp_path, fresh, rest.optimizer)
    rest.step = note.step
    for _ in range(3):
        rest.update(fresh.loss)
    for a, b in zip(whole.parameters(), fresh.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-7)

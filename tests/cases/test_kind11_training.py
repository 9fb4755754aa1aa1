"""Kind 11: training. B32 (nothing to train on, ranks out of step) and B34 (resume changes nothing)."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from sparkit.targets.transformer import Transformer, TransformerConfig
from sparkit.training.loop import Objective, Optimisation, Training
from sparkit.training.quality import measure
from sparkit.training.target import initialise, objective

PLAN = Optimisation(peak_rate=3e-3, steps=10)
DOCUMENTS = {
    "math": [torch.randint(5, 32, (9,), generator=torch.Generator().manual_seed(i)) for i in range(5)],
    "chat": [torch.randint(5, 32, (7,), generator=torch.Generator().manual_seed(9 + i)) for i in range(5)],
}


def fresh(folder: Path | None = None) -> tuple[Training, Objective]:
    net = Transformer(TransformerConfig(32, 16, 24, 2, 4, 2, max_positions=32))
    initialise(net, torch.Generator().manual_seed(0))
    return Training(net, PLAN, folder), objective(net, DOCUMENTS, 40, seed=3)


def advance(pair: tuple[Training, Objective], steps: int) -> list[dict[str, float]]:
    training, loss = pair
    return [training.update(loss) for _ in range(steps)]


def test_b34_resume_changes_nothing(tmp_path: Path):
    """Ten steps at once = five, save, load, five. Catches lost moments, a restarted schedule, other batches."""
    whole = fresh()
    expected = advance(whole, 10)
    first = fresh(tmp_path)
    seen = advance(first, 5)
    first[0].save()
    second = fresh(tmp_path)
    assert second[0].step == 5
    seen += advance(second, 5)
    assert [n["rate"] for n in seen] == [n["rate"] for n in expected]
    assert [n["loss"] for n in seen] == pytest.approx([n["loss"] for n in expected], abs=1e-6)
    for a, b in zip(whole[0].parameters, second[0].parameters, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-7)


def test_b34_measuring_in_between_changes_nothing():
    """Catches an evaluation that draws, trains, or leaves the module in another mode."""
    plain, watched = fresh(), fresh()
    expected = advance(plain, 5)
    seen = advance(watched, 3)
    measure(watched[0].module, DOCUMENTS)
    assert watched[0].module.training
    seen += advance(watched, 2)
    assert seen == expected


def test_b34_numbers_are_plain():
    """Catches stored metrics that hold the graph."""
    assert all(type(value) in (int, float) for value in advance(fresh(), 1)[0].values())


def test_b34_another_world_size_is_refused(tmp_path: Path):
    training, _ = fresh(tmp_path)
    training.save()
    from sparkit.training.distributed import World

    with pytest.raises(ValueError, match=r"written by 1 process\(es\), this run has 2"):
        Training(training.module, PLAN, tmp_path, World(rank=0, size=2))


RANKS = """
import sys, torch
from torch import nn
from sparkit.training.distributed import broadcast, join, leave
from sparkit.training.loop import Optimisation, StepLoss, Training

world = join()
torch.manual_seed(world.rank)
layer = nn.Linear(3, 1, bias=False)
broadcast(layer.parameters(), world)
rows = torch.ones(4, 3) if world.rank == 0 else torch.ones(0, 3)
def loss(step):
    errors = layer(rows).square()
    return StepLoss(errors.sum() if len(rows) else torch.zeros(()), torch.tensor(float(len(rows))))
start = layer.weight.detach().clone()
numbers = Training(layer, Optimisation(peak_rate=1e-2, steps=3), world=world).update(loss)
print(numbers["loss"], float(start.sum()) ** 2, layer.weight.tolist())
leave()
"""


def test_b32_a_rank_without_data_keeps_step():
    """Both ranks end with equal weights; the loss is rank 0's sum over the global count. Catches mean-of-means."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    environment = os.environ | {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", RANKS],
            env=environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    outputs = [process.communicate(timeout=120)[0].split(maxsplit=2) for process in ranks]
    assert [process.returncode for process in ranks] == [0, 0]
    assert outputs[0] == outputs[1]
    assert float(outputs[0][0]) == pytest.approx(float(outputs[0][1]), rel=1e-5)

"""Kind 11: training. B30 (context leak), B31 and B32 (labels, nothing to train on), B34 (resume changes nothing)."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from sparkit.targets.transformer import Transformer, TransformerConfig
from sparkit.training.anchors import document_of
from sparkit.training.distributed import World
from sparkit.training.drafter import Batch, Material, numbers
from sparkit.training.drafter import measure as measure_blocks
from sparkit.training.drafter import objective as drafter_objective
from sparkit.training.loop import Objective, Optimisation, StepLoss, Training
from sparkit.training.quality import measure
from sparkit.training.responses import Features, Responses
from sparkit.training.target import initialise, objective
from tests.parts import tiny_target
from tests.training import OPTIONS, batch_of, trainee_of

PLAN = Optimisation(peak_rate=3e-3, steps=10)  # its rate stays low after that
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
    with pytest.raises(ValueError, match=r"written by 1 process\(es\), this run has 2"):
        Training(training.module, PLAN, tmp_path, World(rank=0, size=2))


def test_b34_nothing_but_the_note_is_kept(tmp_path: Path):
    """Schedule, batches and anchors are functions of the step, so there is no scheduler object whose attribute (called
    "opt", "size" or anything else) could be lost; optimiser, learning rate and frozen weights come back as they were.

    Catches a field of `Training` that a resumed run would begin anew.
    """
    kept = {"module", "plan", "folder", "world", "step", "seconds", "optimizer", "parameters"}
    assert set(Training.__slots__) == kept
    target = tiny_target(dtype=torch.float32)
    runs = [trainee_of(target, "dspark-markov") for _ in range(2)]
    batch = batch_of(target, runs[0])

    def loss(_: int) -> StepLoss:
        found = measure_blocks(first.module, target, batch)
        return StepLoss(found.total, found.weight)

    first = Training(runs[0], PLAN, tmp_path)
    advance((first, loss), 3)
    first.save()
    second = Training(runs[1], PLAN, tmp_path)
    assert (second.step, second.seconds, second.progress) == (first.step, first.seconds, first.progress)
    states = [run.optimizer.state_dict()["state"] for run in (first, second)]
    assert states[0].keys() == states[1].keys()
    for one, other in ((states[0][number], states[1][number]) for number in states[0]):
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one)
    assert [p.requires_grad for p in runs[0].parameters()] == [p.requires_grad for p in runs[1].parameters()]


MEMORY = """
import gc
from pathlib import Path
import torch
from tests.cases.test_kind11_training import advance, fresh

torch.set_num_threads(1)
pair, numbers = fresh(), []  # numbers: as a log would keep them
for steps in (50, 150):
    numbers += advance(pair, steps)
    gc.collect()
    resident = int(Path("/proc/self/statm").read_text().split()[1])
    print(resident, sum(issubclass(type(item), torch.Tensor) for item in gc.get_objects()))
"""


def test_b34_memory_stays(plain_python):
    """Resident memory and live tensors after 200 steps within 5% of after 50. Catches numbers that hold the graph."""
    done = plain_python(MEMORY)
    assert done.returncode == 0, done.stderr[-2000:]
    early, late = ([int(word) for word in line.split()] for line in done.stdout.splitlines())
    assert all(after <= 1.05 * before for before, after in zip(early, late, strict=True))


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
leave(waits=True)
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


def with_features(batch: Batch, features: torch.Tensor) -> Batch:
    return Batch(batch.tokens, batch.lengths, features, batch.last, batch.blocks)


@pytest.mark.parametrize("name", OPTIONS)
def test_b30_features_from_the_anchor_on_do_not_matter(name: str):
    """Document of 12, gamma 4, anchor 4: features at 4 and later leave the loss bit-equal, feature 3 does not.

    Catches visibility up to and with the anchor, whose feature decoding does not have.
    """
    target = tiny_target(dtype=torch.float64)
    trainee = trainee_of(target, name)
    batch = batch_of(target, trainee, (12,), (4,))
    later, earlier = batch.features.clone(), batch.features.clone()
    later[4:] += 1.0
    earlier[3] += 1.0
    losses = [
        measure_blocks(trainee, target, b).total
        for b in (batch, with_features(batch, later), with_features(batch, earlier))
    ]
    assert torch.equal(losses[0], losses[1])
    assert not torch.equal(losses[0], losses[2])


@pytest.mark.parametrize("name", OPTIONS)
def test_b30_one_anchors_loss_is_the_same_in_any_company(name: str):
    """Alone, or among eight anchors of two packed documents. Catches blocks that see each other or another document."""
    target = tiny_target(dtype=torch.float64)
    trainee = trainee_of(target, name)
    alone = measure_blocks(trainee, target, batch_of(target, trainee, (12, 9), (5,))).total
    many = (2, 3, 5, 7, 14, 15, 16, 17)
    rest = tuple(a for a in many if a != 5)
    among = measure_blocks(trainee, target, batch_of(target, trainee, (12, 9), many)).total
    without = measure_blocks(trainee, target, batch_of(target, trainee, (12, 9), rest)).total
    torch.testing.assert_close(among - without, alone, rtol=1e-9, atol=1e-9)


def test_b30_an_anchor_without_context():
    """The first token of a packed document: no context, position 0, no nan."""
    target = tiny_target(dtype=torch.float32)
    trainee = trainee_of(target, "dspark-markov")
    batch = batch_of(target, trainee, (5, 5), (5,), supervised=torch.ones(10, dtype=torch.bool))
    assert batch.blocks.positions[0, 0] == 0
    assert torch.isfinite(measure_blocks(trainee, target, batch).total)


@pytest.mark.parametrize("prompt_lengths", [[6, 1], [5, 1]])
def test_b32_no_anchor_anywhere(prompt_lengths: list[int]):
    """No supervised pair, a document of length 1: loss exactly 0, no gradient, no nan, no exception."""
    target = tiny_target(dtype=torch.float32)
    trainee = trainee_of(target, "dspark-markov")
    width = len(trainee.drafter.config.feature_layers) + 1
    responses = Responses(torch.arange(7), torch.tensor([6, 1]), torch.tensor(prompt_lengths), torch.tensor([0, 0]))
    taps = (*trainee.drafter.config.feature_layers, 3)
    material = Material(responses, Features(np.zeros((7, width * 16), np.float16)), taps, 7, 8, 4, 0)
    training = Training(trainee, Optimisation(peak_rate=1e-2, steps=1))
    shown = training.update(drafter_objective(trainee, target, material))
    assert shown["loss"] == 0.0
    assert all(p.grad is None or not p.grad.any() for p in training.parameters)


def test_b32_invalid_labels_weigh_nothing():
    """Three labels of four are cut: changing what lies behind the cut changes nothing. Catches padding that weighs."""
    target = tiny_target(dtype=torch.float64)
    trainee = trainee_of(target, "dspark-markov")
    mask = torch.zeros(12, dtype=torch.bool)
    mask[2:6] = True
    batch = batch_of(target, trainee, (12,), (4,), supervised=mask)
    found = measure_blocks(trainee, target, batch)
    assert batch.blocks.valid.tolist() == [[True, False, False, False]]
    assert found.weight.item() == 1.0
    shown = numbers(found)
    assert shown["accept_1"] > 0
    assert shown["accept_2"] == 0.0


def test_anchors_are_shared_by_domain_and_repeat_by_step():
    """Catches anchors that depend on anything but (seed, step), and domains that take all."""
    lengths = [20, 20, 8, 8]
    responses = Responses(
        torch.randint(5, 32, (56,), generator=torch.Generator().manual_seed(0)),
        torch.tensor(lengths),
        torch.tensor([2, 2, 2, 2]),
        torch.tensor([0, 0, 1, 1]),
    )
    material = Material(responses, Features(np.zeros((56, 32), np.float16)), (0, 3), 40, 10, 3, 5)
    first, again, other = (material.batch(step, (0,)) for step in (3, 3, 4))
    assert first is not None
    assert again is not None
    assert other is not None
    assert torch.equal(first.blocks.anchors, again.blocks.anchors)
    assert first.lengths != other.lengths or not torch.equal(first.blocks.anchors, other.blocks.anchors)
    domain = torch.tensor([0 if n == 20 else 1 for n in first.lengths])[document_of(first.lengths)]
    assert torch.bincount(domain[first.blocks.anchors]).tolist() == [5, 5]

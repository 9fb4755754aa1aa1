"""Kind 14: device. B40: training needs no special attention backend, and nothing is compiled."""

import pytest
import torch
from torch.nn import functional as F

from sparkit.drafters.blockwise import attend_blocks, lay_out
from sparkit.training.anchors import visible
from sparkit.training.drafter import measure
from sparkit.training.loop import Optimisation, StepLoss, Training
from tests.parts import tiny_target
from tests.training import OPTIONS, batch_of, trainee_of


@pytest.mark.parametrize("name", OPTIONS)
def test_b40_one_training_step_on_the_cpu(name: str):
    """Forward, backward, update: every trained matrix moves and the target does not. Catches a detached branch."""
    target = tiny_target(dtype=torch.float32)
    trainee = trainee_of(target, name)
    before = {n: p.detach().clone() for n, p in trainee.named_parameters()}
    frozen = {n: p.detach().clone() for n, p in target.model.named_parameters()}
    batch = batch_of(target, trainee)

    def loss(step: int) -> StepLoss:
        found = measure(trainee, target, batch)
        return StepLoss(found.total, found.weight)

    training = Training(trainee, Optimisation(peak_rate=1e-2, steps=1, warmup_share=0.0))
    training.update(loss)
    assert all(not torch.equal(p, before[n]) for n, p in trainee.named_parameters() if p.ndim > 1)
    assert all(torch.equal(p, frozen[n]) for n, p in target.model.named_parameters())


def test_b40_block_attention_is_a_dense_mask():
    """Length 6, gamma 2, anchors 2 and 4 against `visible` and the library's attention. Catches other visibility."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 2, 1, 8, generator=generator, dtype=torch.float64) for _ in range(3))
    context = tuple(torch.randn(6, 1, 8, generator=generator, dtype=torch.float64) for _ in range(2))
    anchors = torch.tensor([2, 4])
    out = attend_blocks(lay_out([6], anchors), q, (k, v), context)
    keys, values = (torch.cat((c[:, 0], own.flatten(0, 2))) for c, own in zip(context, (k, v), strict=True))
    mask = visible(anchors[None], 2, 6)[0]
    dense = F.scaled_dot_product_attention(q.flatten(0, 2)[None], keys[None], values[None], attn_mask=mask[None])
    torch.testing.assert_close(out.flatten(0, 2), dense[0], rtol=0, atol=1e-12)


def test_b40_nothing_imports_the_compiler(plain_python):
    """Catches a compile call at import time."""
    code = "import sys, sparkit.training.drafter; print('torch._inductor' in sys.modules)"
    done = plain_python(code)
    assert done.stdout.strip() == "False", done.stderr


COMPILES = """
import torch
from torch._dynamo.testing import CompileCounter
from sparkit.targets.transformer import DecoderLayer, TransformerConfig

layer = DecoderLayer(TransformerConfig(32, 16, 24, 1, 4, 2, qk_norm=True))
for p in layer.parameters():
    p.data.fill_(0.1)
counter = CompileCounter()

def forward(x, cos, sin):
    return layer(x, (cos, sin), 0, lambda _, q, k, v: q)

def run(call, rows):
    return call(torch.ones(rows, 16), torch.ones(rows, 1, 4), torch.ones(rows, 1, 4))

fast = torch.compile(forward, backend=counter, dynamic=True)
run(forward, 2)  # norms keep their eps as a tensor from the first call on
for rows in (5, 3):
    run(fast, rows)
warm = counter.frame_count
for window in range(1, 9):  # verification windows of one request, then of three
    run(fast, window)
    run(fast, 3 * window)
for anchors in range(1, 11):  # training blocks of gamma 7
    out = run(fast, 7 * anchors)
torch.testing.assert_close(out, run(forward, 70))
print(counter.frame_count - warm)
"""


def test_b40_dense_layers_compile_a_few_times(plain_python):
    """Windows 1 to 8 and ten anchor counts: at most 3 compilations after warm-up. Catches a size read as a constant.

    Attention is handed in (`Mix`), so it is not part of what is compiled; sparkit itself compiles nothing.
    """
    done = plain_python(COMPILES)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) <= 3

"""A linear layer is the same layer whichever way its product is taken: few tokens, many, a large matrix."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sparkit.targets.plain import LARGE, MANY_TOKENS_OF_LARGE, TOO_LARGE, _Affine, lay_input_major, multiplied
from sparkit.targets.transformer import RMSNorm


def _linear(inputs: int, outputs: int, bias: bool) -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(inputs, outputs, bias=bias).double().requires_grad_(False)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("num", [1, 3, 4, 5])
def test_both_products_are_the_layer(num: int, bias: bool) -> None:
    """Kills: a bias lost or spread the wrong way, a residual dropped, the wrong side transposed."""
    linear, x, residual = _linear(6, 10, bias), torch.randn(num, 6).double(), torch.randn(num, 10).double()
    wanted = linear(x)
    affine = _Affine(linear, many=4)
    assert affine.takes_rows(x) == (num < 4)
    for found in (affine(x), affine.columns(x).t(), affine.added(residual, x) - residual):
        assert torch.allclose(found, wanted, rtol=0, atol=1e-13)
    assert affine(x).is_contiguous()


def test_large_matrices_go_over_early_and_the_largest_never() -> None:
    """Kills: a second copy of a matrix that fills the memory; the small bound taken for a large matrix."""
    large = _Affine(nn.Linear(LARGE // 512 + 1, 512, bias=False).requires_grad_(False), many=99)
    assert large.many == MANY_TOKENS_OF_LARGE
    assert large.whole is not None
    largest = _Affine(nn.Linear(TOO_LARGE // 512 + 1, 512, bias=False).requires_grad_(False), many=99)
    assert largest.whole is None
    assert largest.takes_rows(torch.zeros(1000, 1))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_a_norm_computes_wide_and_answers_in_its_own_precision(dtype: torch.dtype) -> None:
    """Kills: squares summed in half precision (300^2 is no float16), an answer that widens what comes after it."""
    torch.manual_seed(1)
    norm = RMSNorm(32, 1e-6).to(dtype)
    x = (300 * torch.randn(5, 32)).to(dtype)
    found, wide = norm(x), x.double()
    assert found.dtype == dtype
    wanted = wide * (wide.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
    assert torch.allclose(found.double(), wanted, rtol=2 * torch.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("shape", [(1,), (3,), (2, 3)])
@pytest.mark.parametrize("outputs", [512, LARGE // 40 + 1])
def test_an_lm_head_is_the_same_product(shape: tuple[int, ...], outputs: int) -> None:
    """Kills: rows and positions mixed up when the product is taken from the other side."""
    x, weight = torch.randn(*shape, 40).double(), torch.randn(outputs, 40).double()
    assert torch.allclose(multiplied(x, weight), F.linear(x, weight), rtol=0, atol=1e-12)


def test_layers_come_to_lie_input_major_and_stay_what_they_are() -> None:
    """Kills: a layout that is not changed, a weight transposed for good, a large matrix copied."""
    small, large = _linear(6, 10, bias=True), _linear(512, LARGE // 512 + 1, bias=False)
    module, x = nn.Sequential(small, nn.Tanh(), large), torch.randn(3, 6).double()
    wanted, kept = small(x), large.weight.data_ptr()
    lay_input_major(module)
    assert small.weight.t().is_contiguous()
    assert small.weight.shape == (10, 6)
    assert torch.allclose(small(x), wanted, rtol=0, atol=1e-13)
    assert large.weight.data_ptr() == kept

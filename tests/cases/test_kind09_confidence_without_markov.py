"""Kind 9: a confidence head without a Markov table. B26, the training half (folders and heads are tested elsewhere)."""

import pytest
import torch

from sparkit.drafters.config import DrafterConfig
from sparkit.targets.transformer import TransformerConfig
from sparkit.training.drafter import measure
from tests.parts import tiny_target
from tests.training import batch_of, trainee_of

SIZES = TransformerConfig(8, 4, 8, 1, 1)


def test_b26_rank_zero_with_confidence_trains():
    """Rank 0, confidence on, flag unset: input width d, three finite terms. Catches a head of width d + r."""
    target = tiny_target(dtype=torch.float32)
    trainee = trainee_of(target, "dflash", recipe="dspark")
    assert trainee.confidence is not None
    assert trainee.confidence.proj.in_features == target.hidden_size
    found = measure(trainee, target, batch_of(target, trainee))
    found.total.backward()
    assert all(torch.isfinite(term) and term > 0 for term in (found.ce, found.tv, found.confidence))
    assert trainee.confidence.proj.weight.grad is not None


@pytest.mark.parametrize("options", [{"rank": 0, "confidence_with_markov": True}, {"rank": -1}])
def test_b26_contradictions_are_refused_when_the_config_is_made(options: dict[str, object]):
    """Catches a flag that is only read at the first thresholded step."""
    with pytest.raises(ValueError, match="rank"):
        DrafterConfig("dflash", SIZES, (0,), 2, gamma=3, mask_token_id=0, **options)  # type: ignore[arg-type]


def test_b26_without_confidence_two_terms_remain():
    """Catches an attribute error on the missing head."""
    target = tiny_target(dtype=torch.float32)
    trainee = trainee_of(target, "dflash", recipe="dspark", confidence=False)
    found = measure(trainee, target, batch_of(target, trainee))
    assert found.confidence.item() == 0.0
    assert found.total.item() == pytest.approx((0.1 * found.ce + 0.9 * found.tv).item(), rel=1e-5)

"""The losses against numbers worked by hand."""

import math

import pytest
import torch

from sparkit.training.losses import (
    RECIPES,
    LossRecipe,
    accept_rate,
    block_loss,
    ce_loss,
    confidence_loss,
    l1_distance,
    position_weights,
    soft_ce_loss,
    step_weights,
    tv_loss,
)

ONES = torch.ones(1, 1)


def test_position_weights_decay_from_one():
    """Catches k instead of k - 1 in the exponent."""
    assert position_weights(3, 4.0).tolist() == pytest.approx([1.0, math.exp(-0.25), math.exp(-0.5)])
    assert step_weights(3, 0.8).tolist() == pytest.approx([1.0, 0.8, 0.64])


def test_position_weights_refuse_nonsense():
    """Catches a missing check of the decay."""
    with pytest.raises(ValueError, match=r"decay_length=0\.0"):
        position_weights(3, 0.0)


def test_total_variation_is_not_halved():
    """Catches the factor 1/2 that the accept rate has and eq. 10 has not."""
    p_draft, p_target = torch.tensor([[[0.5, 0.5]]]), torch.tensor([[[0.7, 0.3]]])
    assert l1_distance(p_draft, p_target).item() == pytest.approx(0.4)
    assert tv_loss(p_draft, p_target, ONES).item() == pytest.approx(0.4)
    assert accept_rate(p_draft, p_target).item() == pytest.approx(0.8)


def test_cross_entropies_agree_on_one_hot_targets():
    """Catches swapped arguments: a soft target that is one-hot is the hard one."""
    logits, labels = torch.tensor([[[0.0, math.log(3.0)]]]), torch.tensor([[1]])
    assert ce_loss(logits, labels, ONES).item() == pytest.approx(-math.log(0.75))
    assert soft_ce_loss(logits, torch.tensor([[[0.0, 1.0]]]), ONES).item() == pytest.approx(-math.log(0.75))


def test_confidence_loss_is_smallest_at_its_label():
    """Catches a hard label: with the soft label 0.8 the best logit is log(0.8 / 0.2)."""
    logit = torch.tensor([[math.log(4.0)]], requires_grad=True)
    confidence_loss(logit, torch.tensor([[0.8]]), ONES).backward()
    assert logit.grad is not None
    assert logit.grad.abs().item() < 1e-6


def test_confidence_label_sends_no_gradient_to_the_draft():
    """Catches a label that was not detached: the head would train the backbone to be predictable."""
    logits = torch.randn(2, 3, 5, requires_grad=True)
    confidence = torch.zeros(2, 3, requires_grad=True)
    recipe = LossRecipe(0.0, 0.0, 1.0, decay_length=4.0)
    target, labels, valid = (
        torch.randn(2, 3, 5),
        torch.zeros(2, 3, dtype=torch.int64),
        torch.ones(2, 3, dtype=torch.bool),
    )
    block_loss(recipe, logits, target, labels, valid, confidence).total.backward()
    assert logits.grad is None or logits.grad.abs().max() == 0


def test_dspark_recipe_mixes_one_tenth_nine_tenths_and_one():
    """Catches swapped alphas."""
    generator = torch.Generator().manual_seed(0)
    logits, target = torch.randn(4, 7, 9, generator=generator), torch.randn(4, 7, 9, generator=generator)
    labels = torch.randint(9, (4, 7), generator=generator)
    valid = torch.ones(4, 7, dtype=torch.bool)
    loss = block_loss(RECIPES["dspark"], logits, target, labels, valid, torch.zeros(4, 7))
    assert loss.total.item() == pytest.approx((0.1 * loss.ce + 0.9 * loss.tv + loss.confidence).item(), rel=1e-5)
    assert loss.weight.item() == pytest.approx(4 * position_weights(7, 4.0).sum().item(), rel=1e-5)


def test_without_confidence_two_terms_remain():
    """B26's last line: confidence off, no attribute error, the loss has two terms."""
    valid = torch.ones(1, 2, dtype=torch.bool)
    labels = torch.zeros(1, 2, dtype=torch.int64)
    loss = block_loss(RECIPES["dspark"], torch.zeros(1, 2, 3), torch.randn(1, 2, 3), labels, valid, None)
    assert loss.confidence.item() == 0.0
    assert loss.total.item() == pytest.approx((0.1 * loss.ce + 0.9 * loss.tv).item(), rel=1e-5)

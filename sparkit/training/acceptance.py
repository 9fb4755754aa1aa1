"""How a trained drafter would be accepted, offline: c* by position and domain on the target's own held-out answers.

Teacher forcing walks along text that the target wrote, so the mean of the running products of c* estimates the prefix
acceptances, and tau is about 1 + their sum. Decoding measures tau itself; this is the quick look after training.

>>> Acceptance("math", 2, (0.9, 0.8), 1.9, 2.62).tau
2.62
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from sparkit.targets.model import TransformerTarget
from sparkit.training.drafter import Batch, Material, Trainee, target_logits
from sparkit.training.losses import accept_rate


@dataclass(frozen=True, slots=True)
class Acceptance:
    """One domain's numbers."""

    domain: str
    num_blocks: int
    accept: tuple[float, ...]  # mean c* at each position
    entropy: float  # of the target's laws at the labels, nats per token
    tau: float  # 1 + mean of sum of running products


@torch.inference_mode()
def acceptance(
    trainee: Trainee, target: TransformerTarget, material: Material, names: tuple[str, ...], num_documents: int = 48
) -> list[Acceptance]:
    """Numbers of every domain on its first documents of `material`."""
    was_training = trainee.training
    trainee.eval()
    found = [
        _domain(trainee, target, material, names[int(d)], int(d), num_documents)
        for d in material.responses.domains.unique()
    ]
    trainee.train(was_training)
    return found


def _domain(
    trainee: Trainee, target: TransformerTarget, material: Material, name: str, domain: int, num_documents: int
) -> Acceptance:
    chosen = (material.responses.domains == domain).nonzero()[:num_documents, 0].tolist()
    generator = torch.Generator().manual_seed(material.seed)
    reads = trainee.drafter.config.feature_layers
    rates, valids, entropies = [], [], []
    for first in range(0, len(chosen), 8):
        batch = material.assemble(chosen[first : first + 8], reads, generator)
        if batch is not None:
            rate, entropy = _rates(trainee, target, batch)
            rates.append(rate)
            valids.append(batch.blocks.valid)
            entropies.append(entropy[batch.blocks.valid])
    return _summary(name, torch.cat(rates), torch.cat(valids), torch.cat(entropies))


def _rates(
    trainee: Trainee, target: TransformerTarget, batch: Batch
) -> tuple[Float[Tensor, "A gamma"], Float[Tensor, "A gamma"]]:
    logits, _ = trainee(batch)
    logp = target_logits(target, batch).log_softmax(dim=-1)
    return accept_rate(logits.softmax(dim=-1), logp.exp()), -(logp.exp() * logp).sum(dim=-1)


def _summary(
    name: str, rates: Float[Tensor, "A gamma"], valid: Bool[Tensor, "A gamma"], entropy: Float[Tensor, " n"]
) -> Acceptance:
    whole = valid.all(dim=1)  # blocks cut by the document's end would shorten the products
    means = (rates * valid).sum(0) / valid.sum(0).clamp(min=1)
    tau = 1 + rates[whole].cumprod(dim=1).sum(dim=1).mean()
    return Acceptance(name, len(rates), tuple(means.tolist()), float(entropy.mean()), float(tau))

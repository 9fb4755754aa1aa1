"""What a target learnt, by domain: held-out loss on the corpus and the entropy of its own next-token laws.

>>> Quality("math", 10, 1.0, 0.5).loss
1.0
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sparkit.targets.transformer import Transformer
from sparkit.training.packing import causal_mix, pack_documents
from sparkit.training.target import Documents


@dataclass(frozen=True, slots=True)
class Quality:
    """One domain's numbers, in nats per token."""

    domain: str
    num_tokens: int
    loss: float  # -log p of the held-out text
    entropy: float  # of the target's law at those positions


@torch.inference_mode()
def measure(model: Transformer, documents: Documents, tokens_per_domain: int = 20_000) -> list[Quality]:
    """Held-out loss and entropy of every domain, on its first documents."""
    return [_domain(model, name, _first(pool, tokens_per_domain)) for name, pool in documents.items()]


def _first(pool: Sequence[Int[Tensor, " _"]], num_tokens: int) -> list[Tensor]:
    chosen, total = [], 0
    for document in pool:
        chosen.append(document)
        total += len(document)
        if total >= num_tokens:
            break
    return chosen


def _domain(model: Transformer, name: str, documents: list[Tensor]) -> Quality:
    sums = torch.zeros(3, dtype=torch.float64)
    for i in range(0, len(documents), 16):
        loss, entropy = _losses(model, documents[i : i + 16])
        sums += torch.tensor([len(loss), loss.sum(), entropy.sum()], dtype=torch.float64)
    count, loss_sum, entropy_sum = sums.tolist()
    return Quality(name, int(count), loss_sum / count, entropy_sum / count)


def _losses(model: Transformer, documents: list[Tensor]) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
    pack = pack_documents(documents)
    hidden, _ = model.hidden(pack.tokens, pack.positions, causal_mix(pack))
    has_next = torch.ones_like(pack.tokens, dtype=torch.bool)
    has_next[pack.starts + pack.lengths - 1] = False
    rows = has_next.nonzero()[:, 0]
    logp = model.logits(hidden[rows]).log_softmax(dim=-1)
    loss = -logp.gather(1, pack.tokens[rows + 1][:, None])[:, 0]
    return loss, -(logp.exp() * logp).sum(dim=1)

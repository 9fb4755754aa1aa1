"""Pre-training of the bundled target: next-token cross-entropy on whole documents of three domains.

The batch of a step is a function of (seed, step): a third of its tokens from each domain, each document alone from
position 0, as decoding will see it.

Not done here: the corpus (`sparkit.training.corpus`), the loop (`sparkit.training.loop`).

>>> BUNDLED.num_layers
12
"""

import math
from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from sparkit.targets.transformer import Transformer, TransformerConfig
from sparkit.training.loop import Objective, StepLoss
from sparkit.training.packing import Pack, causal_mix, pack_documents

BUNDLED = TransformerConfig(
    vocab_size=1024,
    hidden_size=160,
    intermediate_size=448,
    num_layers=12,
    num_heads=5,
    num_kv_heads=1,
    head_dim=32,
    max_positions=512,
    eos_ids=(3,),
)
"""Deep and thin, so that a verification costs much more than a one- or two-layer draft."""

Documents = Mapping[str, Sequence[Int[Tensor, " _"]]]
"""domain -> token sequences."""


def initialise(model: Transformer, generator: torch.Generator, std: float = 0.02) -> None:
    """Small normal weights; what writes into the residual stream is smaller by sqrt(2 * layers)."""
    scale = 1.0 / math.sqrt(2 * model.config.num_layers)
    for name, p in model.named_parameters():
        if p.ndim < 2:
            continue
        is_residual = name.endswith(("attention.out.weight", "mlp.down.weight"))
        nn.init.normal_(p, std=std * (scale if is_residual else 1.0), generator=generator)


def choose(
    documents: Documents, tokens_per_step: int, seed: int, step: int, shares: Mapping[str, float] | None = None
) -> list[Int[Tensor, " _"]]:
    """Random documents by (seed, step) alone; each domain gets its share of the tokens (None: equal shares)."""
    generator = torch.Generator().manual_seed((seed << 32) + step)
    shares = dict.fromkeys(documents, 1 / len(documents)) if shares is None else shares
    chosen: list[Tensor] = []
    for domain, pool in documents.items():
        budget = tokens_per_step * shares[domain]
        while budget > 0:
            document = pool[int(torch.randint(len(pool), (), generator=generator))]
            chosen.append(document)
            budget -= len(document)
    return chosen


def token_losses(model: Transformer, pack: Pack) -> Float[Tensor, " n"]:
    """-log p(next token) at every position but each document's last."""
    hidden, _ = model.hidden(pack.tokens, pack.positions, causal_mix(pack))
    has_next = torch.ones_like(pack.tokens, dtype=torch.bool)
    has_next[pack.starts + pack.lengths - 1] = False
    rows = has_next.nonzero()[:, 0]
    return F.cross_entropy(model.logits(hidden[rows]), pack.tokens[rows + 1], reduction="none")


def objective(
    model: Transformer,
    documents: Documents,
    tokens_per_step: int,
    seed: int,
    shares: Mapping[str, float] | None = None,
) -> Objective:
    """The loss of a step."""

    def loss(step: int) -> StepLoss:
        losses = token_losses(model, pack_documents(choose(documents, tokens_per_step, seed, step, shares)))
        return StepLoss(losses.sum(), losses.new_tensor(float(len(losses))))

    return loss

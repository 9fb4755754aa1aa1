"""Tiny drafters in training: a batch of two documents with the features that the target really has."""

import torch
from torch import Tensor

import sparkit.drafters  # noqa: F401 - registers the parts
from sparkit.confidences.head import ConfidenceHead
from sparkit.protocols import DRAFTERS
from sparkit.targets.model import TransformerTarget
from sparkit.training.anchors import document_of, lay_blocks
from sparkit.training.drafter import Batch, Trainee
from sparkit.training.losses import RECIPES
from tests.parts import features_of, random_tokens

GAMMA = 4
OPTIONS: dict[str, dict[str, object]] = {
    "dflash": {},
    "dspark-markov": {"head": "markov", "rank": 4},
    "dspark-gated": {"head": "gated", "rank": 4},
    "dspark-rnn": {"head": "rnn", "rank": 4},
    "eagle3": {},
    "mtp": {},
}


def trainee_of(
    target: TransformerTarget, name: str, *, recipe: str | None = None, confidence: bool = True, gamma: int = GAMMA
) -> Trainee:
    """An untrained drafter of a kind, with its recipe."""
    part = name.partition("-")[0]
    drafter = DRAFTERS.create(part, target=target, gamma=gamma, **OPTIONS[name])
    head = ConfidenceHead(target.hidden_size, drafter.config.confidence_rank).to(target.dtype) if confidence else None
    return Trainee(drafter, head, RECIPES[recipe or part])


def batch_of(
    target: TransformerTarget,
    trainee: Trainee,
    lengths: tuple[int, ...] = (12, 9),
    anchors: tuple[int, ...] = (2, 4, 14, 17),
    supervised: Tensor | None = None,
) -> Batch:
    """Seeded documents; every token but each document's first two is supervised unless told otherwise."""
    documents = [random_tokens(length, seed=i, vocab_size=target.vocab_size) for i, length in enumerate(lengths)]
    reads = trainee.drafter.config.feature_layers
    taps = target.with_taps((*reads, target.num_layers - 1))
    features = torch.cat([features_of(taps, document) for document in documents])
    width = len(reads) * target.hidden_size
    positions = torch.cat([torch.arange(length) for length in lengths])
    mask = positions >= 2 if supervised is None else supervised
    gamma = trainee.drafter.config.gamma
    blocks = lay_blocks(torch.tensor(anchors), mask, positions, document_of(lengths), gamma)
    return Batch(torch.cat(documents), lengths, features[:, :width], features[:, width:], blocks)

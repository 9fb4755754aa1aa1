"""Training of a drafter on the target's own answers: anchor blocks, teacher forcing, the recipe's three losses.

    anchors of a step -> forward_blocks (context strictly before each anchor) -> p_d at known previous tokens
    p_t at the same labels = the frozen target's LM head on its kept last hidden states, at sampled positions only

The confidence head of dspark trains together with its backbone [DSpark eq. 12]; drafters that were released without
one get a head that reads detached inputs, so that it cannot disturb them.

Not done here: the numbers of the recipes (`sparkit.training.losses`), evaluation (`sparkit.training.acceptance`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from sparkit.confidences.head import ConfidenceHead
from sparkit.targets.model import TransformerTarget
from sparkit.training.anchors import Blocks, anchor_places, document_of, lay_blocks, sample_anchors
from sparkit.training.loop import Objective, StepLoss
from sparkit.training.losses import BlockLoss, LossRecipe, block_loss
from sparkit.training.responses import Features, Responses


@dataclass(frozen=True, slots=True)
class Batch:
    """Documents in one flat row, with the blocks of a step."""

    tokens: Int[Tensor, " L"]
    lengths: tuple[int, ...]
    features: Float[Tensor, "L taps_d"]  # the taps the drafter reads
    last: Float[Tensor, "L d"]  # the target's last layer, before its final norm
    blocks: Blocks


class Trainee(nn.Module):
    """What is trained: the drafter's net and its confidence head; the target's embedding and LM head stay outside."""

    def __init__(self, drafter: Any, confidence: ConfidenceHead | None, recipe: LossRecipe) -> None:
        super().__init__()
        self.net, self.confidence = drafter.net, confidence
        self._drafter, self.recipe = (drafter,), recipe  # in a tuple, so that it is not taken for a submodule

    @property
    def drafter(self) -> Any:
        """The drafter in its decoding form; it shares the net."""
        return self._drafter[0]

    def forward(self, batch: Batch) -> tuple[Float[Tensor, "A gamma V"], Float[Tensor, "A gamma"] | None]:
        """Draft logits and confidence logits of the batch's blocks."""
        drafter, blocks = self.drafter, batch.blocks
        hidden, previous = drafter.forward_blocks(batch.features, batch.tokens, batch.lengths, blocks.anchors)
        logits = drafter.block_logits(hidden, previous)
        if self.confidence is None:
            return logits, None
        embedded = drafter.previous_embedding(previous)
        if self.recipe.detach_confidence:
            hidden = hidden.detach()
            embedded = None if embedded is None else embedded.detach()
        return logits, self.confidence(hidden, embedded)


def target_logits(target: TransformerTarget, batch: Batch) -> Float[Tensor, "A gamma V"]:
    """The frozen target's logits of every label: of the row before it."""
    rows = batch.blocks.labels - 1
    with torch.no_grad():
        logits: Tensor = target.model.logits(batch.last[rows.flatten()]).unflatten(0, rows.shape)
    return logits


def measure(trainee: Trainee, target: TransformerTarget, batch: Batch) -> BlockLoss:
    """The recipe's loss of a batch."""
    logits, confidence = trainee(batch)
    labels = batch.tokens[batch.blocks.labels]
    return block_loss(trainee.recipe, logits, target_logits(target, batch), labels, batch.blocks.valid, confidence)


@dataclass(frozen=True, slots=True)
class Material:
    """Responses with their features, and how a step draws from them."""

    responses: Responses
    features: Features
    taps: tuple[int, ...]  # the stored layers, the last one last
    tokens_per_step: int
    num_anchors: int
    gamma: int
    seed: int

    def batch(self, step: int, reads: Sequence[int]) -> Batch | None:
        """The batch of a step, by (seed, step) alone; None when no document has room for an anchor.

        Args:
            step: number of the step.
            reads: the target layers that the drafter reads.
        """
        generator = torch.Generator().manual_seed((self.seed << 32) + step)
        chosen = self._choose(generator)
        return self.assemble(chosen, reads, generator)

    def _choose(self, generator: torch.Generator) -> list[int]:
        """As many tokens from each domain."""
        chosen: list[int] = []
        domains = self.responses.domains.unique()
        for domain in domains:
            pool = (self.responses.domains == domain).nonzero()[:, 0]
            budget = self.tokens_per_step / len(domains)
            while budget > 0:
                index = int(pool[torch.randint(len(pool), (), generator=generator)])
                chosen.append(index)
                budget -= int(self.responses.lengths[index])
        return chosen

    def assemble(self, chosen: Sequence[int], reads: Sequence[int], generator: torch.Generator) -> Batch | None:
        """The given documents in one row, with anchors shared equally among their domains."""
        responses = self.responses
        rows = [responses.document(index) for index in chosen]
        lengths = tuple(row.stop - row.start for row in rows)
        supervised = torch.cat([responses.supervised(index) for index in chosen])
        anchors = self._anchors(chosen, lengths, supervised, generator)
        if not len(anchors):
            return None
        positions = torch.cat([torch.arange(length) for length in lengths])
        blocks = lay_blocks(anchors, supervised, positions, document_of(lengths), self.gamma)
        features = torch.cat([self.features[row] for row in rows]).unflatten(1, (len(self.taps), -1))
        read = features[:, [self.taps.index(tap) for tap in reads]].flatten(1)
        return Batch(torch.cat([responses.tokens[row] for row in rows]), lengths, read, features[:, -1], blocks)

    def _anchors(
        self,
        chosen: Sequence[int],
        lengths: tuple[int, ...],
        supervised: Bool[Tensor, " L"],
        generator: torch.Generator,
    ) -> Int[Tensor, " A"]:
        document = document_of(lengths)
        places = anchor_places(supervised, document)
        domains = self.responses.domains[torch.tensor(chosen)]
        of_place = domains[document[places]]
        share = -(-self.num_anchors // len(domains.unique()))
        parts = [sample_anchors(places[of_place == d], share, generator) for d in domains.unique()]
        return torch.cat(parts).sort().values


def objective(trainee: Trainee, target: TransformerTarget, material: Material) -> Objective:
    """The loss of a step; exactly 0 with weight 0 when there is nothing to train on."""
    reads = trainee.drafter.config.feature_layers

    def loss(step: int) -> StepLoss:
        batch = material.batch(step, reads)
        if batch is None:
            return StepLoss(torch.zeros(()), torch.zeros(()))
        found = measure(trainee, target, batch)
        return StepLoss(found.total, found.weight, numbers(found))

    return loss


def numbers(found: BlockLoss) -> Mapping[str, float]:
    """What the log shows: the three losses per weight, and the accept rate by position (None where nothing counted)."""
    weight = max(float(found.weight), 1e-12)
    shown = {name: float(getattr(found, name)) / weight for name in ("ce", "tv", "confidence")}
    rates = found.accept_sum / found.accept_count.clamp(min=1)
    return shown | {f"accept_{k + 1}": float(rate) for k, rate in enumerate(rates)}

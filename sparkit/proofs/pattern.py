"""A confidence head turned so that the real classes show the confidences that a search on tables found.

A bias needs a pattern: a c_2 that differs with x_1, and a curve on which only one of the two values pays. Random
weights may miss it. So the seeded head's answer is bent, by the smallest change of its weights, until its confidences
in the first block are those of the world found (or of the paper's Appendix A when none was lossy), and the real classes
run on that world's curve. A head that cannot see x_1 (parallel, without a serial table) cannot show such a pattern; it
keeps its random weights.

>>> pattern_of(None, gamma=2).rates
(1.0, 0.5, 0.45)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from sparkit.confidences.head import ConfidenceHead
from sparkit.proofs.examples import Example, paper
from sparkit.proofs.twins import Row
from sparkit.rounds import Draft

REACHED = 1e-9
"""How near a bent head's logits must come to the pattern's."""
EDGE = 8.0
"""Logit that stands for a confidence of exactly 0 or 1, which no sigmoid reaches."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """What a scheduler was shown in a toy world of one request over two tokens."""

    confidence: tuple[Row, ...]  # [k][previous token]
    rates: tuple[float, ...]  # rounds per second at 1, 2, ... batch tokens

    def logit(self, k: int, previous: int) -> float:
        """Of c_{k + 1} after a token."""
        return float(torch.logit(torch.tensor(float(self.confidence[k][previous]))).clamp(-EDGE, EDGE))


def pattern_of(found: Example | None, gamma: int) -> Pattern:
    """The pattern of a world with one request, two tokens and at least gamma positions; else the paper's."""
    fits = found is not None and (found.tables.vocab_size, found.requests) == (2, 1) and found.gamma >= gamma
    example = found if fits and found is not None else paper()
    return Pattern(example.tables.confidence, example.rates)


def bend(head: ConfidenceHead, drafts: Sequence[tuple[Draft, Sequence[int]]], pattern: Pattern) -> bool:
    """Turns a head, in place, to the pattern in the given blocks; False (and unchanged) when it cannot.

    Args:
        head: float64, with weights.
        drafts: blocks with their anchors' tokens.
        pattern: wanted; positions beyond its last are not asked of the head.
    """
    inputs, wanted = _equations(head, drafts, pattern)
    missing = wanted - inputs @ _weights(head)
    change = torch.linalg.lstsq(inputs, missing, rcond=1e-10, driver="gelsd").solution
    if float((missing - inputs @ change).abs().max()) > REACHED:
        return False
    with torch.no_grad():
        head.proj.weight.add_(change[:-1, 0])
        head.proj.bias.add_(change[-1])
    return True


def _weights(head: ConfidenceHead) -> Float[Tensor, "n 1"]:
    return torch.cat((head.proj.weight[0], head.proj.bias))[:, None]


def _equations(
    head: ConfidenceHead, drafts: Sequence[tuple[Draft, Sequence[int]]], pattern: Pattern
) -> tuple[Float[Tensor, "m n"], Float[Tensor, "m 1"]]:
    rows, wanted = [], []
    for draft, anchors in drafts:
        assert draft.hidden is not None
        states = draft.hidden if not head.rank else torch.cat((draft.hidden, _embedding(draft)), dim=-1)
        for row, anchor in enumerate(anchors):
            tokens = [anchor, *draft.tokens[row].tolist()]
            for k in range(min(draft.tokens.shape[1], len(pattern.confidence))):
                rows.append(torch.cat((states[row, k], states.new_ones(1))))
                wanted.append(pattern.logit(k, tokens[k]))
    return torch.stack(rows), torch.tensor(wanted, dtype=torch.float64)[:, None]


def _embedding(draft: Draft) -> Tensor:
    assert draft.previous_embedding is not None
    return draft.previous_embedding

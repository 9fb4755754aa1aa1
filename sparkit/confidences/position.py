"""Tracked rates by position: how often draft k was accepted, given that its prefix was, in the rounds so far.

It needs nothing of a drafter, so every drafter runs under every scheduler. Only rounds already verified count, by the
labels that the cut cannot bias (`sparkit.labels`). Until a position has been seen the prior speaks.

    Position(prior=0.7).logits(draft, memory)
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from sparkit.labels import conditional_labels
from sparkit.protocols import CONFIDENCES
from sparkit.rounds import Draft, Rounds


@dataclass(frozen=True, slots=True)
class Counts:
    """What was seen at each position; a value: observing makes a new one."""

    accepted: Float[Tensor, " gamma"] | None = None  # None: nothing yet
    judged: Float[Tensor, " gamma"] | None = None


@CONFIDENCES.register("position", summary="tracked acceptance rates by position; works with every drafter")
class Position:
    """See `sparkit.protocols.Confidence`.

    Args:
        prior: the rate assumed before anything was seen, strictly between 0 and 1.
        strength: how many observations the prior is worth.
        memory: rounds after which an observation counts 1/e (exponential forgetting); 0 never forgets.
    """

    lossless = True
    batch_independent = False

    def __init__(self, prior: float = 0.7, strength: float = 4.0, memory: float = 0.0) -> None:
        if not 0 < prior < 1 or strength <= 0 or memory < 0:
            raise ValueError(
                f"position prior={prior}, strength={strength}, memory={memory}: expected 0 < prior < 1, strength > 0 "
                "and memory >= 0"
            )
        self.prior, self.strength = prior, strength
        self._kept = 1.0 if memory == 0 else float(torch.tensor(-1.0 / memory, dtype=torch.float64).exp())

    def start(self) -> Counts:
        """Nothing seen."""
        return Counts()

    def logits(self, draft: Draft, memory: Counts) -> Float[Tensor, "R gamma"]:
        """The logit of (accepted + strength prior) / (judged + strength), the same for every request."""
        num, gamma = draft.tokens.shape
        rate = draft.p_draft.new_full((gamma,), self.prior)
        if memory.accepted is not None and memory.judged is not None:
            accepted, judged = (_cut(x, gamma).to(rate) for x in (memory.accepted, memory.judged))
            rate = (accepted + self.strength * self.prior) / (judged + self.strength)
        return torch.logit(rate).expand(num, gamma)

    def observe(self, memory: Counts, rounds: Rounds) -> Counts:
        """Adds a step's labels."""
        label, is_known = conditional_labels(rounds)
        accepted, judged = (label.double() * is_known).sum(0), is_known.double().sum(0)
        if memory.accepted is None or memory.judged is None:
            return Counts(accepted, judged)
        size = max(len(accepted), len(memory.judged))
        old = (self._kept * _cut(x, size) for x in (memory.accepted, memory.judged))
        return Counts(*(a + _cut(b, size) for a, b in zip(old, (accepted, judged), strict=True)))


def _cut(counts: Float[Tensor, " positions"], gamma: int) -> Float[Tensor, " gamma"]:
    """Counts of the first gamma positions; positions never drafted have none."""
    return torch.nn.functional.pad(counts[:gamma], (0, max(gamma - len(counts), 0)))

"""Confidences written down as tables, one a position: c_k by the suffix of the drafted prefix x_1 .. x_{k-1}.

Exactly 0 and exactly 1 are allowed (logits -inf and +inf). They come with a table target, as in appendix A.

    confidence = CONFIDENCES.create("table", target=load_table("appendix-a"))
"""

import torch
from jaxtyping import Float
from torch import Tensor

from sparkit.protocols import CONFIDENCES, Target
from sparkit.rounds import Draft, Rounds
from sparkit.targets.table import Lookup, TableTarget
from sparkit.targets.tables import Tables


class TableConfidence:
    """See `sparkit.protocols.Confidence`."""

    lossless = True
    batch_independent = True

    def __init__(self, tables: Tables) -> None:
        self._chances = [
            Lookup(table, torch.logit(torch.tensor(list(table.values()), dtype=torch.float64)))
            for table in tables.confidence
        ]

    def start(self) -> None:
        """No memory."""

    def logits(self, draft: Draft, memory: None) -> Float[Tensor, "R gamma"]:
        """See `Confidence`."""
        texts, gamma = draft.tokens.tolist(), draft.tokens.shape[1]
        if gamma > len(self._chances):
            raise ValueError(f"gamma={gamma}: the confidence tables have {len(self._chances)} positions")
        columns = [self._chances[k].rows([text[:k] for text in texts]) for k in range(gamma)]
        return torch.stack(columns, dim=1).to(draft.tokens.device)

    def observe(self, memory: None, rounds: Rounds) -> None:
        """No memory."""


@CONFIDENCES.register("table", summary="explicit confidences of a table target")
def table(target: Target) -> TableConfidence:
    """The confidence tables that came with a table target."""
    if not isinstance(target, TableTarget):
        raise ValueError(f"confidence 'table' needs a table target, not {type(target).__name__}; try 'position'")
    return TableConfidence(target.tables)

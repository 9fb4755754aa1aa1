"""A drafter written down as tables, one a position: p_draft^k by the suffix of context and drafted prefix.

It belongs to a table target (`sparkit.targets.table`) and is exact in float64, so a proof can enumerate it.

    drafter = DRAFTERS.create("table", target=load_table("appendix-a"))
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sparkit.decisions import Decisions, Purpose
from sparkit.protocols import DRAFTERS, Anchors, Kind, Span, Target
from sparkit.rounds import Draft
from sparkit.targets.table import TableTarget, logits_of
from sparkit.targets.tables import Tables


class TableDrafter:
    """See `sparkit.protocols.Drafter`; it keeps nothing: the anchors bring their contexts."""

    lossless = True
    kind: Kind = "autoregressive"
    feature_layers: tuple[int, ...] = ()

    def __init__(self, tables: Tables, gamma: int | None = None) -> None:
        self.gamma = len(tables.draft) if gamma is None else gamma
        if not 1 <= self.gamma <= len(tables.draft):
            raise ValueError(f"gamma={gamma}: the tables draft 1..{len(tables.draft)} tokens")
        self._laws = [logits_of(table) for table in tables.draft]

    def prepare(self, num_slots: int, max_len: int) -> None:
        """Nothing to allocate."""

    def absorb(self, features: Float[Tensor, "B taps_d"], tokens: Int[Tensor, " B"], spans: Sequence[Span]) -> None:
        """Nothing to take in."""

    def propose(self, anchors: Anchors, decisions: Decisions) -> Draft:
        """See `Drafter`."""
        texts = [list(context[-self._reach :]) for context in anchors.contexts]
        drawn: list[Tensor] = []
        laws: list[Tensor] = []
        for k in range(anchors.spans[0].count):
            laws.append(anchors.law(self._laws[k].rows(texts), drawn))
            drawn.append(decisions.draw(laws[-1], Purpose.DRAFT, k + 1))
            for text, token in zip(texts, drawn[-1].tolist(), strict=True):
                text.append(token)
        return Draft(torch.stack(drawn, dim=1), torch.stack(laws, dim=1))

    @property
    def _reach(self) -> int:
        """Committed tokens that any table may look at."""
        return max(1, *(law.longest for law in self._laws))

    def forget(self, slot: int) -> None:
        """Nothing is kept."""

    def save(self) -> None:
        """Nothing is kept."""

    def load(self, state: None) -> None:
        """Nothing is kept."""


@DRAFTERS.register("table", summary="explicit draft tables of a table target")
def table(target: Target, gamma: int | None = None) -> TableDrafter:
    """The draft tables that came with a table target."""
    if not isinstance(target, TableTarget):
        raise ValueError(
            f"drafter 'table' needs a table target, not {type(target).__name__}: --target table:appendix-a"
        )
    return TableDrafter(target.tables, gamma)

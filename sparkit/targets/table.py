"""A toy language model written down as tables: every law explicit, exact in float64, small enough to enumerate.

    p_target(. | context) = the law of the longest suffix of the context that the table names ("" names every context)

The numbers are `sparkit.targets.tables`; its tables also hold what the drafter and the confidence `table` say.

>>> load_table("appendix-a").tables.vocab
('A', 'B')
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sparkit.protocols import TARGETS, Span, TargetOutput
from sparkit.targets.model import require_continuing, require_taps
from sparkit.targets.tables import Key, Law, Tables, appendix_a, read_tables

__all__ = ["APPENDIX_A", "Lookup", "TableCache", "TableTarget", "Tables", "appendix_a", "load_table", "logits_of"]

APPENDIX_A = "appendix-a"
MAX_POSITIONS = 4096


class Lookup:
    """Rows of a table by the longest suffix that it names."""

    def __init__(self, table: Mapping[Key, Any], values: Tensor) -> None:
        self._row = {key: row for row, key in enumerate(table)}
        self.values, self.longest = values, max(map(len, table))

    def rows(self, contexts: Sequence[Sequence[int]]) -> Tensor:
        """One row a context; LookupError when a table names no suffix of a context."""
        return self.values[torch.tensor([self._find(tuple(context)) for context in contexts], dtype=torch.int64)]

    def _find(self, context: Key) -> int:
        for size in range(min(self.longest, len(context)), -1, -1):
            row = self._row.get(context[len(context) - size :])
            if row is not None:
                return row
        raise LookupError(f'no entry for the context ...{list(context[-8:])}; give the table an entry for ""')


def logits_of(table: Mapping[Key, Law]) -> Lookup:
    """Laws as logits: the softmax of log p is p."""
    return Lookup(table, torch.tensor(list(table.values()), dtype=torch.float64).log())


@dataclass(slots=True)
class TableCache:
    """The tokens of every slot."""

    tokens: list[list[int]]
    max_len: int

    @property
    def lengths(self) -> list[int]:
        """Tokens in each slot."""
        return [len(slot) for slot in self.tokens]

    def truncate(self, slot: int, length: int) -> None:
        """Keeps the first `length` tokens of a slot."""
        if not 0 <= length <= len(self.tokens[slot]):
            raise ValueError(f"truncate(slot={slot}, length={length}): the slot holds {len(self.tokens[slot])} tokens")
        del self.tokens[slot][length:]

    def clone(self) -> "TableCache":
        """An independent copy."""
        return TableCache([list(slot) for slot in self.tokens], self.max_len)


class TableTarget:
    """See `sparkit.protocols.Target`; its one feature is the token id, and hidden states are ids too."""

    def __init__(self, tables: Tables, *, taps: Sequence[int] = ()) -> None:
        require_taps(taps, 1, "table")
        self.tables, self._laws = tables, logits_of(tables.target)
        self.vocab_size, self.hidden_size, self.num_layers = len(tables.vocab), 1, 1
        self.max_positions, self.feature_layers = MAX_POSITIONS, tuple(taps)
        self.eos_ids: tuple[int, ...] = ()
        self.device, self.dtype = torch.device("cpu"), torch.float64

    def with_taps(self, taps: Sequence[int]) -> "TableTarget":
        """The same tables with other features."""
        return TableTarget(self.tables, taps=taps)

    def embed(self, tokens: Int[Tensor, "*N"]) -> Float[Tensor, "*N d"]:
        """The id as a number."""
        return tokens[..., None].to(self.dtype)

    def lm_head(self, hidden: Float[Tensor, "*N d"]) -> Float[Tensor, "*N V"]:
        """Refused: laws depend on contexts, not on a hidden state.

        Raises:
            ValueError: always.
        """
        raise ValueError("a table target has no LM head to share; draft it with the drafters table, ngram or small_lm")

    def new_cache(self, num_slots: int, max_len: int) -> TableCache:
        """Empty slots."""
        return TableCache([[] for _ in range(num_slots)], max_len)

    def forward(
        self,
        tokens: Int[Tensor, " B"],
        spans: Sequence[Span],
        cache: TableCache,
        rows: Int[Tensor, " N"] | None = None,
    ) -> TargetOutput:
        """See `Target`."""
        require_continuing(spans, cache.lengths, cache.max_len)
        ids, contexts, first = tokens.tolist(), list[Key](), 0
        for span in spans:
            slot = cache.tokens[span.slot]
            for token in ids[first : first + span.count]:
                slot.append(token)
                contexts.append(tuple(slot[-self._laws.longest :] if self._laws.longest else ()))
            first += span.count
        asked = contexts if rows is None else [contexts[row] for row in rows.tolist()]
        features = self.embed(tokens).repeat(1, len(self.feature_layers))
        return TargetOutput(self._laws.rows(asked), features)


@TARGETS.register("table", summary="an explicit toy model: appendix-a, or the path of a JSON file of tables")
def load_table(source: str = APPENDIX_A, *, taps: Sequence[int] = ()) -> TableTarget:
    """The paper's example, or tables from a file; `.tables` brings drafter, confidence and capacity."""
    if source == APPENDIX_A:
        return TableTarget(appendix_a(), taps=taps)
    path = Path(source).expanduser()
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; expected '{APPENDIX_A}' or a JSON file of tables")
    return TableTarget(read_tables(path), taps=taps)

"""A toy language model written down as tables: every law explicit, exact in float64, small enough to enumerate.

    p_target(. | context) = the law of the longest suffix of the context that the table names ("" names every context)

`Tables` also carries draft laws and confidences, so that one JSON file (or `appendix-a`, the paper's example) brings a
whole composition: the drafter `table` looks its laws up by the context with the drafted prefix, the confidence `table`
by the drafted prefix alone. Method section 8 is built in.

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

from sparkit.capacity import Capacity, from_rates
from sparkit.files import read_json
from sparkit.protocols import TARGETS, Span, TargetOutput
from sparkit.targets.model import require_continuing, require_taps

SCHEMA = "sparkit.table/1"
APPENDIX_A = "appendix-a"
MAX_POSITIONS = 4096
Key = tuple[int, ...]
Law = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Tables:
    """One toy world; keys are token ids, oldest first."""

    vocab: tuple[str, ...]
    target: Mapping[Key, Law]  # context suffix -> law
    draft: tuple[Mapping[Key, Law], ...]  # position k: suffix of context and drafted prefix -> law
    confidence: tuple[Mapping[Key, float], ...]  # position k: suffix of the drafted prefix -> c_k
    rates: Mapping[int, float]  # rounds per second by batch_tokens

    @property
    def capacity(self) -> Capacity:
        """The curve of `rates`."""
        return from_rates(self.rates)


def appendix_a() -> Tables:
    """The paper's example, extended so that it runs for many tokens [DSpark appendix A; method section 8]."""
    half = (1 / 2, 1 / 2)
    a, b = (0,), (1,)
    draft: tuple[dict[Key, Law], ...] = ({(): half}, {a: (3 / 5, 2 / 5), b: half})
    confidence: tuple[dict[Key, float], ...] = ({(): 4 / 5}, {a: 9 / 10, b: 0.0})
    return Tables(("A", "B"), {(): (7 / 10, 3 / 10)}, draft, confidence, {1: 1.0, 2: 0.5, 3: 0.45})


class Lookup:
    """Rows of a table by the longest suffix that it names."""

    def __init__(self, table: Mapping[Key, Any], values: Tensor) -> None:
        self._row = {key: row for row, key in enumerate(table)}
        self.values, self.longest = values, max(map(len, table))

    def rows(self, contexts: Sequence[Sequence[int]]) -> Tensor:
        """One row a context; LookupError when a table names no suffix of a context."""
        return self.values[torch.tensor([self._find(tuple(context)) for context in contexts])]

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


def read_tables(path: Path) -> Tables:
    """A JSON file of tables.

    Fields: `vocab` (texts), `target` (object: context suffix -> law), `draft` and `confidence` (one such object a draft
    position), `capacity` (object: batch_tokens -> rounds per second). A suffix is written as texts with blanks between
    them, oldest first; "" stands for every context.

    Raises:
        ValueError: naming the field that is missing or contradictory.
    """
    document, where = read_json(path), str(path)
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise ValueError(f'{where}: expected an object with "schema": "{SCHEMA}"')
    vocab = document.get("vocab")
    if not isinstance(vocab, list) or not all(_is_word(v) for v in vocab) or len(set(vocab)) < max(len(vocab), 2):
        raise ValueError(f"{where}: vocab is {str(vocab)[:60]}; expected at least two different texts without blanks")
    ids = {text: number for number, text in enumerate(vocab)}
    draft, confidence = (_objects(document, name, where) for name in ("draft", "confidence"))
    if len(draft) != len(confidence) or not draft:
        raise ValueError(f"{where}: {len(draft)} draft tables and {len(confidence)} of confidences; expected as many")
    return Tables(
        tuple(vocab),
        _laws(document.get("target"), ids, f"{where}: target"),
        tuple(_laws(table, ids, f"{where}: draft[{k}]") for k, table in enumerate(draft)),
        tuple(_chances(table, ids, f"{where}: confidence[{k}]") for k, table in enumerate(confidence)),
        _rates(document.get("capacity", {"1": 1.0}), where),
    )


def _is_word(text: object) -> bool:
    return isinstance(text, str) and text != "" and not any(c.isspace() for c in text)


def _objects(document: Mapping[str, Any], name: str, where: str) -> list[Any]:
    value = document.get(name)
    if not isinstance(value, list):
        raise ValueError(f"{where}: {name} is {str(value)[:60]}; expected a list, one object a draft position")
    return value


def _laws(table: Any, ids: Mapping[str, int], where: str) -> dict[Key, Law]:
    out = {}
    for key, law in _keyed(table, ids, where).items():
        numbers = isinstance(law, list) and all(type(p) in (int, float) and p >= 0 for p in law)
        if not numbers or len(law) != len(ids) or abs(sum(law) - 1) > 1e-9:
            raise ValueError(f"{where}: {str(law)[:60]}; expected {len(ids)} probabilities that sum to 1")
        out[key] = tuple(float(p) for p in law)
    return out


def _chances(table: Any, ids: Mapping[str, int], where: str) -> dict[Key, float]:
    keyed = _keyed(table, ids, where)
    for value in keyed.values():
        if type(value) not in (int, float) or not 0 <= value <= 1:
            raise ValueError(f"{where}: {value!r}; expected a number in [0, 1]")
    return {key: float(value) for key, value in keyed.items()}


def _keyed(table: Any, ids: Mapping[str, int], where: str) -> dict[Key, Any]:
    if not isinstance(table, dict) or not table:
        raise ValueError(f"{where}: {str(table)[:60]}; expected an object of context suffixes")
    for text in table:
        if unknown := [word for word in text.split() if word not in ids]:
            raise ValueError(f"{where}: {unknown[0]!r} in {text!r} is not in the vocabulary {list(ids)}")
    return {tuple(ids[word] for word in text.split()): value for text, value in table.items()}


def _rates(table: Any, where: str) -> dict[int, float]:
    if not isinstance(table, dict) or not all(key.isdigit() and int(key) > 0 for key in table):
        raise ValueError(f"{where}: capacity is {str(table)[:60]}; expected an object of batch_tokens to rounds/second")
    for value in table.values():
        if type(value) not in (int, float) or not 0 < value < float("inf"):
            raise ValueError(f"{where}: capacity {value!r}; expected rounds per second above 0")
    return {int(key): float(value) for key, value in sorted(table.items(), key=lambda item: int(item[0]))}


@TARGETS.register("table", summary="an explicit toy model: appendix-a, or the path of a JSON file of tables")
def load_table(source: str = APPENDIX_A, *, taps: Sequence[int] = ()) -> TableTarget:
    """The paper's example, or tables from a file; `.tables` brings drafter, confidence and capacity."""
    if source == APPENDIX_A:
        return TableTarget(appendix_a(), taps=taps)
    path = Path(source).expanduser()
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; expected '{APPENDIX_A}' or a JSON file of tables")
    return TableTarget(read_tables(path), taps=taps)

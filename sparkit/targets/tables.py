"""The numbers of a toy world: one JSON file, or the paper's example, brings a whole composition.

Target laws by context suffix; draft laws, one table a position, by the suffix of context and drafted prefix; and
confidences by the suffix of the drafted prefix alone. Method section 8 is built in as `appendix_a`.

>>> appendix_a().vocab
('A', 'B')
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkit.capacity import LEAST_RATE, Capacity, from_rates
from sparkit.files import read_json, shown

SCHEMA = "sparkit.table/1"
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
        raise ValueError(f"{where}: vocab is {shown(vocab)}; expected at least two different texts without blanks")
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
        raise ValueError(f"{where}: {name} is {shown(value)}; expected a list, one object a draft position")
    return value


def _laws(table: Any, ids: Mapping[str, int], where: str) -> dict[Key, Law]:
    out = {}
    for key, law in _keyed(table, ids, where).items():
        numbers = isinstance(law, list) and all(type(p) in (int, float) and p >= 0 for p in law)
        if not numbers or len(law) != len(ids) or abs(sum(law) - 1) > 1e-9:
            raise ValueError(f"{where}: {shown(law)}; expected {len(ids)} probabilities that sum to 1")
        out[key] = tuple(float(p) for p in law)
    return out


def _chances(table: Any, ids: Mapping[str, int], where: str) -> dict[Key, float]:
    keyed = _keyed(table, ids, where)
    for value in keyed.values():
        if type(value) not in (int, float) or not 0 <= value <= 1:
            raise ValueError(f"{where}: {shown(value)}; expected a number in [0, 1]")
    return {key: float(value) for key, value in keyed.items()}


def _keyed(table: Any, ids: Mapping[str, int], where: str) -> dict[Key, Any]:
    if not isinstance(table, dict) or not table:
        raise ValueError(f"{where}: {shown(table)}; expected an object of context suffixes")
    for text in table:
        if unknown := [word for word in text.split() if word not in ids]:
            raise ValueError(
                f"{where}: {shown(unknown[0])} in {shown(text)} is not in the vocabulary {shown(list(ids))}"
            )
    return {tuple(ids[word] for word in text.split()): value for text, value in table.items()}


def _is_size(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0


def _rates(table: Any, where: str) -> dict[int, float]:
    if not isinstance(table, dict) or not table or not all(_is_size(key) for key in table):
        raise ValueError(f"{where}: capacity is {shown(table)}; expected an object of batch_tokens to rounds/second")
    for value in table.values():
        if type(value) not in (int, float) or not LEAST_RATE <= value < float("inf"):
            raise ValueError(
                f"{where}: capacity {shown(value)}; expected rounds per second above 0 (at least {LEAST_RATE:g})"
            )
    return {int(key): float(value) for key, value in sorted(table.items(), key=lambda item: int(item[0]))}

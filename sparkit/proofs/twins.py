"""Table twins: a target, a drafter and a confidence whose every law is a small table of fractions.

    p_target(. | previous token),  p_draft^k(. | previous token),  c_k(previous token)

so that a search can choose each number, a rational proof can repeat each decision, and nothing a scheduler could see
is out of reach: c_2 may differ with x_1, be tied with c_1, be exactly 0 or 1. They satisfy the same protocols as the
models that ship and run through the same engine. Appendix A of the paper is one of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sparkit.decisions import Decisions, Purpose
from sparkit.protocols import Anchors, Span, TargetOutput
from sparkit.rounds import Draft, Rounds

Row = tuple[Fraction, ...]


@dataclass(frozen=True, slots=True)
class Tables:
    """The numbers of one toy world over V tokens."""

    target: tuple[Row, ...]  # [previous] -> law
    draft: tuple[tuple[Row, ...], ...]  # [k][previous] -> law
    confidence: tuple[Row, ...]  # [k][previous] -> c_k, exact 0 and 1 allowed

    @property
    def vocab_size(self) -> int:
        """V."""
        return len(self.target)

    @property
    def gamma(self) -> int:
        """Draft positions."""
        return len(self.draft)


def appendix_a() -> Tables:
    """The paper's example, extended so that it runs for many tokens (method section 8); A is 0, B is 1."""
    half, target = (Fraction(1, 2), Fraction(1, 2)), (Fraction(7, 10), Fraction(3, 10))
    second = ((Fraction(3, 5), Fraction(2, 5)), half)
    confidence = ((Fraction(4, 5), Fraction(4, 5)), (Fraction(9, 10), Fraction(0)))
    return Tables((target, target), ((half, half), second), confidence)


def _log(rows: Sequence[Sequence[Fraction]]) -> Float[Tensor, "N V"]:
    return torch.tensor([[float(v) for v in row] for row in rows], dtype=torch.float64).log()


@dataclass(slots=True)
class TwinCache:
    """Nothing but lengths: a table target remembers no keys."""

    lengths: list[int]

    def truncate(self, slot: int, length: int) -> None:
        """Rolls a slot back."""
        if not 0 <= length <= self.lengths[slot]:
            raise ValueError(f"truncate(slot={slot}, length={length}): the slot holds {self.lengths[slot]} positions")
        self.lengths[slot] = length

    def clone(self) -> "TwinCache":
        """An independent copy."""
        return TwinCache(list(self.lengths))


@dataclass(slots=True)
class TwinTarget:
    """A language model of order one, exact in float64."""

    tables: Tables
    vocab_size: int = field(init=False)
    hidden_size: int = 1
    num_layers: int = 1
    max_positions: int = 64
    feature_layers: tuple[int, ...] = ()
    eos_ids: tuple[int, ...] = ()
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    dtype: torch.dtype = torch.float64
    _logits: Tensor = field(init=False)

    def __post_init__(self) -> None:
        self.vocab_size = self.tables.vocab_size
        self._logits = _log(self.tables.target)

    def embed(self, tokens: Int[Tensor, "*N"]) -> Float[Tensor, "*N d"]:
        """The token's id is its embedding."""
        return tokens[..., None].double()

    def lm_head(self, hidden: Float[Tensor, "*N d"]) -> Float[Tensor, "*N V"]:
        """Row `hidden` of the table."""
        return self._logits[hidden[..., 0].long()]

    def new_cache(self, num_slots: int, max_len: int) -> TwinCache:
        """See `Target`."""
        return TwinCache([0] * num_slots)

    def forward(
        self, tokens: Int[Tensor, " B"], spans: Sequence[Span], cache: Any, rows: Int[Tensor, " N"] | None = None
    ) -> TargetOutput:
        """See `Target`; a span that does not start where its slot ends is refused, so a bad rollback shows."""
        for span in spans:
            if span.start != cache.lengths[span.slot]:
                raise ValueError(f"{span}: the slot holds {cache.lengths[span.slot]} positions")
            cache.lengths[span.slot] = span.start + span.count
        asked = tokens if rows is None else tokens[rows]
        return TargetOutput(self._logits[asked], self.embed(tokens))


@dataclass(slots=True)
class TwinDrafter:
    """Draws position k from row `previous` of table k."""

    tables: Tables
    kind: Literal["autoregressive"] = "autoregressive"
    lossless: bool = True
    feature_layers: tuple[int, ...] = ()
    gamma: int = field(init=False)
    _logits: list[Tensor] = field(init=False)

    def __post_init__(self) -> None:
        self.gamma = self.tables.gamma
        self._logits = [_log(rows) for rows in self.tables.draft]

    def prepare(self, num_slots: int, max_len: int) -> None:
        """Nothing to allocate."""

    def absorb(self, features: Tensor, tokens: Int[Tensor, " B"], spans: Sequence[Span]) -> None:
        """Nothing to learn."""

    def propose(self, anchors: Anchors, decisions: Decisions) -> Draft:
        """See `Drafter`; `hidden` carries the previous token, all that a confidence may see."""
        previous, laws = [anchors.tokens], list[Tensor]()
        drawn: list[Tensor] = []
        for k in range(anchors.spans[0].count):
            laws.append(anchors.law(self._logits[k][previous[-1]], drawn))
            drawn.append(decisions.draw(laws[-1], Purpose.DRAFT, k + 1))
            previous.append(drawn[-1])
        hidden = torch.stack(previous[:-1], dim=1)[..., None].double()
        return Draft(torch.stack(drawn, dim=1), torch.stack(laws, dim=1), hidden=hidden)

    def forget(self, slot: int) -> None:
        """Nothing is kept."""

    def save(self) -> None:
        """Nothing is kept."""

    def load(self, state: None) -> None:
        """Nothing is kept."""


@dataclass(slots=True)
class TwinConfidence:
    """c_k from row k of the table at the previous token."""

    tables: Tables
    lossless: bool = True
    batch_independent: bool = True
    _logits: Tensor = field(init=False)

    def __post_init__(self) -> None:
        table = torch.tensor([[float(v) for v in row] for row in self.tables.confidence], dtype=torch.float64)
        self._logits = torch.logit(table)

    def start(self) -> None:
        """No memory."""

    def logits(self, draft: Draft, memory: None) -> Float[Tensor, "R gamma"]:
        """See `Confidence`."""
        assert draft.hidden is not None
        previous = draft.hidden[..., 0].long()
        return self._logits[torch.arange(previous.shape[1]), previous]

    def observe(self, memory: None, rounds: Rounds) -> None:
        """No memory."""

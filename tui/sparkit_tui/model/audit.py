"""The losslessness light: what `sparkit.audit` says of a run, and the list of what it said of the ones before.

Under a schedule-invariant verifier the audit is off and the text is held against the plain decoding of its seed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from sparkit.audit import LOG_LIMIT, reading
from sparkit.audit import Audit as Evidence
from sparkit_tui.model.header import Header

if TYPE_CHECKING:
    from sparkit.rounds import Round

ALARM = LOG_LIMIT
Light = Literal["green", "amber", "red", "grey"]
KEEP_POINTS = 600


@dataclass(frozen=True, slots=True)
class AuditReading:
    """What an audit had come to."""

    label: str
    log_e: float
    num_tokens: int
    light: Light
    verdict: str


@dataclass(slots=True)
class Audit:
    """The evidence about one composition, fed round by round."""

    header: Header
    evidence: Evidence = field(default_factory=Evidence)
    num_equal: int = 0  # tokens equal to the seed's plain text (schedule-invariant verifiers)
    first_difference: int | None = None  # token index where they part
    path: list[tuple[int, float]] = field(default_factory=lambda: [(0, 0.0)])

    def add(self, round_: Round) -> None:
        """Feeds a round's audit bits."""
        if not round_.audit_chosen:
            return
        self.evidence = self.evidence.after(round_.audit_chosen, round_.audit_mass)
        self.path.append((self.num_tokens, self.log_e))
        if len(self.path) > KEEP_POINTS:  # every second point is enough for a curve twice as long
            self.path = [*self.path[:-1:2], self.path[-1]]

    def compare(self, num_equal: int, first_difference: int | None) -> None:
        """Takes in a comparison with plain decoding of the same seed."""
        self.num_equal += num_equal
        if first_difference is not None and self.first_difference is None:
            self.first_difference = first_difference

    @property
    def num_tokens(self) -> int:
        """Tokens that said something, or were compared."""
        return self.num_equal if self.header.is_schedule_invariant else self.evidence.num_tokens

    @property
    def log_e(self) -> float:
        """Natural logarithm of the e-value; 0 before any evidence."""
        return self.evidence.log_e_value

    @property
    def light(self) -> Light:
        """The colour."""
        return self._read()[0]

    @property
    def verdict(self) -> str:
        """The colour in words."""
        return self._read()[1]

    def _read(self) -> tuple[Light, str]:
        header = self.header
        if header.is_schedule_invariant and self.first_difference is None:
            if not self.num_equal:
                return "grey", "schedule-invariant: the first text is still being compared with its seed's plain text"
            return "green", f"{self.num_equal} tokens equal to the plain decoding of their seeds"
        if header.is_lossless is None and not self.evidence.is_shown_lossy:
            return "grey", "an unknown part: nobody declared whether this composition is lossless"
        seen = reading(
            self.evidence,
            declared_lossless=bool(header.is_lossless),
            schedule_invariant=header.is_schedule_invariant,
            equals_plain=self.first_difference is None,
        )
        lossy = f" ({', '.join(header.lossy_parts)})" if header.lossy_parts else ""
        where = f" at token {self.first_difference + 1}" if self.first_difference is not None else ""
        return seen.colour, seen.sentence + lossy + where

    def reading(self) -> AuditReading:
        """The audit as a line of a list."""
        light, verdict = self._read()
        return AuditReading(self.header.label, self.log_e, self.num_tokens, light, verdict)

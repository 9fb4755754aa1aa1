"""The paper's appendix A, number by number, for every scheduler and verifier, in fractions.

R = 1, gamma = 2, SPS = 1.0, 0.5, 0.45; p_target = (7/10, 3/10); p_draft^1 = (1/2, 1/2); c_1 = 4/5, c_2 = 9/10 after A
and 0 after B. Lookahead admits both drafts after A (Theta_2 = 2.52 * 0.45 = 1.134) and none after B (0.81), so the
first token comes out as (17/20, 3/20); Algorithm 1 stops at Theta_1 = 0.9 < Theta_0 = 1 and is exact.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch

from sparkit.proofs.batching import explore_batched
from sparkit.proofs.choice import Chosen, create
from sparkit.proofs.examples import paper
from sparkit.proofs.paths import Number
from sparkit.proofs.prove import twin_parts
from sparkit.proofs.rational import Rule, explore_rational
from sparkit.protocols import CALIBRATORS, SCHEDULERS, VERIFIERS
from sparkit.survival import survival_of, throughput_curve

SCHEMA = "sparkit.prove-appendix-a/1"
RULES: dict[str, Rule] = {"rejection": "rejection", "block": "block", "lenient": "lenient"}


@dataclass(frozen=True, slots=True)
class PaperRow:
    """One composition's law of the first token after the anchor."""

    scheduler: str
    verifier: str
    law: tuple[Number, Number]  # of A and B; fractions where the verifier has rational laws
    declared_lossless: bool
    faults: tuple[str, ...]

    @property
    def is_lossless(self) -> bool:
        """Whether the law is the target's."""
        return abs(float(self.law[0]) - 0.7) < 1e-12


def appendix_a(verifiers: tuple[str, ...] = ("rejection", "block", "coupled", "lenient")) -> list[PaperRow]:
    """Every scheduler under every verifier."""
    return [paper_row(scheduler, verifier) for verifier in verifiers for scheduler in SCHEDULERS.names()]


def paper_row(scheduler: str, verifier: str) -> PaperRow:
    """One composition."""
    parts = Chosen(None, create(CALIBRATORS, "identity"), create(SCHEDULERS, scheduler), create(VERIFIERS, verifier))
    example = paper()
    problem = example.problem(twin_parts(parts, example))
    rule = RULES.get(verifier)
    law = explore_batched(problem) if rule is None else explore_rational(problem, example.tables, rule)
    after = [Fraction(0) if rule else 0.0, Fraction(0) if rule else 0.0]
    for (text,), p in law.probability.items():
        after[text[1]] = after[text[1]] + p
    return PaperRow(scheduler, verifier, (after[0], after[1]), parts.is_lossless, law.faults)


def thetas(second: float) -> tuple[float, ...]:
    """Theta_0, Theta_1, ... when c_2 has this value; a candidate without survival is none."""
    survival = survival_of(torch.tensor([[0.8, second]], dtype=torch.float64))
    return tuple(throughput_curve(survival, paper().capacity.rounds_per_second).throughput.tolist())


def document(rows: list[PaperRow]) -> dict[str, Any]:
    """For JSON."""
    runs = [
        {
            "scheduler": row.scheduler,
            "verifier": row.verifier,
            "law": [str(p) if isinstance(p, Fraction) else p for p in row.law],
            "lossless": row.is_lossless,
            "declared_lossless": row.declared_lossless,
        }
        for row in rows
    ]
    return {"schema": SCHEMA, "target": ["7/10", "3/10"], "runs": runs}

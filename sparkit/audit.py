"""A test that may be looked at after every token: evidence, while decoding, that the text does not follow the target.

For a committed token y at a block position whose p_draft and p_target are known, with
s(v) = 1[p_draft(v) > p_target(v)] and m = sum_v p_target(v) s(v), the factor
    1 + lambda (s(y) - m),   lambda = theta / m  and  -theta / (1 - m),   theta in {0.05, 0.1, 0.2, 0.5}
has mean 1 when y follows p_target. Eight products, averaged, are an e-value: by Ville's inequality a lossless run ever
exceeds 1000 with probability at most 1/1000, however often one looks. Positions with m = 0 or 1 say nothing.

The same holds under block verification, where P(next token = v, prefix of length i kept | x_1..x_i) = w_i p_target(v).
It does not under coupled noise: which block a token falls in depends on the token's own noise. There the audit is off,
and the check is that the text equals the plain decoding of the seed.

>>> Audit().after((True, True), (0.3, 0.3)).log_e_value > 0
True
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import add
from typing import Literal

THETAS = (0.05, 0.1, 0.2, 0.5)
NUM_BETS = 2 * len(THETAS)
LOST = tuple(math.log(1 - theta) for theta in THETAS)
LOG_LIMIT = math.log(1000.0)
EDGE = 1e-6
"""A mass this near to 0 or 1 is float32's rounding of 0 or 1."""
REASON = (
    "the verifier's noise belongs to positions, not to rounds, so the audit does not apply; "
    "compare the text with the plain decoding of its seed"
)
Colour = Literal["red", "amber", "green"]


def factors(is_chosen: bool, mass: float) -> tuple[float, ...]:
    """The eight factors of one token; each above 0, with mean 1 when the token follows the target."""
    over, under = (1 - mass) / mass, mass / (1 - mass)
    if is_chosen:
        return tuple(1 + theta * over for theta in THETAS) + tuple(1 - theta for theta in THETAS)
    return tuple(1 - theta for theta in THETAS) + tuple(1 + theta * under for theta in THETAS)


def _log_factors(is_chosen: bool, mass: float) -> tuple[float, ...]:
    odds = (1 - mass) / mass if is_chosen else mass / (1 - mass)
    won = tuple([math.log1p(theta * odds) for theta in THETAS])
    return won + LOST if is_chosen else LOST + won


def _log_mean(logs: tuple[float, ...]) -> float:
    top = max(logs)
    return top + math.log(sum([math.exp(x - top) for x in logs]) / NUM_BETS)


@dataclass(frozen=True, slots=True)
class Audit:
    """The evidence so far: a value, so that a run can be copied and resumed."""

    log_products: tuple[float, ...] = (0.0,) * NUM_BETS
    num_tokens: int = 0  # that said something
    max_log_e_value: float = 0.0

    def after(self, chosen: Sequence[bool], mass: Sequence[float]) -> "Audit":
        """The evidence after the audited tokens of one round (`Round.audit_chosen`, `Round.audit_mass`)."""
        told = [(is_chosen, m) for is_chosen, m in zip(chosen, mass, strict=True) if EDGE < m < 1 - EDGE]
        if not told:
            return self
        products = self.log_products
        for is_chosen, m in told:
            products = tuple(map(add, products, _log_factors(is_chosen, m)))
        peak = max(self.max_log_e_value, _log_mean(products))
        return Audit(products, self.num_tokens + len(told), peak)

    @property
    def log_e_value(self) -> float:
        """The log of the average of the products."""
        return _log_mean(self.log_products)

    @property
    def is_shown_lossy(self) -> bool:
        """Whether the e-value was ever 1000 or more."""
        return self.max_log_e_value >= LOG_LIMIT


@dataclass(frozen=True, slots=True)
class Reading:
    """What a screen or document says of a running composition."""

    log_e_value: float | None  # None: the audit does not apply
    colour: Colour
    sentence: str


def reading(
    audit: Audit, *, declared_lossless: bool, schedule_invariant: bool, equals_plain: bool | None = None
) -> Reading:
    """The verdict on a run.

    Args:
        audit: its evidence.
        declared_lossless: what the composition says of itself.
        schedule_invariant: whether the verifier is exact under any schedule (the audit is then off).
        equals_plain: for such a verifier, whether the text equals the plain decoding of its seed; None: not compared.
    """
    if schedule_invariant:
        if equals_plain is False:
            return Reading(None, "red", "the text differs from the plain decoding of its seed")
        return Reading(None, "green", "the text equals the plain decoding of its seed" if equals_plain else REASON)
    value = audit.log_e_value
    if audit.is_shown_lossy:
        shown = f"shown lossy: e-value {_spell(audit.max_log_e_value)} after {audit.num_tokens} tokens"
        return Reading(value, "red", shown)
    if not declared_lossless:
        return Reading(value, "amber", f"declared lossy, not yet shown: e-value {_spell(value)}")
    return Reading(value, "green", f"no evidence against it: e-value {_spell(value)} after {audit.num_tokens} tokens")


def _spell(log_e_value: float) -> str:
    return f"{math.exp(log_e_value):.3g}" if log_e_value < 30 else f"10^{log_e_value / math.log(10):.1f}"

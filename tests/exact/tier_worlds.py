"""The worlds of the tiers: rich ones, in which every law has full support, and thin ones for whole products of parts.

A thin world has zeros and certainties among its laws, so that it has a tenth of the branches: enough for every pair,
triple and quadruple of parts to meet in one, where a rich world is enough for a covering array.
"""

from dataclasses import replace
from fractions import Fraction

from sparkit.proofs.examples import Example
from sparkit.proofs.twins import Tables

F = Fraction
HALF = (F(1, 2), F(1, 2))


def wide() -> Example:
    """R = 1, V = 3, gamma 3, horizon 3."""
    laws = ((F(1, 2), F(3, 10), F(1, 5)), (F(1, 10), F(7, 10), F(1, 5)), (F(1, 3), F(1, 3), F(1, 3)))
    draft = (laws[::-1], (laws[0],) * 3, (laws[1], laws[2], laws[0]))
    confidence = ((F(4, 5),) * 3, (F(9, 10), F(0), F(1)), (F(1), F(4, 5), F(4, 5)))
    return Example(Tables(laws, draft, confidence), (1.0, 0.5, 0.45, 0.4), horizon=3, spare=1)


def pair() -> Example:
    """R = 2, V = 2, gamma 2, horizon 2."""
    target = ((F(7, 10), F(3, 10)), (F(1, 5), F(4, 5)))
    draft = (((F(1, 2), F(1, 2)),) * 2, ((F(3, 5), F(2, 5)), (F(1, 4), F(3, 4))))
    confidence = ((F(4, 5), F(4, 5)), (F(9, 10), F(0)))
    rates = (1.0, 1.0, 0.62, 0.6, 0.5, 0.48)
    return Example(Tables(target, draft, confidence), rates, requests=2, horizon=2, spare=1)


Worlds = tuple[tuple[str, Example], ...]
WORLDS: Worlds = (("wide", wide()), ("pair", pair()))
LARGER: Worlds = (("wide", replace(wide(), horizon=4)), ("pair", replace(pair(), horizon=3)))


def thin_wide() -> Example:
    """R = 1, V = 3, gamma 3, horizon 3, with two tokens at most behind any."""
    laws = ((F(1, 2), F(1, 2), F(0)), (F(0), F(7, 10), F(3, 10)), (F(1, 3), F(0), F(2, 3)))
    first = ((F(2, 5), F(3, 5), F(0)), (F(0), F(1, 2), F(1, 2)), (F(1), F(0), F(0)))
    second = (laws[0], laws[1], (F(0), F(1, 2), F(1, 2)))
    third = ((F(1), F(0), F(0)), (F(0), F(1), F(0)), (F(3, 4), F(0), F(1, 4)))
    confidence = ((F(4, 5),) * 3, (F(9, 10), F(0), F(1)), (F(1), F(4, 5), F(4, 5)))
    return Example(Tables(laws, (first, second, third), confidence), (1.0, 0.5, 0.45, 0.4), horizon=3, spare=1)


def thin_pair() -> Example:
    """R = 2, V = 2, gamma 2, horizon 2, with a token that only repeats."""
    target = ((F(7, 10), F(3, 10)), (F(0), F(1)))
    draft = ((HALF, (F(1, 4), F(3, 4))), ((F(3, 5), F(2, 5)), (F(1), F(0))))
    confidence = ((F(4, 5), F(4, 5)), (F(9, 10), F(0)))
    rates = (1.0, 1.0, 0.62, 0.6, 0.5, 0.48)
    return Example(Tables(target, draft, confidence), rates, requests=2, horizon=2, spare=1)


def long(gamma: int, horizon: int) -> Example:
    """R = 1, V = 2 over several rounds; confidences that say much about the token before."""
    target = ((F(7, 10), F(3, 10)), (F(2, 5), F(3, 5)))
    half = ((F(1, 2), F(1, 2)),) * 2
    confidence = ((F(4, 5), F(1, 2)), *(((F(9, 10), F(1, 10)),) * (gamma - 1)))
    rates = (1.0, 0.62, 0.5, 0.4, 0.35)[: gamma + 1]
    return Example(Tables(target, (half,) * gamma, confidence), rates, horizon=horizon, spare=1)


def thin_long(gamma: int, horizon: int) -> Example:
    """The same where one token is always followed by the other, for memories that branch at every verified round."""
    whole = long(gamma, horizon)
    tables = Tables(((F(7, 10), F(3, 10)), (F(1), F(0))), ((HALF, (F(1), F(0))),) * gamma, whole.tables.confidence)
    return replace(whole, tables=tables)


THIN: Worlds = (("thin wide", thin_wide()), ("thin pair", thin_pair()))

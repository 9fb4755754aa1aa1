"""How far blocks reach: which positions were verified and accepted lately, and how long a block is worth drafting.

A block of L tokens brings 1 + P(1 accepted) + ... + P(L accepted) tokens a request and costs L draft tokens and the
verification of what was admitted up to L. The length that makes most tokens a second on the capacity curve is chosen,
from rounds that are over. Positions that were not drafted for a while go on as the last known one did: acceptance given
the prefix hardly changes from position to position, and a length chosen for that is measured at once.

>>> from sparkit.capacity import flat
>>> Reach().best(1, flat(), gamma=7) is None
True
"""

from collections.abc import Sequence
from typing import NamedTuple

from sparkit.capacity import Capacity

KNOWN = 16.0  # faded request-rounds from which a position counts as known


class Reach(NamedTuple):
    """Faded sums by position, at about one number of requests."""

    drafted: tuple[float, ...] = ()  # request-rounds whose block had the position
    verified: tuple[float, ...] = ()
    accepted: tuple[float, ...] = ()

    def plus(self, block_len: int, verify_len: Sequence[int], accepted: Sequence[int], forgetting: float) -> "Reach":
        """One more step of blocks of one length.

        Args:
            block_len: what was drafted.
            verify_len: of each request that drafted.
            accepted: likewise.
            forgetting: weight of a request-round against the next one.
        """
        kept, size = forgetting ** len(verify_len), max(block_len, len(self.drafted))
        seen = [sum(1 for n in column if n >= k) for column in (verify_len, accepted) for k in range(1, size + 1)]
        new = ([len(verify_len) * (k < block_len) for k in range(size)], seen[:size], seen[size:])
        olds = ([*old, *[0.0] * (size - len(old))] for old in self)
        sums = (tuple(kept * a + b for a, b in zip(old, add, strict=True)) for old, add in zip(olds, new, strict=True))
        return Reach(*sums)

    def shares(self, gamma: int) -> list[tuple[float, float]]:
        """(verified, accepted) of a drafted position, for 1..gamma; [] while even the first is unknown.

        A position past those that are known keeps the last known conditional rates.
        """
        found: list[tuple[float, float]] = []
        verified = accepted = 1.0
        onward = (1.0, 1.0)
        for k in range(gamma):
            if k < len(self.drafted) and self.drafted[k] >= KNOWN:
                new = self.verified[k] / self.drafted[k], self.accepted[k] / self.drafted[k]
                onward = _ratio(new[0], verified), _ratio(new[1], accepted)
            elif not found:
                return []
            verified, accepted = verified * onward[0], accepted * onward[1]
            found.append((verified, accepted))
        return found

    def best(self, num_requests: int, capacity: Capacity, gamma: int) -> int | None:
        """The length with most tokens a second; None while too little is known, or nothing has a price."""
        shares = self.shares(gamma) if capacity.prices_blocks else []
        if not shares:
            return None
        best, best_rate, tau, rows = gamma, 0.0, 1.0, 1.0
        for length, (verified, accepted) in enumerate(shares, 1):
            tau, rows = tau + accepted, rows + verified
            rate = tau * capacity.rounds_per_second(num_requests, round(num_requests * rows), length)
            if rate > best_rate:
                best, best_rate = length, rate
        return best


def _ratio(new: float, old: float) -> float:
    return min(1.0, new / old) if old > 0 else 0.0

"""Capacities that are stated, not measured, and the one that a profile makes of its measurements.

>>> from_rates({1: 1.0, 2: 0.5, 3: 0.45}).rounds_per_second(1, 2)
0.5
"""

import math
from collections.abc import Mapping, Sequence

from sparkit.capacity.curve import Curve, Kind
from sparkit.capacity.steps import Capacity

LEAST_RATE = 1e-300
"""Rounds per second whose inverse is still a number."""


def flat(rate: float = 1.0) -> Capacity:
    """Every extra token looks free (schedulers say so once)."""
    if not rate > 0:
        raise ValueError(f"flat capacity: rate={rate!r} steps a second; expected more than 0")
    return Capacity(Curve.constant(1.0 / rate), source="flat")


def from_rates(rates: Mapping[int, float] | Sequence[float], kind: Kind = "step") -> Capacity:
    """A table of rounds per second by batch_tokens (a sequence starts at 1); the draft is inside the rates."""
    table = dict(rates) if isinstance(rates, Mapping) else dict(enumerate(rates, 1))
    if bad := [(size, rate) for size, rate in table.items() if not (rate >= LEAST_RATE and math.isfinite(rate))]:
        raise ValueError(f"capacity: {bad[0][1]} rounds per second at {bad[0][0]} tokens; expected more than 0")
    return Capacity(Curve(tuple(sorted((size, 1.0 / rate) for size, rate in table.items())), kind), source="rates")


def measured(
    verify: Mapping[int, float],
    draft: Mapping[int, float],
    overhead: Mapping[int, float],
    plain_overhead: Mapping[int, float],
    *,
    kind: Kind = "step",
    source: str = "measured",
    draft_token: Mapping[int, float] | None = None,
    gamma: int | None = None,
) -> Capacity:
    """A profile: seconds by size; `verify` is read through its monotone envelope and kept raw beside it."""
    raw = Curve(tuple(sorted(verify.items())), kind)
    tables = (draft, overhead, plain_overhead, draft_token or {1: 0.0})
    made, other, plain, token = (Curve(tuple(sorted(table.items()))) for table in tables)
    return Capacity(raw.envelope(), made, other, plain, source, True, raw, token, gamma)


def roofline(
    num_params: float = 8e9,
    draft_params: float = 0.6e9,
    bytes_per_param: float = 2.0,
    bandwidth: float = 3.35e12,
    peak_flops: float = 400e12,
    context_bytes: float = 0.15e9,
    overhead: float = 1e-3,
) -> Capacity:
    """Weights read once a step against 2 flops a parameter and token; constants: an H100 at 40% of peak, an 8B target.

    verify(B) = max(num_params bytes / bandwidth, 2 num_params B / peak_flops); the draft is one pass of
    `draft_params`; each request's context is read once (`context_bytes`), with or without a draft.
    """
    reading, computing = num_params * bytes_per_param / bandwidth, 2 * num_params / peak_flops
    ridge = max(1, math.floor(reading / computing))
    sizes = (1, ridge, ridge + 1, 2 * ridge + 2)
    verify = Curve(tuple((b, max(reading, computing * b)) for b in sorted(set(sizes))))
    per_request = context_bytes / bandwidth
    draft = Curve.constant(draft_params * bytes_per_param / bandwidth)
    other = Curve(((1, overhead + per_request), (2, overhead + 2 * per_request)))
    return Capacity(verify, draft, other, other, source=f"roofline: ridge at {reading / computing:.0f} tokens")


def staircase(tile: int = 8, base: float = 1.0, per_tile: float = 0.5, draft: float = 0.0, tiles: int = 64) -> Capacity:
    """Kernels tile: verify(B) = base + per_tile * (ceil(B / tile) - 1)."""
    points = tuple((tile * i, base + per_tile * (i - 1)) for i in range(1, tiles + 1))
    return Capacity(Curve(points, "step"), Curve.constant(draft), source=f"staircase: tiles of {tile} tokens")

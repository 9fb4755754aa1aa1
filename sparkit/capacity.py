"""The capacity curve: how many engine rounds a second fit at each batch size.

SPS(R, B) = 1 / (draft_seconds(R) + verify_seconds(B) + overhead_seconds(R)): when a plan is made the draft is already
paid, so it counts at every length, 0 too. A step without a draft takes verify_seconds(B) + plain_overhead(R).
Every part of the sum is a `Curve`, a table of sizes and seconds: measured by `sparkit profile`, or analytic (`flat`,
`roofline`, `staircase`, `from_rates`). Nothing here measures.

>>> from_rates({1: 1.0, 2: 0.5, 3: 0.45}).rounds_per_second(1, 2)
0.5
"""

import functools
import itertools
import logging
import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sparkit.files import read_json, write_json

SCHEMA = "sparkit.capacity/1"
Kind = Literal["step", "linear"]
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Curve:
    """Seconds at each size. Between points: `step` takes the next larger size's value, `linear` goes straight.

    Below the first point its value holds; beyond the last the last slope goes on (never downwards).
    """

    points: tuple[tuple[int, float], ...]  # (size, seconds), sizes ascending
    kind: Kind = "linear"

    def __post_init__(self) -> None:
        if not self.points:
            raise ValueError("a capacity curve needs at least one point, (size, seconds)")
        for size, seconds in self.points:
            if not (math.isfinite(seconds) and seconds >= 0 and size >= 1):
                raise ValueError(f"capacity point ({size}, {seconds}): expected a size >= 1 and seconds >= 0")
        if any(a[0] >= b[0] for a, b in itertools.pairwise(self.points)):
            raise ValueError(f"capacity sizes {[p[0] for p in self.points]}: expected ascending, each once")

    @classmethod
    def constant(cls, seconds: float) -> "Curve":
        """The same seconds at every size."""
        return cls(((1, float(seconds)),))

    @property
    def last_size(self) -> int:
        """The largest size of the table."""
        return self.points[-1][0]

    @property
    def is_flat(self) -> bool:
        """Whether every size costs the same."""
        return len({seconds for _, seconds in self.points}) == 1

    @property
    def _last_slope(self) -> float:
        if len(self.points) == 1:
            return 0.0
        (low, start), (high, end) = self.points[-2:]
        return max(0.0, (end - start) / (high - low))

    def at(self, size: int) -> float:
        """Seconds at one size."""
        index = bisect_left(self.points, (size, -1.0))
        if index == len(self.points):
            last, seconds = self.points[-1]
            return seconds + self._last_slope * (size - last)
        high, end = self.points[index]
        if index == 0 or self.kind == "step":
            return end
        low, start = self.points[index - 1]
        return start + (end - start) * ((size - low) / (high - low))

    def envelope(self) -> "Curve":
        """The largest non-decreasing curve below this one: a batch can be padded up to any larger, faster size."""
        seconds = list(itertools.accumulate((s for _, s in reversed(self.points)), min))[::-1]
        return Curve(tuple((size, s) for (size, _), s in zip(self.points, seconds, strict=True)), self.kind)


@dataclass(frozen=True, slots=True)
class Capacity:
    """The cost of a step in parts; immutable and hashable, so look-up tables are cached by value."""

    verify: Curve  # seconds by batch_tokens
    draft: Curve = Curve(((1, 0.0),))  # seconds by num_requests, catching up included
    overhead: Curve = Curve(((1, 0.0),))  # seconds by num_requests, of a drafted step
    plain_overhead: Curve = Curve(((1, 0.0),))  # seconds by num_requests, of an undrafted step
    source: str = "table"  # where the numbers come from, for reports
    is_measured: bool = False  # whether seconds are wall seconds of a device
    raw_verify: Curve | None = None  # as measured, before the monotone envelope

    def __post_init__(self) -> None:
        if bad := [point for point in self.verify.points if point[1] <= 0]:
            raise ValueError(f"capacity: verifying {bad[0][0]} tokens takes {bad[0][1]} seconds; expected more than 0")

    @property
    def kind(self) -> Kind:
        """How verify_seconds is read between its points."""
        return self.verify.kind

    @property
    def is_flat(self) -> bool:
        """Whether every extra token looks free."""
        return self.verify.is_flat

    def covers(self, batch_tokens: int) -> bool:
        """Whether a size lies inside the table; outside the last slope is a guess."""
        return self.verify.points[0][0] <= batch_tokens <= self.verify.last_size

    def verify_seconds(self, batch_tokens: int) -> float:
        """The target's forward pass over B tokens."""
        return self.verify.at(batch_tokens)

    def draft_seconds(self, num_requests: int) -> float:
        """Proposing one block for each of R requests."""
        return self.draft.at(num_requests)

    def overhead_seconds(self, num_requests: int) -> float:
        """Everything else of a drafted step."""
        return self.overhead.at(num_requests)

    def rounds_per_second(self, num_requests: int, batch_tokens: int) -> float:
        """SPS(R, B), the draft counted."""
        fixed = self.draft_seconds(num_requests) + self.overhead_seconds(num_requests)
        return 1.0 / (fixed + self.verify_seconds(batch_tokens))

    def undrafted_rate(self, num_requests: int, base_tokens: int) -> float:
        """Steps a second when nobody drafts."""
        return 1.0 / (self.verify_seconds(base_tokens) + self.plain_overhead.at(num_requests))

    def speedup(self, num_requests: int, batch_tokens: int, accepted: float) -> float:
        """Speculation's tokens per second over plain decoding's, at a mean number of accepted drafts per round."""
        rate = self.rounds_per_second(num_requests, batch_tokens)
        return (accepted + 1) * rate / self.undrafted_rate(num_requests, num_requests)

    def break_even(self, num_requests: int, batch_tokens: int) -> float:
        """Accepted drafts per round from which speculation is no slower than plain decoding."""
        return 1.0 / self.speedup(num_requests, batch_tokens, 0.0) - 1.0

    def rates(
        self, num_requests: int, base_tokens: int, max_drafts: int, like: Float[Tensor, "..."]
    ) -> Float[Tensor, " points"]:
        """SPS(R, base_tokens + j) for j = 0..max_drafts: a slice of a table kept on the device of `like`."""
        if self.is_flat:
            _say_flat()
        last = base_tokens + max_drafts
        if self.is_measured and last > self.verify.last_size:
            _say_outside(self.source, self.verify.last_size)
        table = _table(self, num_requests, 1 << max(6, last.bit_length()), like.device, like.dtype)
        return table[base_tokens : last + 1]

    def to_json(self) -> dict[str, Any]:
        """The document that `save` writes."""
        return {"schema": SCHEMA, "kind": self.kind, **asdict(self)}

    def save(self, path: Path) -> None:
        """Writes JSON, whole or not at all."""
        write_json(path, self.to_json())

    @classmethod
    def load(cls, path: Path) -> "Capacity":
        """Reads what `save` or `sparkit profile` wrote."""
        return cls.from_json(read_json(path), str(path))

    @classmethod
    def from_json(cls, document: Any, where: str = "capacity") -> "Capacity":
        """Checks every field of a document.

        Raises:
            ValueError: naming the file, the field and what is expected there.
        """
        if not isinstance(document, dict) or document.get("schema") != SCHEMA:
            raise ValueError(f"{where}: expected a JSON object of schema {SCHEMA!r}; make one with `sparkit profile`")
        known = {"schema", "kind", *cls.__dataclass_fields__}
        if unknown := [key for key in document if key not in known]:
            raise ValueError(f"{where}: unknown field {unknown[0]!r}; a capacity has {', '.join(sorted(known))}")
        if "verify" not in document:
            raise ValueError(f"{where}: the field 'verify' is missing; it holds points, [[batch_tokens, seconds], ...]")
        names = ("verify", "draft", "overhead", "plain_overhead", "raw_verify")
        curves = {name: _curve(document[name], f"{where}, {name}") for name in names if document.get(name) is not None}
        source, is_measured = document.get("source", "table"), document.get("is_measured", False)
        if not isinstance(source, str) or not isinstance(is_measured, bool):
            raise ValueError(f"{where}: expected source as text and is_measured as true or false")
        try:
            return cls(**curves, source=source, is_measured=is_measured)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error


def _curve(value: Any, where: str) -> Curve:
    points = value.get("points") if isinstance(value, dict) else value
    if not isinstance(points, list | tuple) or not all(_is_point(point) for point in points):
        raise ValueError(f"{where}: expected points as [[size, seconds], ...], found {str(value)[:60]!r}")
    kind: Any = value.get("kind", "linear") if isinstance(value, dict) else "linear"
    if kind not in ("step", "linear"):
        raise ValueError(f"{where}: kind={kind!r}; expected 'step' or 'linear'")
    try:
        return Curve(tuple((size, float(seconds)) for size, seconds in points), kind)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{where}: {error}") from error


def _is_point(point: Any) -> bool:
    is_pair = isinstance(point, list | tuple) and len(point) == 2
    return is_pair and type(point[0]) is int and type(point[1]) in (int, float)


@functools.lru_cache(maxsize=256)
def _table(
    capacity: Capacity, num_requests: int, size: int, device: torch.device, dtype: torch.dtype
) -> Float[Tensor, " size"]:
    fixed = capacity.draft_seconds(num_requests) + capacity.overhead_seconds(num_requests)
    rates = 1.0 / (fixed + np.array([capacity.verify_seconds(b) for b in range(size)]))
    return torch.tensor(rates, dtype=dtype).to(device, non_blocking=True)  # non_blocking: the host must not wait


@functools.cache
def _say_flat() -> None:
    log.warning(
        "no profile: on a flat capacity curve every extra token looks free, so every draft is verified; "
        "measure this device with `sparkit profile`"
    )


@functools.cache
def _say_outside(source: str, last_size: int) -> None:
    log.warning("capacity %s ends at %d batch tokens; beyond it the last slope is assumed", source, last_size)


def flat(rate: float = 1.0) -> Capacity:
    """Every extra token looks free (schedulers say so once)."""
    if not rate > 0:
        raise ValueError(f"flat capacity: rate={rate!r} steps a second; expected more than 0")
    return Capacity(Curve.constant(1.0 / rate), source="flat")


def from_rates(rates: Mapping[int, float] | Sequence[float], kind: Kind = "step") -> Capacity:
    """A table of rounds per second by batch_tokens (a sequence starts at 1); the draft is inside the rates."""
    table = dict(rates) if isinstance(rates, Mapping) else dict(enumerate(rates, 1))
    if bad := [(size, rate) for size, rate in table.items() if not (rate > 0 and math.isfinite(rate))]:
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
) -> Capacity:
    """A profile: seconds by size; `verify` is read through its monotone envelope and kept raw beside it."""
    raw = Curve(tuple(sorted(verify.items())), kind)
    by_requests = [Curve(tuple(sorted(table.items()))) for table in (draft, overhead, plain_overhead)]
    return Capacity(raw.envelope(), by_requests[0], by_requests[1], by_requests[2], source, True, raw)


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

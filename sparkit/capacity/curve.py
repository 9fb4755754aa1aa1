"""Seconds at each size, as a table of points.

>>> Curve(((1, 1.0), (3, 2.0))).at(2)
1.5
"""

import itertools
import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import Literal

from sparkit.files import shown

Kind = Literal["step", "linear"]


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
                raise ValueError(f"capacity point ({shown(size)}, {seconds}): expected a size >= 1 and seconds >= 0")
        if any(a[0] >= b[0] for a, b in itertools.pairwise(self.points)):
            raise ValueError(f"capacity sizes {shown([p[0] for p in self.points])}: expected ascending, each once")

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


FREE = Curve.constant(0.0)
"""What costs nothing."""

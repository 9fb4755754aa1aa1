"""The capacity curve: how many engine rounds a second fit at each batch size.

SPS(R, B) = 1 / (draft_seconds(R) + verify_seconds(B) + overhead_seconds(R)): when a plan is made the draft is already
paid, so it counts at every length, 0 too. A step without a draft takes verify_seconds(B) + plain_overhead(R).
Every part of the sum is a `Curve`, a table of sizes and seconds: measured by `sparkit profile`, or analytic (`flat`,
`roofline`, `staircase`, `from_rates`). Nothing here measures; `capacity_of` makes a curve of what was.

>>> from_rates({1: 1.0, 2: 0.5, 3: 0.45}).rounds_per_second(1, 2)
0.5
"""

from sparkit.capacity.analytic import LEAST_RATE, flat, from_rates, measured, roofline, staircase
from sparkit.capacity.curve import Curve, Kind
from sparkit.capacity.document import SCHEMA
from sparkit.capacity.samples import Sample, capacity_of
from sparkit.capacity.steps import Capacity

__all__ = [
    "LEAST_RATE",
    "SCHEMA",
    "Capacity",
    "Curve",
    "Kind",
    "Sample",
    "capacity_of",
    "flat",
    "from_rates",
    "measured",
    "roofline",
    "staircase",
]

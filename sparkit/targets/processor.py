"""What the processor says of itself; kernels differ by maker, and so does which way of a product is cheaper.

>>> fact("no such line") is None
True
"""

from functools import cache
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")


@cache
def fact(name: str) -> str | None:
    """A line of Linux's description of the first core ("model name", "vendor_id"); None elsewhere."""
    try:
        lines = CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    values = (line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == name)
    return next(values, None)


def is_intel() -> bool:
    """Whether torch's matrix library (MKL) is at home here: elsewhere it shares few rows badly among cores."""
    return fact("vendor_id") == "GenuineIntel"

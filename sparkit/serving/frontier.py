"""The serving frontier: throughput against what one user gets, over all loads [DSpark, figure 7].

More users mean more tokens per second in all and fewer for each. One composition is better than another where its
line lies outside: more throughput at the same speed per user, more speed at the same throughput.

>>> at([(10.0, 1.0), (5.0, 3.0)], 7.5)
2.0
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from sparkit.serving.outcome import Outcome

Line = Sequence[tuple[float, float]]  # (tokens/s of one user, tokens/s of all)


class Gain(NamedTuple):
    """How far a line lies outside a baseline, at one of the baseline's points."""

    speed: float  # tokens/s/user of the baseline point
    throughput: float
    throughput_ratio: float | None  # at that speed; None where the line has no point
    speed_ratio: float | None  # at that throughput


def line_of(outcomes: Iterable[Outcome]) -> list[tuple[float, float]]:
    """The points that no other point beats in both, fastest users first."""
    points = [(one.user_tokens_per_second, one.tokens_per_second) for one in outcomes]
    known = sorted(((s, t) for s, t in points if s is not None), reverse=True)
    kept: list[tuple[float, float]] = []
    for speed, throughput in known:
        if not kept or throughput > kept[-1][1]:
            kept.append((speed, throughput))
    return kept


def at(line: Line, speed: float) -> float | None:
    """Throughput at a speed per user, straight between points; None outside."""
    speeds, throughputs = zip(*sorted(line), strict=True)
    return float(np.interp(speed, speeds, throughputs)) if speeds[0] <= speed <= speeds[-1] else None


def gains(line: Line, baseline: Line) -> list[Gain]:
    """Ratios at every point of the baseline."""
    turned = [(throughput, speed) for speed, throughput in line]
    rows = []
    for speed, throughput in baseline:
        more, faster = at(line, speed), at(turned, throughput)
        ratios = (None if more is None else more / throughput, None if faster is None else faster / speed)
        rows.append(Gain(speed, throughput, *ratios))
    return rows


def is_outside(line: Line, baseline: Line) -> bool | None:
    """Whether every ratio that is defined is above 1; None when none is defined."""
    found = [ratio for gain in gains(line, baseline) for ratio in gain[2:] if ratio is not None]
    return all(ratio > 1 for ratio in found) if found else None

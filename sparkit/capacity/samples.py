"""The curve that measured engine steps make: medians by size, each second charged to what caused it.

>>> steps = [Sample(1, 1, 2, 64, Seconds(draft=0.25, verify=1.0)), Sample(1, None, 1, 64, Seconds(verify=0.5))]
>>> capacity_of(steps).rounds_per_second(1, 2)
0.8
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sparkit.capacity.analytic import measured
from sparkit.capacity.curve import Kind
from sparkit.capacity.steps import Capacity
from sparkit.rounds import Seconds


@dataclass(frozen=True, slots=True)
class Sample:
    """One measured step."""

    num_requests: int
    verify_len: int | None  # None: nothing was drafted
    batch_tokens: int
    context_len: int
    seconds: Seconds


def capacity_of(samples: Iterable[Sample], kind: Kind = "linear", source: str = "measured") -> Capacity:
    """Medians by size; planning counts as overhead, and so does what a target pass takes longer right after a draft.

    A draft pushes the target's weights out of the caches, so the same pass over R anchors is slower behind it than
    behind another pass. Verification is priced without that, or plain decoding would be taken for slower than it is.
    """
    samples = list(samples)
    warm, behind = _passes(samples)
    verify: dict[int, list[float]] = {}
    tables: tuple[dict[int, list[float]], ...] = ({}, {}, {})
    for one in samples:
        seconds, num, (draft, overhead, plain) = one.seconds, one.num_requests, tables
        rest = seconds.schedule + seconds.overhead
        if one.verify_len is None:
            verify.setdefault(one.batch_tokens, []).append(seconds.verify)
            plain.setdefault(num, []).append(rest + seconds.draft)
        else:
            late = behind.get(num, 0.0)
            if one.verify_len > 0 or num not in warm:
                passed = max(seconds.verify - late, warm.get(num, 0.0))
                verify.setdefault(one.batch_tokens, []).append(passed)
            draft.setdefault(num, []).append(seconds.draft)
            overhead.setdefault(num, []).append(rest + late)
    medians = [{size: statistics.median(values) for size, values in table.items()} for table in (verify, *tables)]
    by_requests = [table or {1: 0.0} for table in medians[1:]]
    return measured(medians[0], by_requests[0], by_requests[1], by_requests[2], kind=kind, source=source)


def _passes(samples: Sequence[Sample]) -> tuple[dict[int, float], dict[int, float]]:
    """By R: seconds of a target pass over the anchors, and how much longer it takes right after a draft."""
    passes: tuple[dict[int, list[float]], dict[int, list[float]]] = ({}, {})
    for one in samples:
        if not one.verify_len:
            passes[one.verify_len is None].setdefault(one.num_requests, []).append(one.seconds.verify)
    drafted, warm = ({num: statistics.median(values) for num, values in table.items()} for table in passes)
    return warm, {num: max(0.0, value - warm[num]) for num, value in drafted.items() if num in warm}

"""The curve that measured engine steps make: medians by size, each second charged to what caused it.

>>> steps = [Sample(1, 1, 2, 64, Seconds(draft=0.25, verify=1.0)), Sample(1, None, 1, 64, Seconds(verify=0.5))]
>>> capacity_of(steps).rounds_per_second(1, 2)
0.8
"""

import statistics
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from sparkit.capacity.analytic import measured
from sparkit.capacity.curve import Curve, Kind
from sparkit.capacity.steps import Capacity
from sparkit.rounds import Seconds

K = TypeVar("K", bound=Hashable)

TIE = 1e-5
"""Weight of a request's part of a pass against the rows' part."""
LEAST_SHARE = 0.1
"""Of the smallest pass that always counts as the rows'."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One measured step."""

    num_requests: int
    verify_len: int | None  # None: nothing was drafted
    batch_tokens: int
    context_len: int
    seconds: Seconds
    block_len: int | None = None  # of a shorter block; None: gamma


def capacity_of(
    samples: Iterable[Sample], kind: Kind = "linear", source: str = "measured", gamma: int | None = None
) -> Capacity:
    """Medians by size, so that the steps of every size add up to what they took.

    A target pass over B rows of R requests takes verify(B), and a part that belongs to R: contexts are read, and a
    draft has pushed the weights out of the caches. That part is overhead(R), without the caches' share in
    plain_overhead(R), so that neither plain decoding nor a longer cut is priced by what a draft costs. Steps with
    shorter blocks, verified in no part, price a draft token (`gamma` says how long the others are).
    """
    every = list(samples)
    samples = [one for one in every if one.block_len is None]
    plain = [one for one in samples if one.verify_len is None]
    drafted = [one for one in samples if one.verify_len is not None]
    verify = _verify(plain, drafted)
    passes = Curve(tuple(sorted(verify.items())), kind).envelope()
    draft = _medians((one.num_requests, one.seconds.draft) for one in drafted) or {1: 0.0}

    def rest(steps: Sequence[Sample], known: dict[int, float]) -> dict[int, float]:
        left = ((s.num_requests, s.seconds.total - passes.at(s.batch_tokens)) for s in steps)
        return _medians((num, max(0.0, seconds - known.get(num, 0.0))) for num, seconds in left) or {1: 0.0}

    token = {} if gamma is None else _token(every, gamma)
    return measured(
        verify, draft, rest(drafted, draft), rest(plain, {}), kind=kind, source=source, draft_token=token, gamma=gamma
    )


def _token(samples: Sequence[Sample], gamma: int) -> dict[int, float]:
    """Seconds of one draft token by num_requests: what steps of shorter blocks take less, target passes left out."""
    idle = [one for one in samples if one.verify_len == 0]
    took = _medians(((s.num_requests, s.block_len or gamma), s.seconds.total - s.seconds.verify) for s in idle)
    return {
        num: max(0.0, took[num, gamma] - seconds) / (gamma - length)
        for (num, length), seconds in took.items()
        if length < gamma and (num, gamma) in took
    }


def _verify(plain: Sequence[Sample], drafted: Sequence[Sample]) -> dict[int, float]:
    """Seconds of a target pass by batch_tokens, without what belongs to the requests."""
    warm = _medians((one.batch_tokens, one.seconds.verify) for one in plain)
    rows = _rows(drafted)
    late = max((rows[size] - seconds for size, seconds in warm.items() if size in rows), default=0.0)
    shift = max(0.0, min(late, (1 - LEAST_SHARE) * min(rows.values(), default=0.0)))
    return warm | {size: seconds - shift for size, seconds in rows.items()}


def _rows(drafted: Sequence[Sample]) -> dict[int, float]:
    """By batch_tokens: least squares of median passes = rows(B) + requests(R), tied by the sizes that several R reach.

    Where nothing ties them, the small weight of the second term gives everything to the rows.
    """
    cells: dict[tuple[int, int], list[float]] = {}
    for one in drafted:
        cells.setdefault((one.batch_tokens, one.num_requests), []).append(one.seconds.verify)
    sizes, requests = (sorted(set(column)) for column in zip(*cells, strict=True)) if cells else ([], [])
    design = np.zeros((len(cells), len(sizes) + len(requests)))
    for row, (size, num) in enumerate(cells):
        design[row, sizes.index(size)] = 1.0
        design[row, len(sizes) + requests.index(num)] = TIE
    found = np.linalg.lstsq(design, [statistics.median(values) for values in cells.values()])[0]
    return dict(zip(sizes, found.tolist(), strict=False))


def _medians(values: Iterable[tuple[K, float]]) -> dict[K, float]:
    table: dict[K, list[float]] = {}
    for key, value in values:
        table.setdefault(key, []).append(value)
    return {key: statistics.median(seconds) for key, seconds in table.items()}

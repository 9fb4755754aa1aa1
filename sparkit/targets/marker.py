"""A step is one flat row of tokens; a marker says which request and position each token belongs to.

Dense layers run on the flat row, so a step costs what B = sum(1 + verify_len) costs; only attention looks at the
marker (design section 2): spans side by side attend in one call, padded to the longest, while that costs less than
another call; each long span attends on its own.

>>> mark([Span(slot=0, start=5, count=3)]).positions.tolist()
[5, 6, 7]
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from sparkit.protocols import Span

LONG_SPAN = 24
"""Spans longer than this (prefill chunks) attend on their own, so that they do not pad everybody's queries."""
CALL = 16
"""Padded rows that take as long as another call of attention (40 us of a layer, 2 to 5 us a row on two cores)."""


@dataclass(frozen=True, slots=True)
class Group:
    """Requests whose attention runs in one call: slots lo..hi, queries padded to `width` a slot."""

    lo: int
    hi: int
    width: int
    key_len: int
    first: int  # flat index of the group's first token
    last: int  # one past its last
    scatter: Int[Tensor, " n"] | None  # flat token -> row of the padded queries; None when nothing is padded
    mask: Bool[Tensor, "slots 1 width key_len"] | None  # None: every key is visible


@dataclass(frozen=True)  # without slots, for the kept properties
class Marker:
    """Where every token of a flat row belongs; what nobody asks for is not laid out (a context has no queries)."""

    spans: tuple[Span, ...]
    device: torch.device | str
    bidirectional: bool
    window: int | None

    @cached_property
    def slots(self) -> Int[Tensor, " B"]:
        """Of every token."""
        return _slots(self.spans, self.device)

    @cached_property
    def positions(self) -> Int[Tensor, " B"]:
        """Of every token."""
        return _positions(self.spans, self.device)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """What attends in one call each."""
        groups: list[Group] = []
        first = 0
        for members in _members(self.spans):
            groups.append(_group(members, first, self.device, bidirectional=self.bidirectional, window=self.window))
            first = groups[-1].last
        return tuple(groups)


def _positions(spans: Sequence[Span], device: torch.device | str) -> Int[Tensor, " B"]:
    if len(spans) == 1:
        return torch.arange(spans[0].start, spans[0].start + spans[0].count, device=device)
    flat = [p for span in spans for p in range(span.start, span.start + span.count)]
    return torch.tensor(flat, dtype=torch.int64, device=device)


def _slots(spans: Sequence[Span], device: torch.device | str) -> Int[Tensor, " B"]:
    if len(spans) == 1:
        return torch.full((spans[0].count,), spans[0].slot, dtype=torch.int64, device=device)
    return torch.tensor([s.slot for s in spans for _ in range(s.count)], dtype=torch.int64, device=device)


def _group(
    spans: Sequence[Span], first: int, device: torch.device | str, *, bidirectional: bool, window: int | None
) -> Group:
    lo, hi = min(s.slot for s in spans), max(s.slot for s in spans) + 1
    width = max(s.count for s in spans)
    key_len = max(s.start + s.count for s in spans)
    size = sum(s.count for s in spans)
    in_order = [s.slot for s in spans] == list(range(lo, hi))
    scatter = None
    if not (in_order and all(s.count == width for s in spans)):
        flat = [(s.slot - lo) * width + i for s in spans for i in range(s.count)]
        scatter = torch.tensor(flat, dtype=torch.int64, device=device)
    mask = _mask(spans, lo, hi, width, key_len, device, bidirectional=bidirectional, window=window)
    return Group(lo, hi, width, key_len, first, first + size, scatter, mask)


def _mask(
    spans: Sequence[Span],
    lo: int,
    hi: int,
    width: int,
    key_len: int,
    device: torch.device | str,
    *,
    bidirectional: bool,
    window: int | None,
) -> Bool[Tensor, "slots 1 width key_len"] | None:
    every_key = all(s.start + s.count == key_len for s in spans) and (bidirectional or width == 1)
    if every_key and window is None and len(spans) == hi - lo:
        return None
    starts, ends = [0] * (hi - lo), [1] * (hi - lo)  # an idle slot sees key 0: a row without any key would be nan
    for span in spans:
        starts[span.slot - lo], ends[span.slot - lo] = span.start, span.start + span.count
    start = torch.tensor(starts, device=device)[:, None, None]
    end = torch.tensor(ends, device=device)[:, None, None]
    query = start + torch.arange(width, device=device)[None, :, None]
    key = torch.arange(key_len, device=device)[None, None, :]
    seen = (key < end).expand(-1, width, -1) if bidirectional else (key <= query)
    if window is not None:
        # Padded queries may lie past the window; they keep key 0 so that no row is empty.
        seen = seen & ((key > query - window) | ((key == 0) & (query >= end)))
    return seen[:, None]


def _members(spans: Sequence[Span]) -> Iterator[list[Span]]:
    """Each long span has its own group, and short ones side by side share one while padding costs less than a call."""
    for is_long, run in groupby(spans, lambda span: span.count > LONG_SPAN):
        if is_long:
            yield from ([span] for span in run)
        else:
            yield from _cut(run)


def _cut(run: Iterable[Span]) -> Iterator[list[Span]]:
    """Runs of equal spans, joined while slots from first to last, times the longest span, grow by less than a call."""
    group: list[Span] = []
    lo = hi = width = 0
    for count, equal in groupby(run, lambda span: span.count):
        block = list(equal)
        slots = [span.slot for span in block]
        first, last = min(slots), max(slots) + 1
        together = (max(hi, last) - min(lo, first)) * max(width, count)
        if group and together > (hi - lo) * width + (last - first) * count + CALL:
            yield group
            group = []
        lo, hi, width = (min(lo, first), max(hi, last), max(width, count)) if group else (first, last, count)
        group += block
    yield group


def mark(
    spans: Sequence[Span],
    *,
    device: torch.device | str = "cpu",
    bidirectional: bool = False,
    window: int | None = None,
) -> Marker:
    """Lays out the spans one after the other, in the order given; all tokens of a slot must be in one span.

    Args:
        spans: what each request brings; every count at least 1, slots distinct.
        device: where the index tensors live.
        bidirectional: tokens of a span see each other both ways (draft blocks) instead of causally.
        window: sliding window in positions, or None.

    Raises:
        ValueError: for an empty step, an empty span, or two spans of one slot.
    """
    if not spans or any(s.count < 1 for s in spans):
        raise ValueError(f"mark(spans={list(spans)!r}): expected at least one span and every count >= 1")
    if len({s.slot for s in spans}) != len(spans):
        raise ValueError(f"mark(spans={list(spans)!r}): two spans share a slot; merge them into one")
    return Marker(tuple(spans), device, bidirectional, window)

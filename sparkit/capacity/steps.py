"""The cost of an engine step in parts, and the rates a scheduler looks up."""

import functools
import logging
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sparkit.capacity.curve import FREE, Curve, Kind
from sparkit.capacity.document import SCHEMA, read_fields
from sparkit.files import read_json, write_json

log = logging.getLogger("sparkit.capacity")


@dataclass(frozen=True, slots=True)
class Capacity:
    """The cost of a step in parts; immutable and hashable, so look-up tables are cached by value."""

    verify: Curve  # seconds by batch_tokens
    draft: Curve = FREE  # seconds by num_requests, catching up included
    overhead: Curve = FREE  # seconds by num_requests, of a drafted step: all the rest, reading contexts included
    plain_overhead: Curve = FREE  # the same of an undrafted step
    source: str = "table"  # where the numbers come from, for reports
    is_measured: bool = False  # whether seconds are wall seconds of a device
    raw_verify: Curve | None = None  # as measured, before the monotone envelope
    draft_token: Curve = FREE  # seconds by num_requests that blocks of one token less save
    gamma: int | None = None  # the block length that `draft` is for

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
        """The target's forward pass over B tokens, without what belongs to the requests (their contexts)."""
        return self.verify.at(batch_tokens)

    @property
    def prices_blocks(self) -> bool:
        """Whether a shorter block is known to be cheaper."""
        return self.gamma is not None and any(seconds > 0 for _, seconds in self.draft_token.points)

    def draft_seconds(self, num_requests: int, block_len: int | None = None) -> float:
        """Proposing one block for each of R requests; None: a whole one."""
        whole = self.draft.at(num_requests)
        if block_len is None or self.gamma is None:
            return whole
        return max(0.0, whole - (self.gamma - block_len) * self.draft_token.at(num_requests))

    def overhead_seconds(self, num_requests: int) -> float:
        """Everything else of a drafted step."""
        return self.overhead.at(num_requests)

    def rounds_per_second(self, num_requests: int, batch_tokens: int, block_len: int | None = None) -> float:
        """SPS(R, B), the draft counted."""
        fixed = self.draft_seconds(num_requests, block_len) + self.overhead_seconds(num_requests)
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
        self,
        num_requests: int,
        base_tokens: int,
        max_drafts: int,
        like: Float[Tensor, "..."],
        block_len: int | None = None,
    ) -> Float[Tensor, " points"]:
        """SPS(R, base_tokens + j) for j = 0..max_drafts: a slice of a table kept on the device of `like`."""
        if self.is_flat:
            _say_flat()
        last = base_tokens + max_drafts
        if self.is_measured and last > self.verify.last_size:
            _say_outside(self.source, self.verify.last_size)
        table = _table(self, num_requests, block_len, 1 << max(6, last.bit_length()), like.device, like.dtype)
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
        known = ("schema", "kind", *cls.__dataclass_fields__)
        try:
            return cls(**read_fields(document, where, SCHEMA, known))
        except ValueError as error:
            raise ValueError(str(error) if str(error).startswith(where) else f"{where}: {error}") from error


@functools.lru_cache(maxsize=256)
def _table(
    capacity: Capacity, num_requests: int, block_len: int | None, size: int, device: torch.device, dtype: torch.dtype
) -> Float[Tensor, " size"]:
    fixed = capacity.draft_seconds(num_requests, block_len) + capacity.overhead_seconds(num_requests)
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

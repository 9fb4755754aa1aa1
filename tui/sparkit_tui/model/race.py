"""A race of real engines on one prompt: each lane has its own run, and its clock counts its own engine seconds only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

from sparkit_tui.model.run import Run


@dataclass(frozen=True, slots=True)
class Standing:
    """One lane as it stands."""

    name: str
    num_tokens: int
    limit: int
    seconds: float
    tokens_per_second: float
    tau: float
    is_finished: bool
    place: int | None  # 1 for the most tokens a second among those finished: texts may stop at different lengths
    speedup: float  # tokens a second over plain decoding's; nan before plain has run

    @property
    def share(self) -> float:
        """How far it has come."""
        return 1.0 if self.is_finished else min(1.0, self.num_tokens / max(self.limit, 1))


def standings(lanes: Sequence[tuple[str, Run]], limit: int) -> list[Standing]:
    """Every lane, in the order of the grid."""
    finished = sorted((-run.tokens_per_second, name) for name, run in lanes if run.is_over)
    places = {name: place for place, (_, name) in enumerate(finished, start=1)}
    plain = next((run.tokens_per_second for name, run in lanes if name == "plain"), nan)
    return [
        Standing(
            name=name,
            num_tokens=run.num_tokens,
            limit=limit,
            seconds=run.engine_seconds,
            tokens_per_second=run.tokens_per_second,
            tau=run.tally.tau,
            is_finished=run.is_over,
            place=places.get(name),
            speedup=run.tokens_per_second / plain,
        )
        for name, run in lanes
    ]

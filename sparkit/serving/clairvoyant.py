"""The most that any scheduler could have made of a recorded run: what one makes that knows how every block ends.

It verifies nothing in vain, so a step is a number K of drafts, taken from the requests whose blocks go furthest:
R + K tokens, in the seconds of the requests that draft and of base_tokens + K; or a step of plain decoding. Over the
run tokens per second are largest where every step maximises tokens - rate * seconds at the rate so reached (Dinkelbach
1967); a few rounds of it get there. What a real scheduler lacks to it is the price of not knowing, on that curve.

    most(read_trace(path), roofline())

Not done here: deciding without knowing (`sparkit.serving.replay`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from sparkit.capacity import Capacity
from sparkit.rounds import Round
from sparkit.serving.replay import Totals, steps_of
from sparkit.serving.sources import check_full, check_rejection
from sparkit.traces import Trace

MOST_TRIES = 100  # the choice stands after three to five


class Options(NamedTuple):
    """One recorded step, by the number of drafts verified: index K holds what K cost; 0 is a step without a draft."""

    num_requests: int
    possible: int  # drafts that would be accepted
    seconds: Float[np.ndarray, " K"]


def most(trace: Trace, capacity: Capacity, token_budget: int | None = None, where: str = "trace") -> Totals:
    """The totals of the scheduler that knows, per recorded round like a replay's.

    Args:
        trace: verified in full, by rejection.
        capacity: what steps cost.
        token_budget: most target tokens of a step, or None.
        where: how errors call the trace.

    Raises:
        ValueError: for a trace of another verifier than rejection, one with cut rounds, or without drafts.
    """
    check_rejection(trace, where)
    check_full(trace, where)
    steps = [_options(step, capacity, token_budget) for step in steps_of(trace.rounds)]
    rounds = sum(step.num_requests for step in steps)
    verified, seconds = _best_at(0.0, steps)
    for _ in range(MOST_TRIES):
        found = _best_at((rounds + verified) / seconds, steps)
        if found == (verified, seconds):
            break
        verified, seconds = found
    missed = sum(step.possible for step in steps) - verified
    return Totals(len(steps), rounds, verified, verified, 0, missed, rounds + verified, seconds)


def _best_at(rate: float, steps: Sequence[Options]) -> tuple[int, float]:
    """Drafts verified and seconds taken where every step maximises tokens - rate * seconds."""
    chosen = [int(np.argmax(np.arange(len(step.seconds)) - rate * step.seconds)) for step in steps]
    return sum(chosen), sum(float(step.seconds[k]) for step, k in zip(steps, chosen, strict=True))


def _options(step: Sequence[Round], capacity: Capacity, token_budget: int | None) -> Options:
    gains = sorted((one.tau - 1 for one in step if one.kind == "drafted"), reverse=True)
    drafting = [m for m, gain in enumerate(gains, 1) for _ in range(gain)]  # who has to draft for the K-th
    base = step[0].base_tokens
    room = len(drafting) if token_budget is None else max(0, min(len(drafting), token_budget - base))
    drafted = [1 / capacity.rounds_per_second(m, base + k) for k, m in enumerate(drafting[:room], 1)]
    plain = 1 / capacity.undrafted_rate(len(step), base)
    return Options(len(step), len(drafting), np.array([plain, *drafted]))

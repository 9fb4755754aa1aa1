"""Decides a recorded run again under another policy, without a model.

Every recorded round is decided where it was recorded: a shorter cut would have led on to other blocks, so totals are
per recorded round and not another run. wasted = verified and thrown away; missed = would have been accepted, was not
verified. Throughput is that of the given curve: an estimate.

    replay(read_trace(path), policy)
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch

from sparkit.rounds import Round
from sparkit.serving.policy import Batch, Policy
from sparkit.serving.sources import check_full, check_rejection
from sparkit.traces import Trace


@dataclass(frozen=True, slots=True)
class Totals:
    """A run in sums; rounds are request-rounds without prefill."""

    num_steps: int
    num_rounds: int
    verified: int
    accepted: int
    wasted: int
    missed: int | None  # None: unverified drafts are unknown
    tokens: int
    seconds: float

    @property
    def tau(self) -> float | None:
        """Tokens per request-round."""
        return self.tokens / self.num_rounds if self.num_rounds else None

    @property
    def tokens_per_second(self) -> float | None:
        """Over all steps that decode."""
        return self.tokens / self.seconds if self.seconds else None

    @property
    def mean_verify_len(self) -> float | None:
        """Drafts verified per request-round."""
        return self.verified / self.num_rounds if self.num_rounds else None


def recorded(rounds: Iterable[Round]) -> Totals:
    """What a run did, by its own clock; steps that only prefill are left out."""
    steps = steps_of(rounds)
    decoded = [one for step in steps for one in step]
    verified, accepted = sum(one.verify_len for one in decoded), sum(one.accepted for one in decoded)
    is_full = all(one.verify_len == one.ceiling for one in decoded if one.kind == "drafted")
    return Totals(
        len(steps), len(decoded), verified, accepted, verified - accepted, 0 if is_full else None,
        sum(one.tau for one in decoded), sum(step[0].seconds.total for step in steps),
    )  # fmt: skip


def steps_of(rounds: Iterable[Round]) -> list[list[Round]]:
    """Decoding rounds by engine step (a step's number starts anew with every engine: neighbours belong together)."""
    steps: list[list[Round]] = []
    for one in rounds:
        if one.kind != "prefill":
            if not steps or steps[-1][0].step != one.step:
                steps.append([])
            steps[-1].append(one)
    return steps


def replay(trace: Trace, policy: Policy, where: str = "trace") -> Totals:
    """The totals of a full-verification trace under another policy.

    Raises:
        ValueError: for a trace of another verifier than rejection, one with cut rounds, or without drafts.
    """
    check_rejection(trace, where)
    check_full(trace, where)
    memories, sums, seconds = policy.start(), [0, 0, 0, 0, 0], 0.0
    steps = steps_of(trace.rounds)
    for number, step in enumerate(steps, 1):
        resting, step = _parted(step)
        sums[0], sums[4] = sums[0] + len(resting), sums[4] + sum(one.tau for one in resting)
        if not step:
            seconds += 1 / policy.capacity.undrafted_rate(len(resting), resting[0].base_tokens)
            continue
        batch = replace(batch_of(step, trace), num_resting=len(resting))
        decided, memories = policy.step(batch, memories, number)
        kept = (1 + decided.accepted).tolist()
        found = (len(step), int(decided.verify_len.sum()), int(decided.accepted.sum()), int(batch.accepted.sum()))
        emitted = sum(min(one.tau, n) for one, n in zip(step, kept, strict=True))
        sums = [a + b for a, b in zip(sums, (*found, emitted), strict=True)]
        seconds += decided.seconds
    num_rounds, verified, accepted, possible, tokens = sums
    return Totals(
        len(steps), num_rounds, verified, accepted, verified - accepted, possible - accepted, tokens, seconds
    )  # fmt: skip


def _parted(step: Sequence[Round]) -> tuple[list[Round], list[Round]]:
    """Requests that took a plain token, and those that drafted."""
    return [one for one in step if one.kind != "drafted"], [one for one in step if one.kind == "drafted"]


def batch_of(step: Sequence[Round], trace: Trace) -> Batch:
    """One recorded step as a policy sees it."""
    requests = trace.header.requests
    nan = float("nan")
    soft = [[*one.accept_rate, *[nan] * (trace.header.gamma - len(one.accept_rate))] for one in step]
    return Batch(
        tuple(one.request for one in step),
        torch.tensor([int(requests.get(one.request, {}).get("seed", one.request)) for one in step]),
        torch.tensor([one.anchor_position for one in step]),
        torch.tensor([one.logits for one in step], dtype=torch.float64),
        torch.tensor([one.accepted for one in step]),
        torch.tensor(soft, dtype=torch.float64),
        torch.tensor([one.ceiling for one in step]),
        step[0].base_tokens,
    )

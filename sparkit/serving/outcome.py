"""What a simulation wrote down step by step, and the numbers that are made of it after the warm-up."""

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from sparkit.serving.load import Load

WARM_UP = 0.2  # share of the steps that no number counts


@dataclass(frozen=True, slots=True)
class Outcome:
    """One policy under one load, after the warm-up."""

    policy: str
    users: int | None
    rate: float | None
    num_steps: int
    num_rounds: int  # request-rounds
    seconds: float  # simulated
    tokens: int
    tokens_per_second: float
    user_tokens_per_second: float | None  # of a request that is decoding, on average
    user_percentiles: tuple[float, float, float] | None  # 10, 50, 90% of finished requests
    first_token_percentiles: tuple[float, float, float] | None  # seconds from arrival
    budget: float | None  # target tokens of a decoding request and step, anchor included
    tau: float | None
    wasted_share: float | None  # of the verified drafts
    undrafted_share: float
    mean_requests: float
    mean_waiting: float
    num_finished: int


class StepLine(NamedTuple):
    """One engine step."""

    seconds: float
    requests: int  # decoding
    tokens: int  # emitted
    verified: int  # drafts
    accepted: int
    is_undrafted: bool
    waiting: int


@dataclass(slots=True)
class Log:
    """Numbers of every step, and of every finished request."""

    steps: list[StepLine] = field(default_factory=list)
    finished: list[tuple[int, Tensor, Tensor]] = field(default_factory=list)  # step, speeds, first-token seconds


def outcome(log: Log, policy: str, load: Load) -> Outcome:
    """The numbers of a simulation, its first fifth left out."""
    num = len(log.steps)
    first = int(WARM_UP * num)
    table = torch.tensor(log.steps[first:], dtype=torch.float64)
    seconds, requests, tokens, verified, accepted, undrafted, waiting = table.unbind(1)
    kept = [(speed, wait) for number, speed, wait in log.finished if number > first]
    rounds, user_seconds = int(requests.sum()), float((requests * seconds).sum())
    decoded = rounds + float(accepted.sum())
    is_decoding = requests > 0
    return Outcome(
        policy=policy,
        users=load.users,
        rate=load.rate,
        num_steps=len(table),
        num_rounds=rounds,
        seconds=float(seconds.sum()),
        tokens=int(tokens.sum()),
        tokens_per_second=float(tokens.sum() / seconds.sum()),
        user_tokens_per_second=decoded / user_seconds if user_seconds else None,
        user_percentiles=_percentiles([speed for speed, _ in kept]),
        first_token_percentiles=_percentiles([wait for _, wait in kept]),
        budget=1 + float(verified.sum()) / rounds if rounds else None,
        tau=decoded / rounds if rounds else None,
        wasted_share=1 - float(accepted.sum() / verified.sum()) if float(verified.sum()) else None,
        undrafted_share=float(undrafted.sum() / is_decoding.sum().clamp(min=1)),
        mean_requests=float(requests.mean()),
        mean_waiting=float(waiting.mean()),
        num_finished=sum(len(speed) for speed, _ in kept),
    )


def _percentiles(parts: list[Tensor]) -> tuple[float, float, float] | None:
    values = torch.cat(parts).double() if parts else torch.zeros(0)
    if len(values) < 10:
        return None
    low, middle, high = values.quantile(torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64)).tolist()
    return low, middle, high

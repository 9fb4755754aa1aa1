"""Blocks drawn from acceptance rates: the paper's, or any by domain and position.

>>> published().gamma
7
"""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from sparkit.decisions import hash_address, to_uniform
from sparkit.serving.sources import Blocks

PUBLISHED_TAU = {  # Qwen3-4B, DSpark, gamma 7 [method section 9]
    "math": (6.11, 5.70, 4.89),
    "code": (5.13, 5.38, 4.86),
    "chat": (3.64, 3.54, 3.29),
}


def flat_rate(tau: float, gamma: int) -> float:
    """The conditional acceptance that, the same at every position, gives this accepted length (bonus included)."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(middle**k for k in range(gamma + 1)) < tau else (low, middle)
    return low


def published(
    gamma: int = 7, spread: float = 1.5, num_requests: int = 64, num_rounds: int = 64, seed: int = 0
) -> Blocks:
    """Blocks after the published accepted lengths: flat conditional acceptance, as published for DSpark.

    Rates vary from position to position as sigmoid(mu + spread z), mu set so that their mean is the published one,
    and the confidence is the rate itself: a perfectly calibrated head. `spread` is our assumption, not the paper's.
    """
    rates = {name: (flat_rate(sum(taus) / len(taus), 7),) * gamma for name, taus in PUBLISHED_TAU.items()}
    return from_rates(rates, spread, num_requests, num_rounds, seed, f"published, Qwen3-4B DSpark, gamma {gamma}")


def from_rates(
    rates: Mapping[str, Sequence[float]], spread: float, num_requests: int, num_rounds: int, seed: int, name: str
) -> Blocks:
    """Blocks drawn from conditional acceptance by domain and position; every draw has an address."""
    domains = tuple(rates)
    num = num_requests * num_rounds
    mean = torch.tensor([list(rates[d]) for d in domains], dtype=torch.float64)
    if not bool(((mean > 0) & (mean < 1)).all()):
        raise ValueError(f"acceptance rates {dict(rates)}: expected numbers between 0 and 1")
    noise, coin = (_uniform(seed, purpose, len(domains), num, mean.shape[1]) for purpose in (1, 2))
    logits = _location(mean, spread)[:, None] + spread * torch.special.ndtri(noise + 2.0**-54)
    rate = torch.sigmoid(logits)
    accepted = (coin < rate).long().cumprod(-1).sum(-1)
    count = torch.full((len(domains) * num_requests,), num_rounds)
    domain = torch.arange(len(domains)).repeat_interleave(num)
    flat = (logits.flatten(0, 1), accepted.flatten(), rate.flatten(0, 1), domain)
    return Blocks(*flat, count.cumsum(0) - count, count, domains, name)


def _uniform(seed: int, purpose: int, domains: int, num: int, gamma: int) -> Float[Tensor, "domains N gamma"]:
    words = [torch.tensor(seed), torch.tensor(purpose), torch.arange(domains)[:, None, None]]
    return to_uniform(hash_address(*words, torch.arange(num)[:, None], torch.arange(gamma)))


def _location(mean: Float[Tensor, "domains gamma"], spread: float) -> Float[Tensor, "domains gamma"]:
    """The location mu with E sigmoid(mu + spread z) = mean, by bisection over 401 quantiles of z."""
    z = torch.special.ndtri((torch.arange(401, dtype=torch.float64) + 0.5) / 401)
    low, high = torch.full_like(mean, -40.0), torch.full_like(mean, 40.0)
    for _ in range(60):
        middle = (low + high) / 2
        is_low = torch.sigmoid(middle[..., None] + spread * z).mean(-1) < mean
        low, high = torch.where(is_low, middle, low), torch.where(is_low, high, middle)
    return low

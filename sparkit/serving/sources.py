"""Where acceptance comes from: blocks that were verified in full, recorded or drawn from published rates.

With every draft verified by token-wise rejection, what a shorter cut l would have accepted is min(accepted, l): the
block can be decided again under any policy. Block verification accepts by the whole cut, so its traces say nothing
about another cut and are refused.

>>> published().gamma
7
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sparkit.decisions import hash_address, to_uniform
from sparkit.labels import records_of
from sparkit.rounds import Round
from sparkit.traces import Trace, read_trace

PUBLISHED_TAU = {  # Qwen3-4B, DSpark, gamma 7 [method section 9]
    "math": (6.11, 5.70, 4.89),
    "code": (5.13, 5.38, 4.86),
    "chat": (3.64, 3.54, 3.29),
}


@dataclass(frozen=True, slots=True)
class Blocks:
    """Full-verification rounds, the rounds of one request side by side, in order."""

    logits: Float[Tensor, "N gamma"]  # raw confidence logits
    accepted: Int[Tensor, " N"]  # of the whole block
    accept_rate: Float[Tensor, "N gamma"]  # soft labels
    domain: Int[Tensor, " N"]  # index into `domains`
    first: Int[Tensor, " requests"]  # first row of each request
    count: Int[Tensor, " requests"]  # rows of each request
    domains: tuple[str, ...]
    name: str

    def __len__(self) -> int:
        return len(self.accepted)

    @property
    def gamma(self) -> int:
        """Draft positions."""
        return self.logits.shape[1]

    def request_domain(self) -> Int[Tensor, " requests"]:
        """The domain of every recorded request."""
        return self.domain[self.first]

    def half(self, odd: bool) -> "Blocks":
        """Every other request: one half fits, the other judges."""
        return self.keep(torch.arange(len(self.first)) % 2 == int(odd))

    def of_domain(self, name: str) -> "Blocks":
        """The requests of one domain.

        Raises:
            LookupError: for a domain that was not recorded.
        """
        if name not in self.domains:
            raise LookupError(f"no rounds of domain {name!r} in {self.name}; there are {', '.join(self.domains)}")
        return self.keep(self.request_domain() == self.domains.index(name))

    def keep(self, chosen: Bool[Tensor, " requests"]) -> "Blocks":
        """Some requests."""
        first, count = self.first[chosen], self.count[chosen]
        rows = torch.cat(
            [torch.arange(f, f + c) for f, c in zip(first.tolist(), count.tolist(), strict=True)] or [first]
        )
        start = count.cumsum(0) - count
        columns = (self.logits[rows], self.accepted[rows], self.accept_rate[rows], self.domain[rows])
        return Blocks(*columns, start, count, self.domains, self.name)

    def cut(self, gamma: int) -> "Blocks":
        """The same blocks drafted shorter (an MTP-1 is the first position of its chain)."""
        if not 1 <= gamma <= self.gamma:
            raise ValueError(f"gamma={gamma}: {self.name} was recorded with gamma {self.gamma}; expected 1 to that")
        columns = (self.logits[:, :gamma], self.accepted.clamp(max=gamma), self.accept_rate[:, :gamma], self.domain)
        return Blocks(*columns, self.first, self.count, self.domains, self.name)

    def prefix_acceptance(self) -> Float[Tensor, "domains gamma"]:
        """Share of blocks whose first k drafts were accepted, by domain."""
        positions = torch.arange(self.gamma)
        reached = (self.accepted[:, None] > positions).double()
        rows = [reached[self.domain == d].mean(0) for d in range(len(self.domains))]
        return torch.stack(rows)


def check_rejection(trace: Trace, where: str) -> None:
    """Only token-wise rejection lets a block be cut elsewhere afterwards.

    Raises:
        ValueError: saying why another verifier's trace cannot be decided again.
    """
    verifier = str(trace.header.recipe.get("verifier", "rejection")).partition(":")[0]
    if verifier != "rejection":
        raise ValueError(
            f"{where}: recorded with verifier {verifier!r}, whose acceptance at one cut does not tell what another cut "
            "would accept; record with --verifier rejection --scheduler fixed"
        )


def check_full(trace: Trace, where: str) -> None:
    """Every round must have verified all it could, with drafts of the header's gamma.

    Raises:
        ValueError: for rounds that were cut, another gamma, or no drafted round.
    """
    drafted = [one for one in trace.rounds if one.kind == "drafted"]
    if not drafted:
        raise ValueError(f"{where}: holds no drafted round; record with a drafter and --scheduler fixed")
    wrong = {len(one.logits) for one in drafted} - {trace.header.gamma}
    if wrong:
        raise ValueError(f"{where}: the header says gamma {trace.header.gamma}, a round has {wrong.pop()}; record anew")
    cut = sum(one.verify_len < one.ceiling for one in drafted)
    if cut:
        raise ValueError(
            f"{where}: {cut} of {len(drafted)} rounds were cut short, and what their unverified drafts would have "
            "become is unknown; record with --scheduler fixed and no token budget"
        )


def from_traces(paths: Sequence[Path]) -> Blocks:
    """The full-verification rounds of some traces of one composition.

    Raises:
        ValueError: for traces cut short, of another verifier, or of different gamma.
    """
    groups: list[list[Round]] = []
    labels: list[str] = []
    gammas: dict[int, Path] = {}
    for path in paths:
        trace = read_trace(path)
        check_rejection(trace, str(path))
        check_full(trace, str(path))
        gammas.setdefault(trace.header.gamma, path)
        for number, rounds in _by_request(trace.rounds).items():
            groups.append(rounds)
            labels.append(str(trace.header.requests.get(number, {}).get("label") or "all"))
    if len(gammas) != 1:
        given = ", ".join(f"{gamma} ({path})" for gamma, path in gammas.items())
        raise ValueError(f"traces of different gamma: {given}; give traces of one composition")
    return of_rounds(groups, labels, ", ".join(path.name for path in paths))


def _by_request(rounds: Iterable[Round]) -> dict[int, list[Round]]:
    """Whole blocks only: a round at its request's end could verify fewer than gamma and tells nothing of the rest."""
    groups: dict[int, list[Round]] = {}
    for one in rounds:
        if one.kind == "drafted" and one.verify_len == len(one.logits):
            groups.setdefault(one.request, []).append(one)
    return groups


def of_rounds(groups: Sequence[Sequence[Round]], labels: Sequence[str], name: str) -> Blocks:
    """Blocks of rounds grouped by request.

    Raises:
        ValueError: when no round verified a whole block.
    """
    if not groups:
        raise ValueError(f"{name}: no round verified a whole block; record longer texts")
    records = records_of(one for group in groups for one in group)
    domains = tuple(dict.fromkeys(labels))
    count = torch.tensor([len(group) for group in groups])
    domain = torch.tensor([domains.index(label) for label in labels]).repeat_interleave(count)
    return Blocks(
        records.logits, records.accepted, records.accept_rate, domain, count.cumsum(0) - count, count, domains, name
    )


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

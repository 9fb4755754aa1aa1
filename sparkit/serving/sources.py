"""Where acceptance comes from: blocks that were verified in full, recorded here (`published` draws them from rates).

With every draft verified by token-wise rejection, what a shorter cut l would have accepted is min(accepted, l): the
block can be decided again under any policy. Block verification accepts by the whole cut, so its traces say nothing
about another cut and are refused.

>>> from_traces([])
Traceback (most recent call last):
ValueError: no trace given; record one with `sparkit compose --scheduler fixed --trace FILE`
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sparkit.labels import records_of
from sparkit.rounds import Round
from sparkit.traces import Trace, read_trace


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
    if not paths:
        raise ValueError("no trace given; record one with `sparkit compose --scheduler fixed --trace FILE`")
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

"""How much of what could be had a scheduler gets: tokens per second beside those of a reference that knows the rates.

Reference K: each active request is of a class (domain, tenth of c_1); its expected survivals are the class's mean
prefix acceptance on the OTHER half of the recorded requests; K maximises (R + sum of the K largest) * SPS(R, R + K).
The K largest current survivals are admitted, as the production schedulers do. Both see the same rounds, every step.

    regret(policy, blocks, num_requests=16)
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sparkit.serving.load import TEXT, uniform
from sparkit.serving.policy import Batch, Policy
from sparkit.serving.sources import Blocks
from sparkit.survival import queue_of, search_limit, survival_of

NUM_CLASSES = 10
WARM_UP = 0.2


@dataclass(frozen=True, slots=True)
class Regret:
    """A policy and the reference over the same rounds."""

    policy: str
    num_requests: int
    num_steps: int
    tokens_per_second: float
    reference_tokens_per_second: float
    mean_verify_len: float
    reference_mean_verify_len: float

    @property
    def attained(self) -> float:
        """The policy's share of the reference's throughput; regret is what is missing to 1."""
        return self.tokens_per_second / self.reference_tokens_per_second


@dataclass(frozen=True, slots=True)
class Expected:
    """Mean prefix acceptance by domain and tenth of the first raw confidence."""

    edges: Float[Tensor, "domains nine"]
    table: Float[Tensor, "domains ten gamma"]

    @classmethod
    def of(cls, blocks: Blocks) -> "Expected":
        """Rates of some recorded rounds; a class nobody fell into has its domain's."""
        quantiles = torch.arange(1, NUM_CLASSES, dtype=torch.float64) / NUM_CLASSES
        reached = (blocks.accepted[:, None] > torch.arange(blocks.gamma)).double()
        edges, table = [], []
        for domain in range(len(blocks.domains)):
            rows = blocks.domain == domain
            first = blocks.logits[rows, 0].double().contiguous()
            edge = first.quantile(quantiles) if len(first) else torch.zeros(NUM_CLASSES - 1, dtype=torch.float64)
            classes = torch.searchsorted(edge, first, right=True)
            count = torch.bincount(classes, minlength=NUM_CLASSES)[:, None]
            sums = reached.new_zeros(NUM_CLASSES, blocks.gamma).index_add(0, classes, reached[rows])
            mean = reached[rows].mean(0) if len(first) else reached.mean(0)
            edges.append(edge)
            table.append(torch.where(count > 0, sums / count.clamp(min=1), mean))
        return cls(torch.stack(edges), torch.stack(table))

    def of_rows(self, domain: Int[Tensor, " R"], first: Float[Tensor, " R"]) -> Float[Tensor, "R gamma"]:
        """Expected survivals of some requests."""
        classes = torch.searchsorted(self.edges[domain].contiguous(), first.double().contiguous()[:, None], right=True)[
            :, 0
        ]
        return self.table[domain, classes]


def walks(blocks: Blocks, num_requests: int, num_steps: int, seed: int) -> Int[Tensor, "steps R"]:
    """Rows of the source: each of R users goes through one recorded request after the other."""
    columns = []
    for user in range(num_requests):
        parts: list[Tensor] = []
        turn = 0
        while sum(len(part) for part in parts) < num_steps + 1:
            place = uniform(seed, TEXT, torch.tensor([user + 1]), torch.tensor([turn]))
            text = int(place * len(blocks.first))
            parts.append(blocks.first[text] + torch.arange(int(blocks.count[text])))
            turn += 1
        skip = int(uniform(seed, TEXT, torch.tensor([user + 1]), torch.tensor([-1])) * len(parts[0]))
        columns.append(torch.cat((*parts, parts[0]))[skip : skip + num_steps])
    return torch.stack(columns, dim=1)


def batch_of(blocks: Blocks, rows: Int[Tensor, " R"], number: int) -> Batch:
    """One step of users that never end."""
    num = len(rows)
    users = torch.arange(num)
    ceiling = torch.full((num,), blocks.gamma)
    columns = (blocks.logits[rows], blocks.accepted[rows], blocks.accept_rate[rows])
    return Batch(tuple(range(num)), users, torch.full((num,), number), *columns, ceiling, num)


def regret(policy: Policy, blocks: Blocks, num_requests: int, num_steps: int = 600, seed: int = 0) -> Regret:
    """Judged on both halves of the source, each with the other half's rates.

    Raises:
        ValueError: for a source of fewer than two requests, no request to serve, or fewer than two steps.
    """
    if num_requests < 1 or num_steps < 2:
        raise ValueError(f"regret of {num_requests} requests over {num_steps} steps: expected 1 or more, 2 or more")
    if len(blocks.first) < 2:
        raise ValueError(f"{blocks.name}: one recorded request cannot be halved; record at least two")
    sums = sum(_half(policy, blocks, odd, num_requests, num_steps // 2, seed) for odd in (False, True))
    steps, tokens, seconds, verified, best_tokens, best_seconds, best_verified = sums.tolist()  # type: ignore[union-attr]
    rounds = num_requests * steps
    return Regret(
        policy.name, num_requests, int(steps), tokens / seconds, best_tokens / best_seconds, verified / rounds,
        best_verified / rounds,
    )  # fmt: skip


def _half(policy: Policy, blocks: Blocks, odd: bool, num: int, num_steps: int, seed: int) -> Float[Tensor, " sums"]:
    expected, judged = Expected.of(blocks.half(not odd)), blocks.half(odd)
    memories, sums = policy.start(), torch.zeros(7, dtype=torch.float64)
    for number, rows in enumerate(walks(judged, num, num_steps, seed), 1):
        batch = batch_of(judged, rows, number)
        confidence = policy.calibrator.calibrate(batch.logits, memories.calibrator)
        limits = policy.limits(batch, memories)
        decided, memories = policy.step(batch, memories, number)
        predicted = expected.of_rows(judged.domain[rows], batch.logits[:, 0])
        rates = policy.capacity.rates(num, num, predicted.numel(), predicted)
        limit = search_limit(predicted, limits, rates)
        plan = queue_of(survival_of(confidence), limits).admit_first(limit)
        if number > WARM_UP * num_steps:
            best_seconds = 1 / policy.capacity.rounds_per_second(num, num + int(plan.verify_len.sum()))
            best = num + int(torch.minimum(batch.accepted, plan.verify_len).sum())
            mine = (num + int(decided.accepted.sum()), decided.seconds, int(decided.verify_len.sum()))
            sums += torch.tensor((1, *mine, best, best_seconds, int(plan.verify_len.sum())), dtype=torch.float64)
    return sums

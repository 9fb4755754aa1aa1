"""Toy worlds to try a composition on: tables, a capacity curve, requests, filters; drawn at random, then made small.

What hides a bias is chosen often: ties, confidences of exactly 0 and 1, a c_2 that differs with x_1, and a cliff of the
capacity curve built from those very confidences, so that a scheduler that looks past its cut has something to see.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction

from sparkit.capacity import Capacity, from_rates
from sparkit.engine import Parts, Request
from sparkit.proofs.problem import Problem, num_branches
from sparkit.proofs.twins import Row, Tables, appendix_a
from sparkit.sampling import SamplingParams

CONFIDENCES = tuple(Fraction(n, 20) for n in (0, 4, 10, 10, 16, 18, 18, 20))
PARTS = (1, 1, 2, 3, 5, 7)
MAX_SIZE = 1200
"""Branches of a world, unless the sizes that are fixed need more."""
MOST = 60_000


@dataclass(frozen=True, slots=True)
class Example:
    """One toy world."""

    tables: Tables
    rates: tuple[float, ...]  # rounds per second at 1, 2, ... batch tokens
    requests: int = 1
    horizon: int = 1
    spare: int = 2  # tokens a request may generate beyond the horizon
    params: SamplingParams = field(default_factory=SamplingParams)
    token_budget: int | None = None

    @property
    def gamma(self) -> int:
        """Draft positions."""
        return self.tables.gamma

    @property
    def size(self) -> int:
        """An upper bound of its branches."""
        return num_branches(self.tables.vocab_size, self.gamma, self.requests, self.horizon)

    @property
    def capacity(self) -> Capacity:
        """The curve."""
        return from_rates(self.rates)

    def problem(self, parts: Parts) -> Problem:
        """The question this world puts to a composition."""
        length = self.horizon + 1 + self.spare
        requests = tuple(
            Request((r % self.tables.vocab_size,), seed=r, max_new_tokens=length, params=self.params)
            for r in range(self.requests)
        )
        return Problem(parts, requests, self.gamma, self.horizon, self.token_budget)


def paper() -> Example:
    """Appendix A with its curve."""
    return Example(appendix_a(), (1.0, 0.5, 0.45))


@dataclass(frozen=True, slots=True)
class Limits:
    """What a search keeps fixed; None: any."""

    vocab_size: int | None = None
    gamma: int | None = None
    horizon: int | None = None
    requests: int | None = None
    params: SamplingParams | None = None
    is_flat: bool = False
    token_budget: int | None = None
    max_size: int = MAX_SIZE

    @property
    def least_size(self) -> int:
        """The smallest world that the fixed sizes leave."""
        return num_branches(self.vocab_size or 2, self.gamma or 1, self.requests or 1, self.horizon or 1)

    def check(self) -> None:
        """Refuses sizes that no search could finish.

        Raises:
            ValueError: with the number of branches and the limit.
        """
        if self.least_size > MOST:
            raise ValueError(
                f"these sizes take up to {self.least_size:.3g} branches a world, and a search allows {MOST}; "
                "lower --gamma, --horizon or --requests (gamma 2, horizon 2 and 2 requests are enough to catch a bias)"
            )


def examples(seed: int, limits: Limits) -> Iterator[Example]:
    """An endless row of worlds: the paper's first, then random ones; the same seed gives the same row."""
    limits.check()
    most = max(limits.max_size, limits.least_size)
    rng = random.Random(seed)
    if limits.vocab_size in (None, 2) and limits.gamma in (None, 2) and limits.requests in (None, 1):
        first = paper()
        rates = (1.0,) if limits.is_flat else first.rates
        params = limits.params or SamplingParams()
        yield replace(first, rates=rates, params=params, horizon=limits.horizon or 1, token_budget=limits.token_budget)
    while True:
        one = _draw(rng, limits)
        if one.size <= most:
            yield one


def _draw(rng: random.Random, limits: Limits) -> Example:
    V = limits.vocab_size or rng.choice((2, 2, 2, 3))
    gamma = limits.gamma or rng.choice((1, 2, 2, 2, 3))
    requests = limits.requests or rng.choice((1, 1, 2, 2, 3))
    horizon = limits.horizon or rng.choice((1, 1, 2, 3))
    confidence = _confidences(rng, V, gamma)
    draft = tuple(tuple(_law(rng, V) for _ in range(V)) for _ in range(gamma))
    tables = Tables(tuple(_law(rng, V) for _ in range(V)), draft, confidence)
    rates = (1.0,) if limits.is_flat else _rates(rng, tables, requests)
    budget = limits.token_budget or rng.choice((None, None, None, requests + 1))
    return Example(tables, rates, requests, horizon, rng.choice((0, 1, gamma)), _params(rng, limits, V), budget)


def _law(rng: random.Random, V: int) -> Row:
    weights = [rng.choice(PARTS) for _ in range(V)]
    if rng.random() < 0.1:
        weights[rng.randrange(V)] = 0
    total = sum(weights)
    return tuple(Fraction(w, total) for w in weights)


def _confidences(rng: random.Random, V: int, gamma: int) -> tuple[Row, ...]:
    """Often the first is one value, and later ones differ strongly with the token before."""
    first = rng.choice(CONFIDENCES[1:])
    rows = [tuple(first if rng.random() < 0.7 else rng.choice(CONFIDENCES) for _ in range(V))]
    rows += [tuple(rng.choice(CONFIDENCES) for _ in range(V)) for _ in range(gamma - 1)]
    return tuple(rows)


def _rates(rng: random.Random, tables: Tables, requests: int) -> tuple[float, ...]:
    num = requests * (1 + tables.gamma)
    kind = rng.choice(("smooth", "jagged", "cliff", "cliff", "flat"))
    if kind == "flat":
        return (1.0,)
    if kind == "smooth":
        slope = rng.choice((0.1, 0.3, 1.0))
        return tuple(1 / (1 + slope * size) for size in range(1, num + 1))
    if kind == "jagged":
        return tuple(rng.choice((0.3, 0.45, 0.5, 0.7, 1.0)) for _ in range(num))
    return cliff(tables, requests)


def cliff(tables: Tables, requests: int) -> tuple[float, ...]:
    """Throughput falls at the first draft of a request and rises above the start behind it, if all goes well."""
    survival, tau, best = 1.0, float(requests), [1.0] * requests
    for row in tables.confidence:
        survival *= float(max(row))
        for _ in range(requests):
            tau += survival
            drop = 0.9 if row is tables.confidence[0] else 1.1
            best.append(drop * requests / tau)
    return tuple(max(rate, 0.01) for rate in best)


def _params(rng: random.Random, limits: Limits, V: int) -> SamplingParams:
    if limits.params is not None:
        return limits.params
    kind = rng.random()
    if kind < 0.7:
        return SamplingParams()
    if kind < 0.8:
        return SamplingParams(temperature=rng.choice((0.5, 2.0)))
    if kind < 0.9:
        return SamplingParams(top_k=V - 1)
    return SamplingParams(top_p=rng.choice((0.6, 0.8)))

"""A world in which a composition is lossy, written down: its numbers, its curve, and the two laws side by side.

Tables are objects: the tokens that came before, oldest first ("" for any) -> the values after them.
"""

from collections.abc import Iterable
from typing import Any

from sparkit.proofs.examples import Example
from sparkit.proofs.paths import Number
from sparkit.proofs.problem import Outcome, Problem
from sparkit.proofs.real import Lossy
from sparkit.proofs.search import Measured
from sparkit.sampling import SamplingParams
from sparkit.targets.table import TableTarget
from sparkit.targets.tables import Tables


def counterexample_of(found: Measured | Lossy) -> dict[str, Any]:
    """For JSON and for people; a world of seeded weights has a seed and no tables."""
    return {
        **(_toy(found.example) if isinstance(found, Measured) else _real(found.problem, found.seed)),
        "total_variation": found.total_variation,
        "faults": list(found.law.faults),
        "laws": _laws(found.expected, found.law.probability),
    }


def _toy(example: Example) -> dict[str, Any]:
    tables = example.tables
    return {
        "requests": example.requests,
        "gamma": example.gamma,
        "horizon": example.horizon,
        "max_new_tokens": example.horizon + 1 + example.spare,
        "token_budget": example.token_budget,
        "sampling": _sampling(example.params),
        "seed": None,
        "target": _table(enumerate(tables.target)),
        "draft": [_table(enumerate(rows)) for rows in tables.draft],
        "confidence": [_table(enumerate((c,) for c in row)) for row in tables.confidence],
        "rounds_per_second": list(example.rates),
    }


def _real(problem: Problem, seed: int) -> dict[str, Any]:
    target, first = problem.parts.target, problem.requests[0]
    tables = target.tables if isinstance(target, TableTarget) else None
    sizes = range(1, len(problem.requests) * (1 + problem.gamma) + 1)
    curve = problem.parts.capacity
    return {
        "requests": len(problem.requests),
        "gamma": problem.gamma,
        "horizon": problem.horizon,
        "max_new_tokens": first.max_new_tokens,
        "token_budget": problem.token_budget,
        "sampling": _sampling(first.params),
        **({**dict.fromkeys(("target", "draft", "confidence")), "seed": seed} if tables is None else _numbers(tables)),
        "rounds_per_second": [curve.rounds_per_second(len(problem.requests), size) for size in sizes],
    }


def _numbers(tables: Tables) -> dict[str, Any]:
    return {
        "seed": None,
        "target": _table(tables.target.items()),
        "draft": [_table(rows.items()) for rows in tables.draft],
        "confidence": [_table((before, (c,)) for before, c in row.items()) for row in tables.confidence],
    }


def _sampling(params: SamplingParams) -> dict[str, Any]:
    return {name: getattr(params, name) for name in ("temperature", "top_k", "top_p")}


def _table(rows: Iterable[tuple[Any, Iterable[Any]]]) -> dict[str, list[str]]:
    return {_key(before): [str(value) for value in row] for before, row in rows}


def _key(before: int | tuple[int, ...]) -> str:
    return " ".join(map(str, before)) if isinstance(before, tuple) else str(before)


def _laws(expected: dict[Outcome, Number], law: dict[Outcome, Number]) -> list[dict[str, Any]]:
    return [
        {
            "tokens": [list(one) for one in text],
            "target": float(expected.get(text, 0)),
            "measured": float(law.get(text, 0)),
        }
        for text in sorted(expected.keys() | law.keys())
    ]

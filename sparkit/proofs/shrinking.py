"""A lossy world becomes a small one: simpler worlds are tried, boldest first, while the bias stays visible."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from sparkit.proofs.examples import Example, Limits
from sparkit.proofs.twins import Row, Tables
from sparkit.sampling import SamplingParams


def smaller(example: Example) -> Iterator[Example]:
    """Simpler worlds that a counterexample may shrink to, boldest first."""
    tables = example.tables
    if example.requests > 1:
        yield replace(example, requests=example.requests - 1)
    if example.horizon > 1:
        yield replace(example, horizon=1)
    if example.gamma > 1:
        yield replace(example, tables=replace(tables, draft=tables.draft[:-1], confidence=tables.confidence[:-1]))
    if tables.vocab_size > 2:
        yield replace(example, tables=_without_last_token(tables))
    if example.params != SamplingParams():
        yield replace(example, params=SamplingParams())
    if example.token_budget is not None:
        yield replace(example, token_budget=None)
    if len(set(example.rates)) > 1:
        yield replace(example, rates=(1.0,))
    yield from (replace(example, tables=simpler) for simpler in _simpler(tables))


def _without_last_token(tables: Tables) -> Tables:
    def cut(rows: tuple[Row, ...]) -> tuple[Row, ...]:
        kept = [row[:-1] for row in rows[:-1]]
        return tuple(tuple(v / sum(row) for v in row) if sum(row) else _even(len(row)) for row in kept)

    confidence = tuple(row[:-1] for row in tables.confidence)
    return Tables(cut(tables.target), tuple(cut(rows) for rows in tables.draft), confidence)


def _even(V: int) -> Row:
    return (Fraction(1, V),) * V


def _simpler(tables: Tables) -> Iterator[Tables]:
    V = tables.vocab_size
    if len(set(tables.target)) > 1:
        yield replace(tables, target=(tables.target[0],) * V)
    for k, rows in enumerate(tables.draft):
        for row in dict.fromkeys((_even(V), rows[0])):
            if rows != (row,) * V:
                yield replace(tables, draft=(*tables.draft[:k], (row,) * V, *tables.draft[k + 1 :]))
    for k, values in enumerate(tables.confidence):
        for index, value in enumerate(values):
            for target in (Fraction(0), Fraction(1), Fraction(1, 2)):
                if value not in (Fraction(0), Fraction(1), target):
                    row = (*values[:index], target, *values[index + 1 :])
                    yield replace(tables, confidence=(*tables.confidence[:k], row, *tables.confidence[k + 1 :]))


def is_allowed(example: Example, limits: Limits) -> bool:
    """Whether a world keeps to what the search must keep fixed."""
    wanted = (
        (limits.vocab_size, example.tables.vocab_size),
        (limits.gamma, example.gamma),
        (limits.requests, example.requests),
        (limits.params, example.params),
        (limits.horizon, example.horizon),
        (limits.token_budget, example.token_budget),
    )
    return all(want is None or want == has for want, has in wanted)

"""Which curve is measured for whom, where it is kept, and what is said when it is of another hour."""

import doctest
from dataclasses import replace
from pathlib import Path

import pytest

from sparkit import curves
from sparkit.capacity import measured
from sparkit.compose import assemble
from sparkit.curves import capacity_file, ladder, mispriced
from sparkit.engine import Request
from sparkit.recipe import Recipe
from sparkit.rounds import Round, Seconds

TOY = Recipe(target="table:appendix-a", drafter="table", scheduler="fixed", gamma=2, capacity="flat", dtype="float64")
BUNDLED = Recipe(capacity="flat", drafter="ngram", scheduler="fixed")


def test_capacity_files_belong_to_one_composition(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Kills: the curve of one batch, drafter or precision used for another."""
    monkeypatch.setenv("SPARKIT_CACHE", str(tmp_path))
    others = [{"batch": 8}, {"drafter": "dflash"}, {"dtype": "float64"}, {"gamma": 3}, {"head": "rnn"}]
    paths = {capacity_file(replace(BUNDLED, **change)) for change in others}
    assert len(paths | {capacity_file(BUNDLED)}) == len(others) + 1
    assert all(path.is_relative_to(tmp_path) for path in paths)
    assert capacity_file(replace(BUNDLED, seed=3, temperature=0.5)) == capacity_file(BUNDLED)


def plain_rounds(num: int) -> list[Round]:
    """Plain decoding of the toy."""
    engine = assemble(TOY).plain().engine()
    engine.add(Request((0,), seed=0, max_new_tokens=num))
    rounds: list[Round] = []
    while engine.has_work:
        rounds += engine.step()
    return [one for one in rounds if one.kind == "undrafted"]


def test_a_curve_of_another_hour_is_told_apart() -> None:
    """Kills: a kept curve of a busy machine that nobody hears of; a warning about every noisy step, or about a file."""
    found = plain_rounds(12)
    rounds = [replace(one, seconds=Seconds(verify=7e-3 if i else 1.0)) for i, one in enumerate(found)]
    assert len(rounds) >= 9
    prices = {ms: measured({1: ms / 1e3}, {1: 0.0}, {1: 0.0}, {1: 0.0}) for ms in (2, 5, 7, 10, 572)}
    recipe = Recipe(capacity="measured")
    said = {ms: mispriced(recipe, curve, rounds) or "" for ms, curve in prices.items()}
    assert [ms for ms, text in said.items() if not text] == [5, 7, 10]
    assert "prices a plain step at 572.0 ms and here it took 7.0 ms" in said[572]
    assert str(capacity_file(recipe)) in said[2]
    assert mispriced(replace(recipe, capacity="mine.json"), prices[572], rounds) is None
    assert mispriced(recipe, prices[572], []) is None


@pytest.mark.parametrize(("batch", "sizes"), [(1, [1]), (2, [1, 2]), (3, [1, 2, 3]), (64, [1, 2, 4, 8, 16, 32, 64])])
def test_sizes_go_up_by_two(batch: int, sizes: list[int]) -> None:
    """Kills: four requests priced by a straight line from one to sixteen; the batch itself left out, or twice."""
    assert ladder(batch) == sizes
    assert doctest.testmod(curves).failed == 0

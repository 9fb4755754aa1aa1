"""The closed loop on the real engine: nobody waits between requests, no two texts are equally long by design."""

import gc
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from sparkit.compose import assemble
from sparkit.experiments import decode, in_turn, with_plain
from sparkit.prompts import bundled
from sparkit.recipe import Recipe
from sparkit.serving import real


def test_the_loop_never_drains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: turns that end in an empty engine; a user with two requests at once; lengths that are all the same."""
    monkeypatch.setattr(real, "LEAST_TOKENS", 1)
    plain = assemble(Recipe(capacity="roofline", scheduler="fixed", max_new_tokens=8, ignore_eos=True)).plain()
    prompts = [replace(one, text=one.text[:40]) for one in bundled("all", 2)]
    (run,) = real.measure([("plain", plain)], prompts, [3], turns=3, turn_tokens=24)
    assert len(run.rates) == 3  # the turn before them is not counted
    steps: dict[int, list[int]] = {}
    for one in run.rounds:
        steps.setdefault(one.step, []).append(one.request)
    assert list(steps) == list(range(1, len(steps) + 1))
    assert all(len(set(requests)) == len(requests) <= 3 for requests in steps.values())
    assert all(len(requests) == 3 for requests in list(steps.values())[3:-1])  # once all prompts were read
    lengths: dict[int, int] = {}
    for one in run.rounds:
        lengths[one.request] = lengths.get(one.request, 0) + one.tau
    ended = [lengths[number] for number in sorted(lengths)[:-3]]
    assert len(ended) > 6
    assert all(4 <= length <= 12 for length in ended)
    assert len(set(ended)) > 3
    assert set(run.seeds) == set(lengths) == set(run.prompts)


def test_the_garbage_collector_leaves_out_what_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: 0.2 s of some round spent on looking through torch; objects kept from it for good."""
    monkeypatch.setattr(real, "LEAST_TOKENS", 1)
    composition = assemble(Recipe(capacity="roofline", scheduler="fixed", max_new_tokens=8))
    before, during = gc.get_freeze_count(), list[int]()
    real.measure([("fixed", composition)], bundled("all", 1), [1], 1, 8, lambda: during.append(gc.get_freeze_count()))
    decode(with_plain([composition]), bundled("math", 1), lambda _run, _one: during.append(gc.get_freeze_count()))
    assert min(during) > before + 50_000
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize("num", [1, 2, 3, 5])
def test_everybody_has_every_place_and_every_predecessor(num: int) -> None:
    """Kills: back and forth, where the one in the middle never follows itself and the outer ones do."""
    orders = [in_turn(range(num), turn) for turn in range(2 * num)]
    assert all(sorted(order) == list(range(num)) for order in orders)
    places = Counter((item, place) for order in orders for place, item in enumerate(order))
    assert set(places.values()) == {2}
    if num == 3:
        run = [item for order in [*orders, orders[0]] for item in order][: 6 * num + 1]
        assert Counter(pairwise(run)) == {(a, b): 3 for a in run[:3] for b in run[:3] if a != b}

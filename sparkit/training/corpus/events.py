"""The events of word problems: each makes a running number from the one before it, and says so in words.

`story` goes to the prompt, `step` to the worked answer; both are phrases (`phrases.py`). `now` is the number before
the event, `after` the number behind it. Numbers stay small, so that a model of four million parameters learns the sums.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

Numbers = dict[str, int]

LIMIT = 120  # the running number stays at or below it until the question


@dataclass(frozen=True, slots=True)
class Event:
    """One sentence of a story, the sentence that solves it, and how its numbers are drawn.

    Attributes:
        name: Names the event in the key of the split.
        story: Phrase of the prompt.
        step: Phrase of the response, with the equation; empty when nothing is to be computed.
        draw: From a generator and the running number to the event's numbers, or None where the event does not fit.
    """

    name: str
    story: str
    step: str
    draw: Callable[[random.Random, int], Numbers | None]


def _product(rng: random.Random, _now: int) -> Numbers:
    a, b = rng.randint(2, 9), rng.randint(3, 12)
    return {"a": a, "b": b, "after": a * b}


def _sum(rng: random.Random, _now: int) -> Numbers:
    a, b = rng.randint(5, 49), rng.randint(5, 49)
    return {"a": a, "b": b, "after": a + b}


def _add(rng: random.Random, now: int) -> Numbers | None:
    c = rng.randint(2, 30)
    return {"c": c, "after": now + c} if now + c <= LIMIT else None


def _take(rng: random.Random, now: int) -> Numbers | None:
    c = rng.randint(2, max(2, min(40, now - 3)))
    return {"c": c, "after": now - c} if now - c >= 3 else None


def _half(_rng: random.Random, now: int) -> Numbers | None:
    return {"after": now // 2} if now % 2 == 0 and now >= 8 else None


def _double(_rng: random.Random, now: int) -> Numbers | None:
    return {"after": now * 2} if now * 2 <= LIMIT else None


def _price(rng: random.Random, now: int) -> Numbers:
    p = rng.randint(2, 5)
    return {"p": p, "after": now * p}


def _divide(rng: random.Random, now: int) -> Numbers | None:
    divisors = [k for k in range(2, 10) if now % k == 0 and now // k >= 2]
    if not divisors:
        return None
    k = rng.choice(divisors)
    return {"k": k, "after": now // k}


def _nothing(_rng: random.Random, now: int) -> Numbers:
    return {"after": now}


_IS = "[that is|that makes|we get|this gives us|it comes to|the result is|we find]"
_LEFT = "[that leaves|this leaves|what remains is|we are left with|the rest is|there remain|{name} keeps]"

STARTS = (
    Event(
        "boxes",
        "{name} [buys|orders|picks up] {a} {boxes} of {items}. [Each {box} holds {b} {items}.|There are {b} {items} in "
        "each {box}.]",
        "[each {box} has {b} {items}, so {a} {boxes} have|{a} {boxes} with {b} {items} each make|we multiply the "
        "{boxes} by the {items} in each {box}:] {a} * {b} = {after} {items}.",
        _product,
    ),
    Event(
        "days",
        "{name} [collects|finds|gets] {b} {items} [every day|each day] for {a} days.",
        "[{a} days with {b} {items} a day make|{name} collects {b} {items} a day for {a} days, and " + _IS + "|we "
        "multiply the days by the {items} of a day:] {a} * {b} = {after} {items}.",
        _product,
    ),
    Event(
        "friends",
        "{name} invites {a} friends, and each [friend|of them] brings {b} {items}.",
        "[{a} friends bring {b} {items} each, and "
        + _IS
        + "|the number of {items} from all {a} friends is|we multiply "
        "the friends by their {items}:] {a} * {b} = {after} {items}.",
        _product,
    ),
    Event(
        "colors",
        "{name} has {a} red {items} and {b} blue {items}.",
        "[we add the red and the blue {items}:|there are {a} red and {b} blue {items}, and " + _IS + "|the red and the "
        "blue {items} together make] {a} + {b} = {after} {items}.",
        _sum,
    ),
    Event(
        "places",
        "{name} keeps {a} {items} at home and {b} at school.",
        "[we add the {items} from both places:|with {a} {items} at home and {b} at school, " + _IS + "|home and school "
        "together make] {a} + {b} = {after} {items}.",
        _sum,
    ),
)

CHANGES = (
    Event(
        "give",
        "{They} [gives {c} {items} to {friend}|gives {friend} {c} of the {items}|hands {c} {items} to {friend}].",
        "[{name} gives {c} {items} to {friend}, so " + _LEFT + "|we take away the {c} {items} that {friend} gets:|"
        "{friend} gets {c} of the {items}, and " + _LEFT + "] {now} - {c} = {after} {items}.",
        _take,
    ),
    Event(
        "lose",
        "{They} [loses {c} of them|loses {c} {items}] on the way home.",
        "[{name} loses {c} {items}, so " + _LEFT + "|we subtract the {c} {items} that are lost:|{c} {items} are lost, "
        "and " + _LEFT + "] {now} - {c} = {after} {items}.",
        _take,
    ),
    Event(
        "receive",
        "{friend} [gives {name} {c} more|brings {c} more {items}|adds another {c} {items}].",
        "[{friend} brings {c} more {items}, so " + _IS + "|we add the {c} {items} from {friend}:|with the {c} {items} "
        "from {friend}, " + _IS + "] {now} + {c} = {after} {items}.",
        _add,
    ),
    Event(
        "buy",
        "[Later|The next day], {they} buys {c} more {items}.",
        "[{name} buys {c} more {items}, so "
        + _IS
        + "|we add the {c} new {items}:|buying {c} more brings the number to]"
        " {now} + {c} = {after} {items}.",
        _add,
    ),
    Event(
        "half",
        "{They} [uses|puts away|sells] half of the {items}.",
        "[half of the {items} are gone, so " + _LEFT + "|we divide by 2 to find the other half:|half of {now} is]"
        " {now} / 2 = {after} {items}.",
        _half,
    ),
    Event(
        "double",
        "[By the end of the week|A month later], the number of {items} has doubled.",
        "[the number doubles, so " + _IS + "|we multiply by 2 because the number doubles:|twice as many {items} make]"
        " {now} * 2 = {after} {items}.",
        _double,
    ),
)

QUESTIONS = (
    Event("count", "How many {items} does {name} have [now|in the end]?", "", _nothing),
    Event(
        "sell",
        "{They} sells [the rest|all that is left] for ${p} each. How much money does {name} [make|earn]?",
        "[each of the {now} {items} sells for ${p}, so {name} makes|we multiply the {items} by the price:|{now} "
        "{items} "
        "at ${p} each bring in] {now} * {p} = {after} dollars.",
        _price,
    ),
    Event(
        "pack",
        "{They} packs them in bags of {k}. How many bags does {name} [need|fill]?",
        "[with {k} {items} in each bag, {name} needs|we divide the {items} by the size of a bag:|{now} {items} in bags "
        "of {k} fill] {now} / {k} = {after} bags.",
        _divide,
    ),
    Event(
        "share",
        "{They} shares them equally among {k} [friends|cousins]. How many {items} does each of them get?",
        "[{now} {items} shared among {k} people make|we divide the {items} by {k}:|each of the {k} people gets]"
        " {now} / {k} = {after} {items}.",
        _divide,
    ),
)

"""A word problem is a chain of small events on one running number, so its worked answer is correct by construction.

A problem takes one *start* (which makes the number), one or two *changes* and one *question* (which may compute once
more). Every event (`events.py`) brings the sentence of the story, the sentence of the solution and the arithmetic;
the wording varies, the numbers do not. The split follows the hash of the events and their numbers, never of names
or wording: a held-out problem has never been seen with these numbers, whoever it is told about.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from sparkit.training.corpus.documents import Document, Split, split_of
from sparkit.training.corpus.events import CHANGES, QUESTIONS, STARTS, Event, Numbers
from sparkit.training.corpus.phrases import enrich, expand

_WOMEN = ("Anna", "Maya", "Lisa", "Emma", "Nora", "Julia", "Sara", "Ella", "Ruth", "Grace", "Tina", "Olivia")
_MEN = ("Tom", "Ben", "Leo", "Sam", "Max", "Paul", "Jack", "Omar", "Noah", "Dan", "Eric", "Luis")
PEOPLE = (*((name, "she", "her") for name in _WOMEN), *((name, "he", "his") for name in _MEN))
ITEMS = (
    ("apples", "basket", "baskets"), ("oranges", "crate", "crates"), ("eggs", "carton", "cartons"),
    ("cookies", "tray", "trays"), ("muffins", "box", "boxes"), ("marbles", "bag", "bags"),
    ("stickers", "sheet", "sheets"), ("pencils", "box", "boxes"), ("cards", "pack", "packs"),
    ("candles", "box", "boxes"), ("balloons", "pack", "packs"), ("books", "box", "boxes"),
    ("shells", "jar", "jars"), ("beads", "jar", "jars"), ("flowers", "bunch", "bunches"), ("cups", "set", "sets"),
)  # fmt: skip

_OPEN = (
    "[Let's [solve this|work it out|go] step by step.|Let's work through [this|the problem] [together|one step at a "
    "time].|We can [solve this|find the answer] in {count} steps.|Here is [how to solve it|the solution]:]\n"
)
SYNONYMS = {
    **{
        f"we {verb}": f"[we|we can|we have to|let us] {verb}"
        for verb in ("multiply", "add", "divide", "subtract", "take away")
    },
    "make": "[make|give|come to]",
    "has": "[has|holds|contains]",
    "each of the": "[each of the|every one of the]",
    "gets": "[gets|receives|takes]",
}
"""Words of the steps that stand for each other."""

_FIRST = "[First, |To start, |At the start, ]"
_NEXT = "[Next, |Then |After that, |Now |From there, |In the next step, ]"
_LAST = "[Finally, |In the end, |Last of all, |For the last step, ]"
_RESTATE = (
    "[|| [So|At this point|That means] {name} [now has|has] {after} {items}.| [Now|Then] there are {after} {items}[| in"
    " all].| The [new|current] total is {after}.| We [keep|remember] the {after} for the next step.]"
)
_CLOSE = "\nThe answer is {after}."


@dataclass(frozen=True, slots=True)
class Problem:
    """The events of a problem with their numbers.

    Attributes:
        events: Start, changes, question.
        numbers: The drawn numbers of each event; "now" is the running number before it, "after" the one behind it.
    """

    events: tuple[Event, ...]
    numbers: tuple[Numbers, ...]

    @property
    def key(self) -> str:
        """What the split hashes: events and numbers."""
        return ";".join(f"{event.name}{sorted(n.items())}" for event, n in zip(self.events, self.numbers, strict=True))

    @property
    def answer(self) -> int:
        """The last running number."""
        return self.numbers[-1]["after"]


def documents(split: Split, rng: random.Random) -> Iterator[Document]:
    """Word problems of `split`, without end."""
    while True:
        problem = draw_problem(rng)
        if split_of(problem.key) == split:
            yield write(problem, rng)


def draw_problem(rng: random.Random) -> Problem:
    """A chain of events that fit each other; chains with a misfit are drawn afresh."""
    while True:
        changes = rng.sample(CHANGES, rng.choice((1, 2, 2)))
        events = (rng.choice(STARTS), *changes, rng.choice(QUESTIONS))
        numbers = _draw_numbers(events, rng)
        if numbers is not None:
            return Problem(events, numbers)


def _draw_numbers(events: tuple[Event, ...], rng: random.Random) -> tuple[Numbers, ...] | None:
    drawn: list[Numbers] = []
    now = 0
    for event in events:
        numbers = event.draw(rng, now)
        if numbers is None:
            return None
        drawn.append({"now": now, **numbers})
        now = numbers["after"]
    return tuple(drawn)


def write(problem: Problem, rng: random.Random) -> Document:
    """The problem told about somebody and something, and its solution."""
    (name, they, their), (friend, _, _) = rng.sample(PEOPLE, 2)
    items, box, boxes = rng.choice(ITEMS)
    cast: dict[str, object] = {
        "name": name, "they": they, "They": they.capitalize(), "their": their, "friend": friend,
        "items": items, "box": box, "boxes": boxes, "answer": problem.answer,
        "count": {2: "two", 3: "three", 4: "four"}[sum(bool(event.step) for event in problem.events)],
    }  # fmt: skip
    slots = [cast | numbers for numbers in problem.numbers]
    story = " ".join(expand(event.story, rng, s) for event, s in zip(problem.events, slots, strict=True))
    return Document("math", story, _solution(problem, slots, rng))


def _solution(problem: Problem, slots: list[dict[str, object]], rng: random.Random) -> str:
    steps = [(event.step, s) for event, s in zip(problem.events, slots, strict=True) if event.step]
    lines = []
    for index, (step, s) in enumerate(steps):
        lead = _FIRST if index == 0 else _LAST if index == len(steps) - 1 else _NEXT
        tail = "" if index == len(steps) - 1 else _RESTATE
        lines.append(expand(lead + enrich(step, SYNONYMS) + tail, rng, s))
    return expand(_OPEN, rng, slots[0]) + "\n".join(lines) + expand(_CLOSE, rng, slots[-1])

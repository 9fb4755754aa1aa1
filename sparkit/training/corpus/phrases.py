"""A phrase with alternatives is a tiny grammar: `[of course|no problem]` draws one branch, `{name}` fills a slot.

Alternatives nest, and an empty one makes a part optional. A branch, once begun, runs to its end: that is what makes
neighbouring tokens of a draft depend on each other.

>>> expand("[Sure|Sure], {name}!", random.Random(0), {"name": "Mia"})
'Sure, Mia!'
"""

import random
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

Sequence = tuple[Any, ...]
"""Of plain texts and of choices; a choice is a tuple of sequences."""

_PIECE = re.compile(r"[\[\]|]|[^\[\]|]+")


def expand(phrase: str, rng: random.Random, slots: Mapping[str, object]) -> str:
    """One text of `phrase`: every alternative drawn uniformly by `rng`, every slot filled."""
    return _draw(_parse(phrase), rng).format_map(slots)


def enrich(phrase: str, synonyms: Mapping[str, str]) -> str:
    """The phrase with every key of `synonyms` (whole words) replaced by its alternatives."""
    words = re.compile(r"\b(" + "|".join(map(re.escape, synonyms)) + r")\b")
    return words.sub(lambda found: synonyms[found[0]], phrase)


def _draw(sequence: Sequence, rng: random.Random) -> str:
    return "".join(node if isinstance(node, str) else _draw(_pick(node, rng), rng) for node in sequence)


def _pick(choices: tuple[Sequence, ...], rng: random.Random) -> Sequence:
    return choices[int(rng.random() * len(choices))]


@cache
def _parse(phrase: str) -> Sequence:
    """The phrase as nested tuples; each open bracket pushes a list of alternatives on the stack."""
    stack: list[list[list[Any]]] = [[[]]]
    for piece in _PIECE.findall(phrase):
        _read(piece, stack, phrase)
    if len(stack) != 1 or len(stack[0]) != 1:
        raise ValueError(f"phrase={phrase!r} has an open bracket or a bar outside brackets; close it.")
    return tuple(stack[0][0])


def _read(piece: str, stack: list[list[list[Any]]], phrase: str) -> None:
    if piece == "[":
        stack.append([[]])
    elif piece == "|":
        stack[-1].append([])
    elif piece != "]":
        stack[-1][-1].append(piece)
    elif len(stack) == 1:
        raise ValueError(f"phrase={phrase!r} closes a bracket that was never opened; remove it.")
    else:
        choices = tuple(tuple(alternative) for alternative in stack.pop())
        stack[-1][-1].append(choices)

"""Parsed JSON becomes values of annotated types, field by field, or an error that names the field.

A reader is made once a type and then only called: a trace has a hundred thousand lines of the same shape.

>>> reader(tuple[int, ...])([1, 2], "here")
(1, 2)
>>> reader(tuple[int, ...])([1, "2"], "here")
Traceback (most recent call last):
ValueError: here: expected a int, found '2'
"""

import dataclasses
import re
import sys
import types
import typing
from collections.abc import Callable
from functools import cache
from typing import Any

Read = Callable[[Any], Any]
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_INFINITE = {"inf": float("inf"), "-inf": float("-inf")}
_NAN = float("nan")


class _WrongError(Exception):
    """What was expected; the names of the fields around it are added on the way out."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message, self.path = message, ""


def reader(kind: Any) -> Callable[[Any, str], Any]:
    """Makes values of `kind` (dataclasses, tuples, dicts, unions with None, literals, scalars) out of parsed JSON.

    Returns:
        A function of the parsed value and of where it came from, which its errors (ValueError) begin with.
    """
    read = _reader(kind)

    def read_at(value: Any, where: str) -> Any:
        try:
            return read(value)
        except _WrongError as wrong:
            raise ValueError(f"{where}{wrong.path}: {wrong.message}") from None

    return read_at


@cache
def _reader(kind: Any) -> Read:
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return lambda value: value
    if dataclasses.is_dataclass(kind):
        return _record(kind)
    if origin in (types.UnionType, typing.Union):
        inner = _reader(next(a for a in args if a is not type(None)))
        return lambda value: None if value is None else inner(value)
    if origin is typing.Literal:
        return lambda value: _expect(value in args, value, f"one of {', '.join(map(repr, args))}")
    if origin is tuple:
        return _row(_reader(args[0])) if args[-1] is Ellipsis else _fixed(tuple(map(_reader, args)))
    if origin is dict:
        return _table(args[0], _reader(args[1]))
    return _number if kind is float else _scalar(kind)


def _record(kind: Any) -> Read:
    hints = typing.get_type_hints(kind)
    fields = {f.name: _reader(hints[f.name]) for f in dataclasses.fields(kind)}
    needed = [f.name for f in dataclasses.fields(kind) if f.default is dataclasses.MISSING]

    def read(value: Any) -> Any:
        _expect(isinstance(value, dict), value, f"an object ({kind.__name__})")
        if not fields.keys() >= value.keys():
            raise _WrongError(f"unknown field {next(key for key in value if key not in fields)[:60]!r}")
        if missing := [name for name in needed if name not in value]:
            raise _WrongError(f"the field {missing[0]!r} is missing")
        found: dict[str, Any] = {}
        for key, item in value.items():
            try:
                found[key] = fields[key](item)
            except _WrongError as wrong:
                wrong.path = f", {key}{wrong.path}"
                raise
        return kind(**found)

    return read


def _row(inner: Read) -> Read:
    return lambda value: tuple(map(inner, _expect(isinstance(value, list), value, "a list")))


def _fixed(inner: tuple[Read, ...]) -> Read:
    def read(value: Any) -> tuple[Any, ...]:
        _expect(isinstance(value, list), value, "a list")
        _expect(len(value) == len(inner), value, f"{len(inner)} items")
        return tuple(one(item) for one, item in zip(inner, value, strict=True))

    return read


def _table(kind: Any, inner: Read) -> Read:
    def read(value: Any) -> dict[Any, Any]:
        _expect(isinstance(value, dict), value, "an object")
        return {_key(kind, key): inner(item) for key, item in value.items()}

    return read


def _key(kind: Any, key: str) -> Any:
    if kind is not int:
        return key
    return int(_expect(_INTEGER.fullmatch(key) is not None, key, "an integer key"))


def _number(value: Any) -> float:
    """Null is nan, "inf" and "-inf" are what they say; anything else must be a number of float64."""
    if type(value) is float and abs(value) <= sys.float_info.max:
        return value
    if value is None:
        return _NAN
    if isinstance(value, str) and value in _INFINITE:
        return _INFINITE[value]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    is_held = is_number and (abs(value) <= sys.float_info.max or isinstance(value, float))  # no int beyond float64
    return float(_expect(is_held, value, "a number"))


def _scalar(kind: Any) -> Read:
    def read(value: Any) -> Any:
        is_right = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        return _expect(is_right, value, f"a {kind.__name__}")

    return read


def _expect(is_right: bool, value: Any, expected: str) -> Any:
    if not is_right:
        raise _WrongError(f"expected {expected}, found {str(value)[:60]!r}")
    return value

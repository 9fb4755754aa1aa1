"""A part is written as NAME:key=value,...; this file reads that and holds every value to its declared type.

>>> parse_spec("threshold:value=0.6,strict=true")
('threshold', {'value': 0.6, 'strict': True})
>>> parse_spec("table:appendix-a")
('table', {'source': 'appendix-a'})
"""

import inspect
import re
import types
from pathlib import Path
from typing import Literal, Union, get_args, get_origin

SOURCE = "source"  # `table:appendix-a` is short for `table:source=appendix-a`
_LITERALS = (bool, int, float, str, type(None), Path)
_ITEM = re.compile(r"""\s*(?P<key>[^=,"']*?)\s*=\s*(?P<value>"[^"]*"|'[^']*'|[^,"']*)\s*(?:,|$)""")
_WORDS: dict[str, object] = {"true": True, "false": False, "none": None}


def parse_spec(spec: str) -> tuple[str, dict[str, object]]:
    """Split `NAME:key=value,...` into the name and typed values (int, float, bool, none, else text).

    Quotes keep a value as text and let it hold commas. A single bare value is the parameter `source`.
    """
    name, colon, rest = spec.partition(":")
    if not name.strip():
        raise ValueError(f"no part name in {spec!r}; write NAME or NAME:key=value,key=value")
    if colon and not rest.strip():
        raise ValueError(f"nothing after the colon in {spec!r}; write NAME or NAME:key=value,key=value")
    return name.strip(), _parameters(spec, rest.strip())


def _parameters(spec: str, rest: str) -> dict[str, object]:
    if rest and "=" not in rest:
        return {SOURCE: rest.strip("\"'")}
    params: dict[str, object] = {}
    position = 0
    while position < len(rest):
        item = _ITEM.match(rest, position)
        if item is None or not item["key"].isidentifier():
            raise ValueError(f"cannot read {rest[position:]!r} in {spec!r}; write NAME:key=value,key=value")
        if item["key"] in params:
            raise ValueError(f"{item['key']!r} is given twice in {spec!r}")
        params[item["key"]] = literal(item["value"])
        position = item.end()
    return params


def literal(text: str) -> object:
    """The value that `text` spells: a whole number, a number, true, false, none; anything else is text."""
    if text[:1] in "\"'" and text[:1] == text[-1:] and len(text) > 1:
        return text[1:-1]
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def conform(where: str, name: str, value: object, annotation: object) -> object:
    """Return `value` as `annotation` wants it (an int may be a float, text a path), or raise a `ValueError`.

    Only the types that a specification can spell are judged; objects such as a target pass as they are.
    """
    options = _options(annotation)
    if options is None or not isinstance(value, _LITERALS):
        return value
    for option in options:
        if _fits(value, option):
            return value
    if float in options and type(value) is int:
        return float(value)
    if Path in options and isinstance(value, str):
        return Path(value)
    raise ValueError(f"{where} wants {name} as {_spelled(options)}, not {value!r}")


def _options(annotation: object) -> tuple[object, ...] | None:
    """The alternatives of an annotation, or None when it says something that a specification cannot spell."""
    if annotation is inspect.Parameter.empty:
        return None
    if get_origin(annotation) in (Union, types.UnionType):
        nested = [_options(option) for option in get_args(annotation)]
        return None if None in nested else tuple(option for options in nested for option in options or ())
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return (annotation,) if annotation in _LITERALS else None


def _fits(value: object, option: object) -> bool:
    if option is Path:
        return isinstance(value, Path)
    # bool is an int to Python and a mistake to a reader: exact types only
    return type(value) is option if isinstance(option, type) else value == option and type(value) is type(option)


def _spelled(options: tuple[object, ...]) -> str:
    names = {type(None): "none", str: "text", Path: "path"}
    return " or ".join(names.get(o, o.__name__) if isinstance(o, type) else repr(o) for o in options)

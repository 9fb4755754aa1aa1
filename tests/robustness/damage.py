"""Hypothesis strategies that bend a good file: bytes, JSON fields, headers with their length put right, GGUF pieces.

damaged(reader, content) draws the bytes of a bad (sometimes still good) file
"""

import copy
import dataclasses
import json
import struct
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tests.robustness.readers import Gguf, Reader, gguf_tensor, gguf_text, gguf_value, good_gguf

HUGE = 10**15


def _nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


HOSTILE: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 2, 3, 7, 2**31, 2**63, HUGE, 10**30, 10**400, -(2**63), 0.5, -0.5, 1e308, 1e-320,
    float("nan"), float("inf"), float("-inf"), "", "a", "0", "../../../../tmp/x", "/etc/passwd", "a\0b", "\ud800",
    "\x1b[2J", "A" * 100_000, [], {}, [None], [0], [-1], [HUGE], [[]], [{}], [""], {"a": 1}, {"": None}, {"type": "x"},
    [0] * 50_000, [[0, 0]] * 1000, _nested(60), _nested(100), ["a"] * 3, {"\ud800": 1}, "(a+)+$", "dspark",
)  # fmt: skip
NUMBERS = (0, 1, 2, 7, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**63 - 1, 2**63, 2**64 - 1, HUGE)
INSERTED = (b"\0", b'"', b"[" * 2000, b"{", b"\xff\xfe", b"\n", b"9" * 5000)


# ------------------------------------------------------------------------------------------------- bytes

_position = st.integers(0, 1 << 16)
_edit = st.one_of(
    st.tuples(st.just("cut"), _position, st.just(0)),
    st.tuples(st.just("byte"), _position, st.integers(0, 255)),
    st.tuples(st.just("u32"), _position, st.sampled_from(NUMBERS)),
    st.tuples(st.just("u64"), _position, st.sampled_from(NUMBERS)),
    st.tuples(st.just("insert"), _position, st.sampled_from(INSERTED)),
    st.tuples(st.just("drop"), _position, st.integers(1, 64)),
    st.tuples(st.just("again"), _position, st.integers(1, 200)),
)  # fmt: skip


def _edited(content: bytes, edit: tuple[str, int, Any]) -> bytes:
    kind, place, value = edit
    at = place % (len(content) + 1)
    if kind == "cut":
        return content[:at]
    if kind == "insert":
        return content[:at] + value + content[at:]
    if kind == "drop":
        return content[:at] + content[at + value :]
    if kind == "again":
        return content[:at] + content[at : at + value] * 3 + content[at + value :]
    new = {"byte": lambda: bytes([value]), "u32": lambda: struct.pack("<I", value % 2**32)}.get(
        kind, lambda: struct.pack("<Q", value)
    )()
    return content[:at] + new + content[at + len(new) :]


def bent_bytes(content: bytes, most: int = 3) -> st.SearchStrategy[bytes]:
    """A few edits; most files are read to some depth first."""
    return st.lists(_edit, min_size=1, max_size=most).map(lambda edits: _fold(_edited, content, edits))


def _fold(step: Callable[[Any, Any], Any], value: Any, edits: list[Any]) -> Any:
    for edit in edits:
        value = step(value, edit)
    return value


# ------------------------------------------------------------------------------------------------- JSON

_change = st.tuples(
    st.sampled_from(("put", "put", "put", "drop", "rename", "add")),
    st.integers(0, 1000),
    st.integers(0, len(HOSTILE) - 1),  # a number: hypothesis shows strategies, and some values are large
)


def _places(value: Any, depth: int = 0) -> list[tuple[Any, Any]]:
    """(container, key) of the nodes below the root, not of everything in a hostile value that was put in before."""
    if depth > 8 or (isinstance(value, list) and len(value) > 100):
        return []
    items = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    return [place for key, item in items for place in ((value, key), *_places(item, depth + 1))]


def _changed(document: Any, change: tuple[str, int, int]) -> Any:
    kind, number, chosen = change
    value = copy.deepcopy(HOSTILE[chosen])
    places = _places(document)
    if not places or number == 0:
        return value
    container, key = places[number % len(places)]
    if kind == "drop":
        del container[key]
    elif kind == "put" or isinstance(container, list):
        container[key] = value
    else:
        container[str(value)[:5000]] = container.pop(key) if kind == "rename" else value
    return document


def bent_document(document: Any) -> st.SearchStrategy[Any]:
    """One to three nodes replaced, dropped, renamed or added."""
    text = json.dumps(document)
    changes = st.lists(_change, min_size=1, max_size=3)
    return changes.map(lambda found: _fold(_changed, json.loads(text), found))


def _dumped(value: Any) -> bytes:
    return json.dumps(value).encode()


def bent_json(content: bytes) -> st.SearchStrategy[bytes]:
    structured = bent_document(json.loads(content)).map(_dumped)
    return st.one_of(structured, structured, structured, bent_bytes(content))


def bent_lines(content: bytes) -> st.SearchStrategy[bytes]:
    """One line bent as JSON."""
    lines = content.splitlines(keepends=True)

    def at(number: int) -> st.SearchStrategy[bytes]:
        before, after = b"".join(lines[:number]), b"".join(lines[number + 1 :])
        return bent_json(lines[number].strip()).map(lambda line: before + line + b"\n" + after)

    return st.one_of(*(at(number) for number in range(len(lines))), bent_bytes(content))


def bent_safetensors(content: bytes) -> st.SearchStrategy[bytes]:
    """The header bent, its length right; or bytes."""
    size = int.from_bytes(content[:8], "little")
    header, data = content[8 : 8 + size], content[8 + size :]
    structured = bent_json(header).map(lambda found: struct.pack("<Q", len(found)) + found + data)
    note = json.loads(json.loads(header).get("__metadata__", {}).get("note", "{}"))
    if not note:
        return st.one_of(structured, structured, bent_bytes(content))

    def with_note(value: Any) -> bytes:
        found = _dumped({**json.loads(header), "__metadata__": {"note": json.dumps(value)}})
        return struct.pack("<Q", len(found)) + found + data

    return st.one_of(structured, bent_document(note).map(with_note), bent_bytes(content))


# ------------------------------------------------------------------------------------------------- GGUF

PAYLOADS = (
    *(gguf_value(v) for v in (0, 1, 2**32 - 1, True, 0.0, -1.0, float("nan"), float("inf"), "", "x", "\x1b[2J")),
    *(gguf_value(v) for v in ([1], ["a"], ["a", "a"], ["a"] * 5000, [[1], [1]], ["a b"], "A" * 50_000)),
    struct.pack("<I", 8) + gguf_text(b"\xff\xfe"), struct.pack("<IQ", 8, HUGE), struct.pack("<IIQ", 9, 4, HUGE),
    struct.pack("<IIQ", 9, 8, 2_000_000), struct.pack("<IIQ", 9, 9, 1) * 50, struct.pack("<Iq", 11, -(2**63)),
    struct.pack("<IQ", 10, 2**64 - 1), struct.pack("<I", 99), struct.pack("<IIQ", 9, 0, 3000) + b"\1" * 3000,
    struct.pack("<Id", 12, 1e308), struct.pack("<IIQ", 9, 9, 1000) + struct.pack("<IQ", 4, 0) * 1000,
)  # fmt: skip
SHAPES = ((), (0,), (1,), (8,), (8, 8), (8, 11), (HUGE,), (2**32, 2**32), (2**63, 2), (1,) * 5, (0, HUGE), (256,))


def _key(pair: bytes) -> bytes:
    return pair[: 8 + int.from_bytes(pair[:8], "little")]


def _swapped(items: tuple[bytes, ...], number: int, new: bytes | None) -> tuple[bytes, ...]:
    at = number % len(items)
    return (*items[:at], *([] if new is None else [new]), *items[at + 1 :])


def _piece(file: Gguf, change: tuple[str, int, Any]) -> Gguf:
    kind, number, value = change
    if not (file.pairs and file.tensors):
        return file
    pair, tensor = file.pairs[number % len(file.pairs)], file.tensors[number % len(file.tensors)]
    if kind == "value":
        return dataclasses.replace(file, pairs=_swapped(file.pairs, number, _key(pair) + value))
    if kind == "key":
        return dataclasses.replace(file, pairs=_swapped(file.pairs, number, gguf_text(value) + pair[len(_key(pair)) :]))
    if kind == "tensor":
        name = _key(tensor)[8:].decode("utf-8", "replace")
        return dataclasses.replace(file, tensors=_swapped(file.tensors, number, gguf_tensor(name, *value)))
    if kind == "name":
        return dataclasses.replace(
            file, tensors=_swapped(file.tensors, number, gguf_text(value) + tensor[len(_key(tensor)) :])
        )
    if kind == "drop":
        return dataclasses.replace(file, pairs=_swapped(file.pairs, number, None))
    return dataclasses.replace(file, **{kind: value})


_TEXTS = (b"", b"../../x", b"\xff", b"blk.9.attn_q.weight", b"llama.block_count", b"general.alignment", b"A" * 5000)
_gguf_change = st.one_of(
    st.tuples(st.just("value"), _position, st.sampled_from(PAYLOADS)),
    st.tuples(st.just("value"), _position, st.sampled_from(PAYLOADS)),
    st.tuples(
        st.just("tensor"),
        _position,
        st.tuples(st.sampled_from(SHAPES), st.sampled_from((0, 1, 3, 8, 14, 30, 77)), st.sampled_from((0, 32, 2**63))),
    ),
    st.tuples(st.sampled_from(("key", "name")), _position, st.sampled_from(_TEXTS)),
    st.tuples(st.just("drop"), _position, st.none()),
    st.tuples(st.sampled_from(("num_pairs", "num_tensors")), _position, st.sampled_from((0, 1, 99_999, 2**40, HUGE))),
)


def bent_gguf(content: bytes) -> st.SearchStrategy[bytes]:
    changes = st.lists(_gguf_change, min_size=1, max_size=2)
    pieces = changes.map(lambda found: _fold(_piece, good_gguf(), found).content())
    return st.one_of(pieces, pieces, bent_bytes(content))


# ------------------------------------------------------------------------------------------------- TOML

SPELLED = (
    "0", "-1", "1e400", "nan", "inf", "true", '""', '"x"', "[]", "[[]]", "{}", "[1, [2]]", "[[1, 2], [3]]", '["a", 1]',
    "[" * 100 + "]" * 100, "[" * 5000 + "]" * 5000, "9" * 5000, "1979-05-27", '"\\u0000"', '"\\u001b[2J"', "[[1, nan]]",
    '[[-1, 0.0]]', "[true]", "[[true, 0.5]]", "{a = {b = 1}}", '"../../x"', '"hf:x"', '"A"', "[" + "0," * 50_000 + "]",
    "0x7fffffffffffffffffff", "[[1, 1e400]]", "['']", '"' + "A" * 50_000 + '"', '"""', "9223372036854775808",
)  # fmt: skip
LINES = (
    "a" + ".a" * 5000 + " = 1", "[a]\n" * 3, "[[a]]\n" * 2000, "gamma = 1", "schema = 7", "x = 1", "\x00", "\xff",
    "a.b.c = 1\n" * 2, '"\\u0000" = 1', "# " + "A" * 10_000, "[" * 3000, "x = " + '{a=' * 300 + '1' + '}' * 300,
)  # fmt: skip


def bent_toml(content: bytes) -> st.SearchStrategy[bytes]:
    """A value replaced by another spelling, or a line added; or bytes."""
    lines = content.decode().splitlines()

    def put(number: int, value: str) -> bytes:
        at = number % len(lines)
        return "\n".join([*lines[:at], f"{lines[at].partition('=')[0] or 'x'} = {value}", *lines[at + 1 :]]).encode()

    values = st.builds(put, st.integers(0, 100), st.sampled_from(SPELLED))
    added = st.builds(lambda line: (line + "\n").encode("latin-1") + content, st.sampled_from(LINES))
    return st.one_of(values, values, added, bent_bytes(content))


FORMS: dict[str, Callable[[bytes], st.SearchStrategy[bytes]]] = {
    "json": bent_json,
    "lines": bent_lines,
    "safetensors": bent_safetensors,
    "gguf": bent_gguf,
    "toml": bent_toml,
}


def damaged(reader: Reader, content: bytes) -> st.SearchStrategy[bytes]:
    """Files that are nearly `content`."""
    return FORMS[reader.form](content)

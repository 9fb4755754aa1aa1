"""Files are written whole or not at all, and read within stated limits.

A write goes to a temporary name beside the target and is renamed when complete: a killed process leaves the old file
or the new one. A read checks the size before it parses, so that a file from a stranger costs no more than its limit.

>>> parse_json(b'{"gamma": 7}', "example")
{'gamma': 7}
"""

import itertools
import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

MAX_JSON_BYTES = 64 * 1024 * 1024
MAX_JSON_DEPTH = 64
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)  # a bracket inside a text opens nothing
_FLAT = bytes(set(range(256)) - set(b"[]{}"))
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """A file that appears under `path` only when the block ends without an error.

    Raises:
        FileNotFoundError: if the folder does not exist.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: the folder {path.parent} does not exist; create it first")
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_json(path: Path, document: Any) -> None:
    """Writes one document, whole."""
    with writing(path) as out:
        out.write(json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False).encode())
        out.write(b"\n")


def read_json(path: Path, *, max_bytes: int = MAX_JSON_BYTES) -> Any:
    """Parses one document.

    Raises:
        ValueError: if the file is larger than `max_bytes`, nested deeper than `MAX_JSON_DEPTH`, or not JSON.
    """
    size = Path(path).stat().st_size
    if size > max_bytes:
        raise ValueError(f"{path}: {size} bytes; at most {max_bytes} are read")
    return parse_json(Path(path).read_bytes(), str(path))


def parse_json(data: bytes, name: str) -> Any:
    """Parses bytes that came from `name`, refusing hostile nesting before the parser recurses into it."""
    depth = deepest = 0
    for byte in _STRINGS.sub(b"", data).translate(None, delete=_FLAT) if _may_nest(data) else b"":
        depth += (byte in b"[{") - (byte in b"]}")
        deepest = max(deepest, depth)
    if deepest > MAX_JSON_DEPTH:
        raise ValueError(f"{name}: nested {deepest} deep; at most {MAX_JSON_DEPTH} levels are read")
    try:
        document = json.loads(data)
        if _SURROGATE.search(data):  # half a character: whoever writes or prints it later would fail
            json.dumps(document, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:  # ValueError itself: a number of more digits than Python converts
        raise ValueError(f"{name}: not JSON: {error}") from error
    return document


def shown(value: object, most: int = 60) -> str:
    """A stranger's value for a message: on one line, printable, and short whatever it is.

    >>> shown([0] * 1000, 12)
    '[0, 0, 0, 0,...'
    """
    text = repr(value) if not isinstance(value, list | tuple | dict) else _start(value, most)
    return text if len(text) <= most else f"{text[:most]}..."


def _start(value: list[object] | tuple[object, ...] | dict[object, object], most: int) -> str:
    """The beginning of a container's repr; no more of it is spelled out than is shown."""
    return repr(type(value)(itertools.islice(value.items(), most)) if isinstance(value, dict) else value[:most])


def _may_nest(data: bytes) -> bool:
    return data.count(b"[") + data.count(b"{") > MAX_JSON_DEPTH

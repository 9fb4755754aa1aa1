"""Files are written whole or not at all, and read within stated limits.

A write goes to a temporary name beside the target and is renamed when complete: a killed process leaves the old file
or the new one. The temporary name tells whose it is, so that the next write removes what a killed run left and says so.
A read checks the size before it parses, so that a file from a stranger costs no more than its limit.

>>> parse_json(b'{"gamma": 7}', "example")
{'gamma': 7}
"""

import glob
import itertools
import json
import logging
import os
import platform
import re
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

log = logging.getLogger(__name__)
MAX_JSON_BYTES = 64 * 1024 * 1024
MAX_JSON_DEPTH = 64
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)  # a bracket inside a text opens nothing
_FLAT = bytes(set(range(256)) - set(b"[]{}"))
_LONG = re.compile(rb"\d{300}")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """A file that appears under `path` only when the block ends without an error.

    Raises:
        FileNotFoundError: if the folder does not exist.
        OSError: naming `path`, when it cannot be written: no space, no permission.
    """
    path = Path(path)
    require_folder(path, f"cannot write {path}")
    scratch = scratch_for(path)
    try:
        with scratch.open("xb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        scratch.replace(path)
    except OSError as error:  # a full disk names no file, a folder without permission names the scratch
        scratch.unlink(missing_ok=True)
        if error.filename in (None, str(scratch)) and error.errno is not None:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise


def require_folder(path: Path, said: str) -> None:
    """A `FileNotFoundError` that begins with `said`, when the folder that `path` would lie in is not there."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{said}: the folder {path.parent} does not exist; create it first")


def scratch_for(path: Path) -> Path:
    """A new name beside `path` for its content until it is whole; what killed runs left there is removed."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        host, _, process = left.name.removesuffix(".part").rpartition(".")[2].rpartition("-")
        if host == _host() and process.isdigit() and not _is_running(int(process)):
            shutil.rmtree(left) if left.is_dir() else left.unlink(missing_ok=True)
            log.warning("%s: removed the unfinished %s, which a run that was killed left behind", path, left.name)
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.{_host()}-{os.getpid()}.part")


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9]", "", platform.node()) or "here"


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):  # somebody else's; and no number of ours
        return True
    return True


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
        document = json.loads(data, parse_int=_whole) if _LONG.search(data) else json.loads(data)
        if _SURROGATE.search(data):  # half a character: whoever writes or prints it later would fail
            json.dumps(document, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:  # ValueError itself: a number of more digits than Python converts
        raise ValueError(f"{name}: not JSON: {error}") from error
    return document


def _whole(digits: str) -> int:
    """An integer that a float can hold: whoever divides or compares it later would fail."""
    number = int(digits)
    if abs(number) > sys.float_info.max:
        raise ValueError(f"a whole number of {len(digits)} digits, beyond float64")
    return number


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

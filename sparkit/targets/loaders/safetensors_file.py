"""A safetensors header is read and checked by us before the library maps a byte of the file.

    8 bytes: header length N  |  N bytes of JSON: name -> dtype, shape, data_offsets  |  data

Everything a header promises is held against the file's own length: a header that speaks of 10^15 elements is refused
without an allocation. Limits: header 64 MB, JSON nested 8 deep, 100 000 tensors, 8 axes.

    header = read_header(Path("model.safetensors"))
"""

import math
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from sparkit.files import parse_json, shown

MAX_HEADER_BYTES = 64 * 1024 * 1024
MAX_TENSORS = 100_000
MAX_AXES = 8
SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
FLOATS = ("F64", "F32", "F16", "BF16")


class Entry(NamedTuple):
    """One tensor as its header describes it."""

    dtype: str
    shape: tuple[int, ...]
    begin: int  # bytes from the start of the data
    end: int


def read_header(path: Path) -> dict[str, Entry]:
    """Names and entries of a safetensors file, in data order.

    Raises:
        ValueError: if the file is not safetensors, truncated, or its header contradicts itself or the file's length.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(MAX_HEADER_BYTES, size - 8):
            raise ValueError(f"{path}: {size} bytes and a header of {length}: truncated, or not a safetensors file")
        document = parse_json(file.read(length), str(path))
    if not isinstance(document, dict) or len(document) > MAX_TENSORS:
        raise ValueError(f"{path}: the header is not an object of at most {MAX_TENSORS} tensors")
    entries = {name: _entry(path, name, value) for name, value in document.items() if name != "__metadata__"}
    return _laid_out(path, entries, size - 8 - length)


def _entry(path: Path, name: str, value: Any) -> Entry:
    where = f"{path}: tensor {shown(name)}"
    kind = value.get("dtype") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in SIZES:
        raise ValueError(f"{where}: its header entry is {shown(value, 80)}; expected a dtype of {', '.join(SIZES)}")
    shape: Any = value.get("shape")
    offsets: Any = value.get("data_offsets")
    if not _is_counts(shape) or len(shape) > MAX_AXES or not _is_counts(offsets) or len(offsets) != 2:
        raise ValueError(
            f"{where}: shape {shown(shape)}, data_offsets {shown(offsets)}; expected lists of numbers >= 0"
        )
    promised = math.prod(shape) * SIZES[kind]
    if offsets[1] - offsets[0] != promised:
        raise ValueError(f"{where}: {kind} {shown(shape)} needs {promised} bytes, data_offsets give {shown(offsets)}")
    return Entry(kind, tuple(shape), *offsets)


def _is_counts(value: object) -> bool:
    return isinstance(value, list) and all(type(item) is int and 0 <= item < 1 << 63 for item in value)


def _laid_out(path: Path, entries: dict[str, Entry], size: int) -> dict[str, Entry]:
    """Tensors follow each other without holes or overlaps and end where the file ends."""
    ordered = dict(sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)))
    end = 0
    for name, entry in ordered.items():
        if entry.begin != end:
            raise ValueError(
                f"{path}: tensor {shown(name)} begins at byte {entry.begin}, expected {end}: damaged header"
            )
        end = entry.end
    if end != size:
        raise ValueError(f"{path}: the header promises {end} bytes of data, the file has {size}: truncated or damaged")
    return ordered


class Shards:
    """The tensors of one or several safetensors files, by name; headers are checked at once, data read on demand."""

    def __init__(self, paths: list[Path]) -> None:
        self.entries: dict[str, Entry] = {}
        self._files: dict[str, Path] = {}
        for path in paths:
            header = read_header(path)
            if twice := header.keys() & self.entries.keys():
                raise ValueError(f"{path}: tensor {shown(min(twice))} is in {self._files[min(twice)]} too")
            self.entries |= header
            self._files |= dict.fromkeys(header, path)

    def read(self, name: str) -> Tensor:
        """The tensor, as stored."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(self._files[name], framework="pt") as file:
                tensor: Tensor = file.get_tensor(name)
        except SafetensorError as error:
            raise ValueError(f"{self._files[name]}: tensor {name!r} cannot be read: {error}") from error
        return tensor

"""A GGUF header read by us: metadata and tensor table, every count and offset held against the file's length.

    "GGUF" version  tensors  pairs  |  key type value ...  |  name axes type offset ...  |  padding  |  data

Limits: 2 M metadata values in all, arrays nested 2 deep, 100 000 tensors, 4 axes, texts within the file, tensors that
do not share bytes (a small file would unpack into a huge model).
Not done here: dequantising (`sparkit.targets.loaders.gguf_model`).

    file = read_gguf(Path("SmolLM2-135M-Instruct.Q4_1.gguf"))
"""

import math
import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from sparkit.files import shown

MAX_VALUES = 2_000_000
MAX_TENSORS = 100_000
MAX_AXES = 4
MAX_NESTING = 2
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9


class Packing(NamedTuple):
    """How a GGML type stores numbers: `block` of them in `size` bytes."""

    name: str
    block: int
    size: int


PACKINGS = {
    0: Packing("F32", 1, 4),
    1: Packing("F16", 1, 2),
    2: Packing("Q4_0", 32, 18),
    3: Packing("Q4_1", 32, 20),
    6: Packing("Q5_0", 32, 22),
    7: Packing("Q5_1", 32, 24),
    8: Packing("Q8_0", 32, 34),
    10: Packing("Q2_K", 256, 84),
    11: Packing("Q3_K", 256, 110),
    12: Packing("Q4_K", 256, 144),
    13: Packing("Q5_K", 256, 176),
    14: Packing("Q6_K", 256, 210),
    30: Packing("BF16", 1, 2),
}


class PackedTensor(NamedTuple):
    """One tensor: where its bytes lie and how they are to be read."""

    shape: tuple[int, ...]  # row-major, as torch says it (GGUF writes the axes the other way round)
    kind: int  # GGML type, a key of PACKINGS
    begin: int  # in the file
    end: int


@dataclass(frozen=True, slots=True)
class GGUFFile:
    """The header of one file."""

    path: Path
    metadata: dict[str, Any]
    tensors: dict[str, PackedTensor]


def read_gguf(path: Path) -> GGUFFile:
    """Reads the header.

    Raises:
        ValueError: if the file is not GGUF, truncated, or its header contradicts the file's length.
    """
    if path.stat().st_size < 24:
        raise ValueError(f"{path}: {path.stat().st_size} bytes: not a GGUF file, or truncated")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return _Cursor(path, data).file()


class _Cursor:
    """A position in the header; every read says where it would run past the end."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path, self.data, self.at, self.values = path, data, 0, 0

    def file(self) -> GGUFFile:
        version = self.scalar("I") if self.take(4) == b"GGUF" else 0
        if version not in (2, 3):
            raise ValueError(f"{self.path}: not a GGUF file of version 2 or 3 (little endian)")
        num_tensors, num_pairs = self.count("tensors", MAX_TENSORS), self.count("metadata pairs", MAX_VALUES)
        metadata = {}
        for _ in range(num_pairs):
            key = self.text()
            metadata[key] = self.value(self.scalar("I"), key)
        table = [self.tensor() for _ in range(num_tensors)]
        return GGUFFile(self.path, metadata, self.placed(table, metadata.get("general.alignment", 32)))

    def take(self, size: int) -> bytes:
        if size > len(self.data) - self.at:
            raise ValueError(
                f"{self.path}: the header asks for {size} bytes at {self.at}, the file has {len(self.data)}: truncated"
            )
        self.at += size
        return self.data[self.at - size : self.at]

    def scalar(self, code: str) -> Any:
        return struct.unpack(f"<{code}", self.take(struct.calcsize(f"<{code}")))[0]

    def count(self, what: str, most: int) -> int:
        number: int = self.scalar("Q")
        if number > most:
            raise ValueError(f"{self.path}: the header promises {number} {what}; at most {most} are read")
        return number

    def text(self) -> str:
        try:
            return self.take(self.scalar("Q")).decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{self.path}: a text in the header is not UTF-8: {error}") from error

    def value(self, kind: int, key: str, depth: int = 0) -> Any:
        self.values += 1
        if self.values > MAX_VALUES:
            raise ValueError(f"{self.path}: more than {MAX_VALUES} metadata values")
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY and depth < MAX_NESTING:
            return self.array(key, depth)
        if kind not in _SCALARS:
            raise ValueError(f"{self.path}: metadata {shown(key)} has type {kind} (nested {depth}); it cannot be read")
        return self.scalar(_SCALARS[kind])

    def array(self, key: str, depth: int) -> list[Any]:
        kind = self.scalar("I")
        number = self.count(f"items in {shown(key)}", MAX_VALUES)
        if kind in _SCALARS:
            self.values += number
            size = struct.calcsize(f"<{_SCALARS[kind]}")
            return list(struct.unpack(f"<{number}{_SCALARS[kind]}", self.take(number * size)))
        return [self.value(kind, key, depth + 1) for _ in range(number)]

    def tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        name, axes = self.text(), self.scalar("I")
        if axes > MAX_AXES:
            raise ValueError(f"{self.path}: tensor {shown(name)} has {axes} axes; at most {MAX_AXES} are read")
        shape = tuple(self.scalar("Q") for _ in range(axes))[::-1]
        return name, shape, self.scalar("I"), self.scalar("Q")

    def placed(self, table: list[tuple[str, tuple[int, ...], int, int]], alignment: object) -> dict[str, PackedTensor]:
        if type(alignment) is not int or not 1 <= alignment <= 1 << 20:
            raise ValueError(f"{self.path}: general.alignment is {shown(alignment)}; expected 1 to {1 << 20}")
        start = -(-self.at // alignment) * alignment
        tensors: dict[str, PackedTensor] = {}
        for name, shape, kind, offset in table:
            if name in tensors:
                raise ValueError(f"{self.path}: tensor {shown(name)} is listed twice")
            begin = start + offset
            tensors[name] = PackedTensor(shape, kind, begin, begin + self.bytes_of(name, shape, kind))
            if tensors[name].end > len(self.data):
                raise ValueError(
                    f"{self.path}: tensor {shown(name)} {list(shape)} ends at byte {tensors[name].end}, "
                    f"the file has {len(self.data)}: truncated or damaged"
                )
        if sum(tensor.end - tensor.begin for tensor in tensors.values()) > len(self.data):
            raise ValueError(f"{self.path}: its tensors share bytes: together they are longer than the file")
        return tensors

    def bytes_of(self, name: str, shape: tuple[int, ...], kind: int) -> int:
        packing = PACKINGS.get(kind)
        if packing is None:
            known = ", ".join(p.name for p in PACKINGS.values())
            raise ValueError(f"{self.path}: tensor {shown(name)} has GGML type {kind}; known: {known}")
        if not shape or shape[-1] % packing.block:
            raise ValueError(
                f"{self.path}: tensor {shown(name)} {list(shape)}: {packing.name} packs rows in {packing.block}s"
            )
        return math.prod(shape) // packing.block * packing.size

"""A recipe names every part of a composition and every number it runs with; it lives on disk as TOML.

Parts are written NAME or NAME:key=value,... (`sparkit.spec`). A recipe is data: loading one runs nothing.

>>> Recipe(scheduler="threshold:value=0.6").scheduler
'threshold:value=0.6'
"""

import tomllib
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import tomli_w

from sparkit.files import shown, writing
from sparkit.sampling import SamplingParams

SCHEMA = "sparkit.recipe/1"
MAX_BYTES = 1024 * 1024
MAX_ITEMS = 10_000  # of a list: stop texts, stop tokens, biases
MAX_MARKS = 4 * MAX_ITEMS  # dots and brackets of one line: tomllib takes time and depth for each


@dataclass(frozen=True, slots=True)
class Recipe:
    """One composition and how it is run; None leaves the choice to `sparkit.compose`."""

    target: str = "bundled"
    drafter: str = "dspark"
    head: str | None = None  # None: the drafter's own
    confidence: str | None = None  # None: the trained head, else position
    calibrator: str | None = None  # None: the fitted sts of this drafter, else identity
    scheduler: str = "greedy"
    verifier: str = "rejection"
    gamma: int = 7
    capacity: str = "measured"  # measured | flat | roofline | PATH
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    stop: tuple[str, ...] = ()
    stop_tokens: tuple[int, ...] = ()
    ignore_eos: bool = False
    max_new_tokens: int = 128
    batch: int = 1
    seed: int = 0
    token_budget: int | None = None
    device: str = "cpu"
    dtype: str = "float32"

    def __post_init__(self) -> None:
        for name, least in (("gamma", 1), ("batch", 1), ("max_new_tokens", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)}: expected {least} or more")
        if self.token_budget is not None and self.token_budget < 1:
            raise ValueError(f"token_budget={self.token_budget}: expected 1 or more tokens a step")
        if self.dtype not in ("float32", "float64", "bfloat16", "float16"):
            raise ValueError(f"dtype={self.dtype!r}: expected float32, float64, bfloat16 or float16")
        self.sampling()  # its ranges are checked there

    def sampling(self) -> SamplingParams:
        """The sampling parameters of every request."""
        names = {f.name for f in fields(SamplingParams)} - {"banned"}
        return SamplingParams(**{name: getattr(self, name) for name in names})

    def save(self, path: Path) -> None:
        """Writes TOML, whole or not at all; fields left to `compose` are left out."""
        values = {key: value for key, value in asdict(self).items() if value is not None}
        with writing(path) as out:
            out.write(tomli_w.dumps({"schema": SCHEMA, **values}).encode())

    @classmethod
    def load(cls, path: Path) -> "Recipe":
        """Reads a recipe back.

        Raises:
            ValueError: naming file and field, for anything a recipe does not have.
        """
        document = _document(Path(path))
        if document.pop("schema", SCHEMA) != SCHEMA:
            raise ValueError(f"{path}: expected schema {SCHEMA!r}")
        hints = get_type_hints(cls)
        if unknown := [key for key in document if key not in hints]:
            raise ValueError(f"{path}: unknown field {shown(unknown[0])}; a recipe has {', '.join(hints)}")
        values = {key: _field(f"{path}, {key}", hints[key], value) for key, value in document.items()}
        try:
            return cls(**values)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error


def _document(path: Path) -> dict[str, Any]:
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise ValueError(f"{path}: {size} bytes; a recipe has at most {MAX_BYTES}")
    content = path.read_bytes()
    if (
        max((line.count(b".") + line.count(b"[") + line.count(b"{") for line in content.split(b"\n")), default=0)
        > MAX_MARKS
    ):
        raise ValueError(f"{path}: a line with more than {MAX_MARKS} dots and brackets is no recipe's")
    try:
        return tomllib.loads(content.decode())
    except (
        ValueError,
        RecursionError,
    ) as error:  # TOMLDecodeError, UnicodeDecodeError, and numbers too long for Python
        raise ValueError(f"{path}: not a TOML recipe: {shown(str(error), 200)}") from error


def _field(where: str, kind: Any, value: Any) -> Any:
    """The value as its annotation wants it; a list becomes a tuple, and every item of it is held to its own type."""
    if get_origin(kind) is UnionType:
        kind = next(option for option in get_args(kind) if option is not type(None))
    if get_origin(kind) is tuple:
        return _items(where, get_args(kind), value)
    if kind is float and type(value) is int and abs(value) < 1 << 53:
        return float(value)
    if type(value) is not kind:
        raise ValueError(f"{where}: expected {kind.__name__}, found {shown(value)}")
    return value


def _items(where: str, kinds: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list) or len(value) > MAX_ITEMS:
        raise ValueError(f"{where}: expected a list of at most {MAX_ITEMS}, found {shown(value)}")
    wanted = [kinds[0]] * len(value) if kinds[-1] is Ellipsis else list(kinds)
    if len(wanted) != len(value):
        raise ValueError(f"{where}: expected {len(wanted)} items, found {shown(value)}")
    return tuple(_field(f"{where}[{i}]", k, v) for i, (k, v) in enumerate(zip(wanted, value, strict=True)))

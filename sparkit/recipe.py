"""A recipe names every part of a composition and every number it runs with; it lives on disk as TOML.

Parts are written NAME or NAME:key=value,... (`sparkit.spec`). A recipe is data: loading one runs nothing.

>>> Recipe(scheduler="threshold:value=0.6").scheduler
'threshold:value=0.6'
"""

import tomllib
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

import tomli_w

from sparkit.files import writing
from sparkit.sampling import SamplingParams

SCHEMA = "sparkit.recipe/1"
MAX_BYTES = 1024 * 1024


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
        try:
            size = Path(path).stat().st_size
            document = tomllib.loads(Path(path).read_text("utf-8")) if size <= MAX_BYTES else None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"{path}: not a TOML recipe: {error}") from error
        if document is None:
            raise ValueError(f"{path}: {size} bytes; a recipe has at most {MAX_BYTES}")
        if document.pop("schema", SCHEMA) != SCHEMA:
            raise ValueError(f"{path}: expected schema {SCHEMA!r}")
        hints = get_type_hints(cls)
        if unknown := [key for key in document if key not in hints]:
            raise ValueError(f"{path}: unknown field {unknown[0]!r}; a recipe has {', '.join(hints)}")
        return cls(**{key: _field(f"{path}, {key}", hints[key], value) for key, value in document.items()})


def _field(where: str, kind: Any, value: Any) -> Any:
    wanted = [k for k in (get_args(kind) or (kind,)) if isinstance(k, type) and k is not type(None)]
    if str(kind).startswith("tuple"):
        if not isinstance(value, list):
            raise ValueError(f"{where}: expected a list, found {value!r}")
        return tuple(tuple(item) if isinstance(item, list) else item for item in value)
    if wanted == [float] and type(value) is int:
        return float(value)
    if type(value) not in wanted:
        raise ValueError(f"{where}: expected {wanted[0].__name__}, found {value!r}")
    return value

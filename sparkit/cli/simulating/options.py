"""What was asked of `sparkit simulate`, and what its three experiments share."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from sparkit.cli.environment import environment
from sparkit.serving.published import published
from sparkit.serving.sources import Blocks, from_traces

SCHEMA = "sparkit.simulate/1"
SCHEDULERS = ("fixed", "greedy", "delayed", "foresight")
USERS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
REAL_USERS = (1, 2, 4, 8, 16, 32, 64)
BASELINE = "mtp-1"


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for."""

    sources: tuple[str, ...]
    baseline: tuple[str, ...]
    schedulers: tuple[str, ...]
    calibrator: str
    capacity: str
    baseline_capacity: str
    users: tuple[int, ...]
    rates: tuple[float, ...]
    slots: int
    steps: int
    prompt_tokens: int
    new_tokens: int
    prefill_chunk: int
    mix: tuple[tuple[str, float], ...]
    regret: tuple[int, ...]
    seed: int
    target: str
    drafter: str
    head: str | None
    confidence: str | None
    gamma: int
    turns: int
    max_new_tokens: int


def weights(text: str | None) -> tuple[tuple[str, float], ...]:
    """Domain weights from math=1,code=2.

    Raises:
        ValueError: for anything else.
    """
    pairs = [item.partition("=") for item in (text or "").split(",") if item]
    try:
        return tuple((name.strip(), float(value)) for name, _, value in pairs)
    except ValueError as error:
        raise ValueError(f"--mix {text!r}: expected DOMAIN=WEIGHT,..., such as math=1,code=2") from error


def blocks_of(names: Sequence[str], seed: int) -> Blocks:
    """The acceptance source."""
    if "published" not in names:
        return from_traces([Path(name) for name in names])
    if len(names) > 1:
        raise ValueError("--source published stands alone: give it, or traces")
    return published(seed=seed)


def head(options: Options, kind: str) -> dict[str, Any]:
    """What every document begins with."""
    return {"schema": SCHEMA, "environment": environment("cpu"), "kind": kind, "options": asdict(options)}


@contextmanager
def bar(out: Console, name: str, total: int) -> Iterator[Any]:
    """A progress bar; what it yields is called at each step."""
    with Progress(console=out, transient=True) as progress:
        task = progress.add_task(name, total=total)
        yield lambda: progress.advance(task)

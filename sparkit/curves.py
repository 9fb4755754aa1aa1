"""Which capacity curve a composition is planned on: an analytic one, a file's, or one measured here and kept.

The measured curve belongs to a device and a composition; it is taken at first use and cached in the user's folder.
"""

import hashlib
import json
import os
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path

import torch

from sparkit import profiling
from sparkit.capacity import Capacity, flat, roofline, staircase
from sparkit.engine import Parts
from sparkit.recipe import Recipe
from sparkit.registry import parse_spec
from sparkit.rounds import Round

MOST_OFF = 1.6
"""How many times a price may miss what steps take before it is said; this machine's own hours differ by less."""

ANALYTIC: dict[str, Callable[..., Capacity]] = {"flat": flat, "roofline": roofline, "staircase": staircase}


def capacity_of(recipe: Recipe, parts: Parts, *, measure: bool) -> Capacity:
    """The curve that a recipe names.

    Args:
        recipe: its `capacity` is a name with options, or a file.
        parts: what is measured.
        measure: take the curve now when the recipe says `measured` and none is cached; otherwise a flat one.

    Raises:
        LookupError: for a name that is none.
    """
    name, params = parse_spec(recipe.capacity) if not Path(recipe.capacity).is_file() else ("path", {})
    if name in ANALYTIC:
        return ANALYTIC[name](**params)
    if name == "path" or recipe.capacity.endswith(".json"):
        return Capacity.load(Path(recipe.capacity))
    if name != "measured":
        raise LookupError(
            f"unknown capacity {recipe.capacity!r}; known: measured, flat, roofline, staircase, or the path of a JSON"
        )
    tables = getattr(getattr(parts.target, "tables", None), "capacity", None)
    if tables is not None:
        return tables  # type: ignore[no-any-return]
    return measured_capacity(recipe, parts) if measure and parts.drafter is not None else flat()


def measured_capacity(recipe: Recipe, parts: Parts) -> Capacity:
    """The cached curve of this device and composition, taken now (some seconds) when there is none."""
    path = capacity_file(recipe)
    if path.is_file():
        return Capacity.load(path)
    sizes, context_len = ladder(recipe.batch), min(96, parts.target.max_positions // 4)
    source = f"measured: {recipe.device}, {recipe.target}, {recipe.drafter}"
    found = profiling.profile(
        parts, gamma=recipe.gamma, num_requests=sizes, context_len=context_len, max_seconds=3.0, source=source
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    found.capacity.save(path)
    return found.capacity


def ladder(batch: int) -> list[int]:
    """Batch sizes by two up to `batch`: requests come and go, and the price of each size decides about drafting there.

    >>> ladder(6)
    [1, 2, 4, 6]
    """
    return [1 << k for k in range((batch - 1).bit_length())] + [batch]


def capacity_file(recipe: Recipe) -> Path:
    """Where the measured curve of a recipe is cached (SPARKIT_CACHE, else the user's cache folder)."""
    home = os.environ.get("SPARKIT_CACHE") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    names = ("target", "drafter", "head", "confidence", "calibrator", "verifier", "gamma", "batch", "device", "dtype")
    facts = [getattr(recipe, name) for name in names] + [torch.__version__, torch.get_num_threads(), profiling.METHOD]
    key = hashlib.sha256(json.dumps(facts, default=str).encode()).hexdigest()[:16]
    return Path(home) / "sparkit" / "capacity" / f"{key}.json"


def mispriced(recipe: Recipe, capacity: Capacity, plain: Iterable[Round]) -> str | None:
    """What to tell whoever plans on a kept curve that other hours made, by plain decoding's steps beside it.

    Args:
        recipe: whose curve it is.
        capacity: the curve.
        plain: rounds of plain decoding of the same target in the same process.
    """
    if recipe.capacity != "measured" or not capacity.is_measured:
        return None
    steps = {one.step: one for one in plain if one.kind == "undrafted"}.values()
    pairs = [(1 / capacity.undrafted_rate(one.num_requests, one.batch_tokens), one.seconds.total) for one in steps]
    if not pairs:
        return None
    off = statistics.median(price / took for price, took in pairs if took > 0)
    if 1 / MOST_OFF <= off <= MOST_OFF:
        return None
    price, took = (1e3 * statistics.median(column) for column in zip(*pairs, strict=True))
    return (
        f"the capacity curve prices a plain step at {price:.1f} ms and here it took {took:.1f} ms: one of the two was "
        f"measured on a busy machine, and the scheduler planned on the curve; to measure anew delete "
        f"{capacity_file(recipe)}"
    )

"""Which capacity curve a composition is planned on: an analytic one, a file's, or one measured here and kept.

The measured curve belongs to a device and a composition; it is taken at first use and cached in the user's folder.
"""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import torch

from sparkit import profiling
from sparkit.capacity import Capacity, flat, roofline, staircase
from sparkit.engine import Parts
from sparkit.recipe import Recipe
from sparkit.registry import parse_spec

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
    sizes = sorted({1, -(-recipe.batch // 4), recipe.batch})
    found = profiling.profile(
        parts, gamma=recipe.gamma, num_requests=sizes, context_len=min(96, parts.target.max_positions // 4),
        max_seconds=2.5, source=f"measured: {recipe.device}, {recipe.target}, {recipe.drafter}",
    )  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    found.capacity.save(path)
    return found.capacity


def capacity_file(recipe: Recipe) -> Path:
    """Where the measured curve of a recipe is cached (SPARKIT_CACHE, else the user's cache folder)."""
    home = os.environ.get("SPARKIT_CACHE") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    names = ("target", "drafter", "head", "confidence", "calibrator", "verifier", "gamma", "batch", "device", "dtype")
    facts = [getattr(recipe, name) for name in names] + [torch.__version__, torch.get_num_threads(), profiling.METHOD]
    key = hashlib.sha256(json.dumps(facts, default=str).encode()).hexdigest()[:16]
    return Path(home) / "sparkit" / "capacity" / f"{key}.json"

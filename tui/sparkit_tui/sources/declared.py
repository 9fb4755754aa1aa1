"""What the parts of a composition promise, read off the registries by name (design section 2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

CHAIN = ("confidence", "calibrator", "scheduler")


@dataclass(frozen=True, slots=True)
class Declared:
    """The composition's promise."""

    is_lossless: bool | None
    lossy_parts: tuple[str, ...]
    is_schedule_invariant: bool


def declare(parts: Mapping[str, Any]) -> Declared:
    """Every part lossless, or the verifier schedule-invariant and itself lossless; None when a part is unknown."""
    promises = {kind: _promise(kind, parts.get(kind)) for kind in ("drafter", *CHAIN, "verifier")}
    is_invariant = _is_invariant(parts.get("verifier"))
    judged = ("drafter", "verifier") if is_invariant else tuple(promises)
    lossy = tuple(f"{kind} {parts.get(kind)}" for kind in judged if promises[kind] is False)
    unknown = any(promises[kind] is None for kind in judged)
    return Declared(False if lossy else None if unknown else True, lossy, is_invariant)


def registry(kind: str) -> Any:
    """The registry of a kind of part."""
    from sparkit import protocols

    return getattr(protocols, f"{kind.upper()}S")


def factory(kind: str, spec: Any) -> Any:
    """What a part's specification makes; None when this installation does not know it."""
    if not isinstance(spec, str) or not spec:
        return None
    try:
        return registry(kind).part(spec.partition(":")[0]).factory
    except LookupError:
        return None


def _promise(kind: str, spec: Any) -> bool | None:
    if spec is None or spec in ("", "none", "auto"):
        return True  # left to compose, which chooses lossless parts
    if factory(kind, spec) is None:
        return None
    return bool(registry(kind).part(spec.partition(":")[0]).lossless)


def _is_invariant(spec: Any) -> bool:
    return bool(getattr(factory("verifier", spec), "schedule_invariant", False))

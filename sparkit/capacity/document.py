"""The JSON of a capacity, every field checked before it is used."""

from collections.abc import Sequence
from typing import Any

from sparkit.capacity.curve import Curve
from sparkit.files import shown

SCHEMA = "sparkit.capacity/1"
CURVES = ("verify", "draft", "overhead", "plain_overhead", "raw_verify", "draft_token")


def read_fields(document: Any, where: str, schema: str, known: Sequence[str]) -> dict[str, Any]:
    """The fields of a capacity, curves made.

    Raises:
        ValueError: naming the file, the field and what is expected there.
    """
    if not isinstance(document, dict) or document.get("schema") != schema:
        raise ValueError(f"{where}: expected a JSON object of schema {schema!r}; make one with `sparkit profile`")
    if unknown := [key for key in document if key not in known]:
        raise ValueError(f"{where}: unknown field {shown(unknown[0])}; a capacity has {', '.join(sorted(known))}")
    if document.get("verify") is None:
        raise ValueError(f"{where}: the field 'verify' is missing; it holds points, [[batch_tokens, seconds], ...]")
    curves = {name: curve_of(document[name], f"{where}, {name}") for name in CURVES if document.get(name) is not None}
    gamma, source, is_measured = (
        document.get("gamma"),
        document.get("source", "table"),
        document.get("is_measured", False),
    )
    if not (gamma is None or (type(gamma) is int and gamma >= 1)):
        raise ValueError(f"{where}: gamma={shown(gamma)}; expected a block length of 1 or more, or null")
    if not isinstance(source, str) or not isinstance(is_measured, bool):
        raise ValueError(f"{where}: expected source as text and is_measured as true or false")
    return {**curves, "source": source, "is_measured": is_measured, "gamma": gamma}


def curve_of(value: Any, where: str) -> Curve:
    """A curve from its object, or from bare points."""
    points = value.get("points") if isinstance(value, dict) else value
    if not isinstance(points, list | tuple) or not all(_is_point(point) for point in points):
        raise ValueError(f"{where}: expected points as [[size, seconds], ...], found {shown(value)}")
    kind: Any = value.get("kind", "linear") if isinstance(value, dict) else "linear"
    if kind not in ("step", "linear"):
        raise ValueError(f"{where}: kind={shown(kind)}; expected 'step' or 'linear'")
    try:
        return Curve(tuple((size, float(seconds)) for size, seconds in points), kind)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{where}: {error}") from error


def _is_point(point: Any) -> bool:
    is_pair = isinstance(point, list | tuple) and len(point) == 2
    return is_pair and type(point[0]) is int and type(point[1]) in (int, float)

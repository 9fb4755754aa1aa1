"""A calibration on disk: numbers that belong to one drafter, target, verifier, temperature and filters, and say so.

warn_mismatch(calibrator.provenance, Provenance(drafter="dspark", target="bundled"))
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from sparkit.files import read_json, write_json
from sparkit.labels import Records
from sparkit.metrics import auc, ece, perfect_ece
from sparkit.survival import survival_of

SCHEMA = "sparkit.calibration/1"


@dataclass(frozen=True, slots=True)
class Provenance:
    """What a calibration was fitted on; None where nobody said."""

    drafter: str | None = None
    target: str | None = None
    verifier: str | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    gamma: int | None = None
    confidence: str | None = None

    @classmethod
    def of(cls, recipe: Mapping[str, Any]) -> "Provenance":
        """What the fields of a recipe (or of a trace's header) say."""
        drafter, head = recipe.get("drafter"), recipe.get("head")
        known: dict[str, Any] = {f.name: recipe.get(f.name) for f in fields(cls)}
        known["drafter"] = f"{drafter}, head {head}" if drafter and head else drafter
        return cls(**known)

    def differences(self, running: "Provenance") -> list[str]:
        """Fields that both know and disagree on, as text."""
        pairs = [(f.name, getattr(self, f.name), getattr(running, f.name)) for f in fields(self)]
        return [
            f"{name} {fitted!r}, not {now!r}"
            for name, fitted, now in pairs
            if fitted is not None and now is not None and fitted != now
        ]


def warn_mismatch(fitted: Provenance, running: Provenance) -> None:
    """Warns when a calibration is used for something else than it was fitted on; shorter blocks are no difference."""
    if fitted.gamma is not None and running.gamma is not None and running.gamma < fitted.gamma:
        running = replace(running, gamma=fitted.gamma)  # a position is the same in them
    if different := fitted.differences(running):
        warnings.warn(
            f"this calibration was fitted for {'; '.join(different)}: its confidences may be off; "
            "fit one with `sparkit calibrate`",
            UserWarning,
            stacklevel=2,
        )


@dataclass(frozen=True, slots=True)
class PositionFit:
    """How one position's fit went; position is 1-based, errors are of survival against "prefix accepted"."""

    position: int
    num_rounds: int
    ece_before: float | None
    ece_after: float | None
    ece_floor: float | None  # of a perfect predictor on as many rounds
    auc: float | None
    note: str = ""  # why a position was not fitted


def report(records: Records, confidence: Float[Tensor, "N gamma"], notes: Sequence[str]) -> tuple[PositionFit, ...]:
    """Each position's calibration error before (raw) and after (`confidence`), on the rounds that verified it."""
    raw = survival_of(to_confidence(records.logits, records.logits))
    fitted = survival_of(confidence)
    return tuple(_position(records, raw, fitted, k, note) for k, note in enumerate(notes))


def _position(
    records: Records, raw: Float[Tensor, "N gamma"], fitted: Float[Tensor, "N gamma"], k: int, note: str
) -> PositionFit:
    rows = records.verify_len > k
    before, after, outcome = raw[rows, k], fitted[rows, k], records.accepted[rows] > k
    errors = (ece(before, outcome), ece(after, outcome), perfect_ece(after), auc(after, outcome))
    return PositionFit(k + 1, int(rows.sum()), *errors, note)


def save(
    path: Path, kind: str, numbers: Mapping[str, Any], provenance: Provenance, report: Sequence[PositionFit]
) -> None:
    """Writes a calibration, whole or not at all."""
    document = {"schema": SCHEMA, "calibrator": kind, "provenance": asdict(provenance), **numbers}
    write_json(path, {**document, "report": [asdict(position) for position in report]})


def load(path: Path, kind: str) -> tuple[dict[str, Any], Provenance]:
    """The document of a calibrator of this kind, and what it was fitted on; a drafter's folder holds KIND.json.

    Raises:
        FileNotFoundError: when it is not there.
        ValueError: naming the file and what is wrong with it.
    """
    path = file_of(path, kind)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such calibration; fit one with `sparkit calibrate --out {path}`")
    document = read_json(path)
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise ValueError(f"{path}: expected a JSON object of schema {SCHEMA!r}; fit one with `sparkit calibrate`")
    if document.get("calibrator") != kind:
        raise ValueError(f"{path}: fitted for calibrator {str(document.get('calibrator'))[:40]!r}, not {kind!r}")
    given = document.get("provenance", {})
    known = {f.name for f in fields(Provenance)}
    if not isinstance(given, dict) or not set(given) <= known:
        raise ValueError(f"{path}, provenance: expected an object with {', '.join(sorted(known))}")
    return document, Provenance(**given)


def file_of(path: Path, kind: str) -> Path:
    """The file itself, or where a folder keeps its calibration of a kind."""
    return path / f"{kind}.json" if path.is_dir() else path


def numbers(document: Mapping[str, Any], name: str, path: Path, least: float = -math.inf) -> tuple[float, ...]:
    """A list of finite numbers of at least `least`, checked."""
    values = document.get(name)
    is_list = isinstance(values, list) and bool(values) and all(type(v) in (int, float) for v in values)
    if not is_list or not all(math.isfinite(v) and v >= least for v in values or ()):
        raise ValueError(f"{path}, {name}: expected finite numbers, {least} or more, found {str(values)[:60]!r}")
    return tuple(float(v) for v in values or ())


def for_gamma(values: Float[Tensor, " positions"], gamma: int) -> Float[Tensor, " gamma"]:
    """The first gamma positions' numbers.

    Raises:
        ValueError: when the calibration has fewer positions than the block.
    """
    if len(values) < gamma:
        raise ValueError(f"a calibration of {len(values)} positions was given blocks of gamma={gamma}; fit it anew")
    return values[:gamma]


def to_confidence(scaled: Float[Tensor, "R gamma"], logits: Float[Tensor, "R gamma"]) -> Float[Tensor, "R gamma"]:
    """sigmoid(scaled), with exact ends."""
    return with_exact_ends(torch.sigmoid(scaled), logits)


def with_exact_ends(confidence: Float[Tensor, "R gamma"], logits: Float[Tensor, "R gamma"]) -> Float[Tensor, "R gamma"]:
    """Raw logits of +inf give exactly 1, -inf exactly 0, nan 0, whatever the correction made of them."""
    return torch.where(logits.isfinite(), confidence, (logits > 0).to(confidence))

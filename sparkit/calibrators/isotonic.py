"""Isotonic regression: any non-decreasing curve from logit to confidence, one a position [Zadrozny, Elkan 2002].

Labels are those of c_k alone (`sparkit.labels`). Between the knots the curve is straight, outside it stays level.
Fitting needs scikit-learn; using a fitted one does not.

    Isotonic(path="calibration.json").calibrate(logits, None)
"""

import itertools
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sparkit import calibration
from sparkit.calibration import PositionFit, Provenance, with_exact_ends
from sparkit.decisions import Decisions
from sparkit.labels import Records, hard_labels
from sparkit.protocols import CALIBRATORS
from sparkit.rounds import Rounds

MIN_ROUNDS = 30
Knots = tuple[tuple[float, float], ...]  # (logit, confidence), logits ascending


@CALIBRATORS.register("isotonic", summary="any rising curve a position, by isotonic regression")
class Isotonic:
    """A table a position.

    Args:
        path: a file that `save` wrote.
        knots: or the tables themselves, one a position; () leaves a position as it is.
        provenance: what they were fitted on, when given as tables.
    """

    lossless = True
    batch_independent = True

    def __init__(
        self,
        path: Path | None = None,
        knots: tuple[Knots, ...] | None = None,
        provenance: Provenance | None = None,
    ) -> None:
        self.provenance = provenance or Provenance()
        if path is not None:
            document, self.provenance = calibration.load(Path(path), "isotonic")
            knots = _read(document.get("knots"), Path(path))
        if not knots:
            missing = "isotonic needs path=FILE (made by `sparkit calibrate`) or knots"
            raise ValueError(missing if path is None else f"{path}: knots: expected a table for every position")
        if not all(_rises(table) for table in knots):
            raise ValueError(f"{path or 'isotonic'}: knots: expected (logit, confidence in 0..1), both ascending")
        self.knots = knots

    @classmethod
    def fit(cls, records: Records, provenance: Provenance | None = None) -> tuple["Isotonic", tuple[PositionFit, ...]]:
        """The calibrator of some rounds, and how each position's fit went.

        Raises:
            ModuleNotFoundError: without scikit-learn, saying how to install it.
        """
        tables, notes = zip(*(_fit(records, k) for k in range(records.gamma)), strict=True)
        fitted = cls(knots=tables, provenance=provenance)
        return fitted, calibration.report(records, fitted.calibrate(records.logits, None), notes)

    def save(self, path: Path, report: tuple[PositionFit, ...] = ()) -> None:
        """Writes JSON."""
        numbers = {"knots": [[list(knot) for knot in table] for table in self.knots]}
        calibration.save(path, "isotonic", numbers, self.provenance, report)

    def start(self) -> None:
        """No memory."""

    def calibrate(self, logits: Float[Tensor, "R gamma"], memory: None) -> Float[Tensor, "R gamma"]:
        """See `Calibrator`."""
        if logits.shape[1] > len(self.knots):
            raise ValueError(f"isotonic: fitted for {len(self.knots)} positions, given gamma={logits.shape[1]}")
        columns = [_interpolate(logits[:, k], self.knots[k]) for k in range(logits.shape[1])]
        return with_exact_ends(torch.stack(columns, dim=1), logits)

    def floor(self, memory: None, anchors: Int[Tensor, " R"], decisions: Decisions) -> Int[Tensor, " R"]:
        """No probes."""
        return torch.zeros_like(anchors)

    def observe(self, memory: None, rounds: Rounds) -> None:
        """Learns nothing while serving."""


def _interpolate(logits: Float[Tensor, " R"], knots: Knots) -> Float[Tensor, " R"]:
    if not knots:
        return torch.sigmoid(logits)
    table = torch.tensor(knots, dtype=torch.float64).T.contiguous().to(logits)
    x, y = table[0], table[1]
    if len(x) == 1:
        return y.expand_as(logits)
    right = torch.searchsorted(x, logits.nan_to_num().contiguous()).clamp(1, len(x) - 1)
    share = ((logits - x[right - 1]) / (x[right] - x[right - 1])).nan_to_num().clamp(0, 1)
    return torch.lerp(y[right - 1], y[right], share)


def _fit(records: Records, position: int) -> tuple[Knots, str]:
    labels = hard_labels(records.accepted, records.verify_len, records.gamma)
    rows = labels.is_known[:, position] & records.logits[:, position].isfinite()
    num = int(rows.sum())
    if num < MIN_ROUNDS:
        return (), f"{num} labels: at least {MIN_ROUNDS} are needed"
    logits, accepted = records.logits[rows, position].double(), labels.label[rows, position].double()
    fitted = _regression().fit(logits.numpy(), accepted.numpy())
    knots = zip(fitted.X_thresholds_.tolist(), fitted.y_thresholds_.tolist(), strict=True)
    one_sided = {0.0: "nothing was accepted here", float(num): "nothing was rejected here"}
    return tuple(knots), one_sided.get(float(accepted.sum()), "")


def _regression() -> Any:
    try:
        from sklearn.isotonic import IsotonicRegression
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("fitting isotonic needs scikit-learn: pip install scikit-learn") from error
    return IsotonicRegression(y_min=0.0, y_max=1.0, increasing=True, out_of_bounds="clip")


def _rises(table: Knots) -> bool:
    inside = all(0 <= y <= 1 for _, y in table)
    return inside and all(a[0] < b[0] and a[1] <= b[1] for a, b in itertools.pairwise(table))


def _read(value: Any, path: Path) -> tuple[Knots, ...]:
    is_right = isinstance(value, list) and all(
        isinstance(table, list) and all(isinstance(k, list) and len(k) == 2 for k in table) for table in value
    )
    if not is_right or not all(type(x) in (int, float) for table in value for knot in table for x in knot):
        raise ValueError(f"{path}, knots: expected a list a position of [logit, confidence], found {str(value)[:60]!r}")
    return tuple(tuple((float(x), float(y)) for x, y in table) for table in value)

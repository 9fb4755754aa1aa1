"""Platt scaling: c_k = sigmoid(slope_k logit_k + bias_k) with slope_k >= 0, fitted by maximum likelihood [Platt 1999].

Labels are those of c_k alone (`sparkit.labels`): is draft k accepted, given that its prefix was. Platt's targets
(N+ + 1) / (N+ + 2) and 1 / (N- + 2) keep a position without any rejection finite. A best slope below 0 would turn the
order around: it becomes 0, and the bias the position's rate.

    Platt(path="calibration.json").calibrate(logits, None)
"""

from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sparkit import calibration
from sparkit.calibration import PositionFit, Provenance, for_gamma, to_confidence
from sparkit.decisions import Decisions
from sparkit.files import shown
from sparkit.labels import Records, hard_labels
from sparkit.protocols import CALIBRATORS
from sparkit.rounds import Rounds

MIN_ROUNDS = 30
MAX_LOGIT = 30.0  # sigmoid is 1 - 1e-13 there: larger ones would only rule the fit
NUM_STEPS = 50


@CALIBRATORS.register("platt", summary="a slope and a bias a position, by maximum likelihood")
class Platt:
    """A logistic curve a position.

    Args:
        path: a file that `save` wrote.
        slopes: or the numbers themselves, one a position, 0 or more.
        biases: beside the slopes.
        provenance: what they were fitted on, when given as numbers.
    """

    lossless = True
    batch_independent = True

    def __init__(
        self,
        path: Path | None = None,
        slopes: tuple[float, ...] | None = None,
        biases: tuple[float, ...] | None = None,
        provenance: Provenance | None = None,
    ) -> None:
        self.provenance = provenance or Provenance()
        if path is not None:
            document, self.provenance = calibration.load(Path(path), "platt")
            slopes = calibration.numbers(document, "slopes", Path(path), least=0.0)
            biases = calibration.numbers(document, "biases", Path(path))
        if slopes is None or biases is None:
            raise ValueError("platt needs path=FILE (made by `sparkit calibrate`), or slopes and biases")
        if len(slopes) != len(biases) or min(slopes, default=-1.0) < 0:
            given = f"{path or 'platt'}: slopes={shown(slopes)}, biases={shown(biases)}"
            raise ValueError(f"{given}: expected one of each a position, slopes >= 0")
        self.slopes = torch.tensor(slopes, dtype=torch.float64)
        self.biases = torch.tensor(biases, dtype=torch.float64)

    @classmethod
    def fit(cls, records: Records, provenance: Provenance | None = None) -> tuple["Platt", tuple[PositionFit, ...]]:
        """The calibrator of some rounds, and how each position's fit went."""
        labels = hard_labels(records.accepted, records.verify_len, records.gamma)
        known = labels.is_known & records.logits.isfinite()  # the ends are exact whatever is fitted
        logits = records.logits.double().clamp(-MAX_LOGIT, MAX_LOGIT)
        fits = [_fit(logits[:, k], labels.label[:, k] > 0, known[:, k]) for k in range(records.gamma)]
        slopes, biases, notes = zip(*fits, strict=True)
        fitted = cls(slopes=slopes, biases=biases, provenance=provenance)
        return fitted, calibration.report(records, fitted.calibrate(records.logits, None), notes)

    def save(self, path: Path, report: tuple[PositionFit, ...] = ()) -> None:
        """Writes JSON."""
        numbers = {"slopes": self.slopes.tolist(), "biases": self.biases.tolist()}
        calibration.save(path, "platt", numbers, self.provenance, report)

    def start(self) -> None:
        """No memory."""

    def calibrate(self, logits: Float[Tensor, "R gamma"], memory: None) -> Float[Tensor, "R gamma"]:
        """See `Calibrator`."""
        slopes, biases = (for_gamma(x, logits.shape[1]).to(logits) for x in (self.slopes, self.biases))
        return to_confidence(slopes * logits + biases, logits)

    def floor(self, memory: None, anchors: Int[Tensor, " R"], decisions: Decisions) -> Int[Tensor, " R"]:
        """No probes."""
        return torch.zeros_like(anchors)

    def observe(self, memory: None, rounds: Rounds) -> None:
        """Learns nothing while serving."""


def _fit(
    logits: Float[Tensor, " N"], is_accepted: Bool[Tensor, " N"], is_known: Bool[Tensor, " N"]
) -> tuple[float, float, str]:
    num = int(is_known.sum())
    if num < MIN_ROUNDS:
        return 1.0, 0.0, f"{num} labels: at least {MIN_ROUNDS} are needed"
    logits, is_accepted = logits[is_known], is_accepted[is_known]
    true, false = int(is_accepted.sum()), int((~is_accepted).sum())
    target = torch.where(is_accepted, (true + 1) / (true + 2), 1 / (false + 2)).double()
    level = float(torch.logit(target.mean()))
    if not true or not false:
        return 0.0, level, f"nothing was {'rejected' if true else 'accepted'} here"
    slope, bias = _maximum_likelihood(logits, target)
    return (slope, bias, "") if slope >= 0 else (0.0, level, "the logit tells nothing here: slope 0")


def _maximum_likelihood(logits: Float[Tensor, " N"], target: Float[Tensor, " N"]) -> tuple[float, float]:
    """Newton's method on the convex log loss, with a ridge that only matters where the data say nothing."""
    design = torch.stack((logits, torch.ones_like(logits)), dim=1)
    params = torch.tensor([0.0, float(torch.logit(target.mean()))], dtype=torch.float64)
    ridge = 1e-6 * torch.eye(2, dtype=torch.float64)
    for _ in range(NUM_STEPS):
        predicted = torch.sigmoid(design @ params)
        slope = design.T @ (predicted - target)
        curvature = (design.T * (predicted * (1 - predicted))) @ design + ridge
        params = params - torch.linalg.solve(curvature, slope).clamp(-2, 2)
    return float(params[0]), float(params[1])

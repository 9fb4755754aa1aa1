"""Sequential temperature scaling, fitted once on held-out full-verification rounds [DSpark section 3.2].

c_k = sigmoid(logit_k / T_k): order-preserving at each position. `sparkit.temperature_scaling` says how T_k is found.

    Sts(path="calibration.json").calibrate(logits, None)
"""

from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sparkit import calibration
from sparkit.calibration import PositionFit, Provenance, for_gamma, to_confidence
from sparkit.decisions import Decisions
from sparkit.files import shown
from sparkit.labels import Records
from sparkit.protocols import CALIBRATORS
from sparkit.rounds import Rounds
from sparkit.temperature_scaling import fit_temperatures


@CALIBRATORS.register("sts", summary="one temperature a position, fitted left to right (STS)")
class Sts:
    """Method section 5, STS.

    Args:
        path: a file that `save` wrote.
        calibration_temperatures: or the numbers themselves, one a position.
        provenance: what they were fitted on, when given as numbers.
    """

    lossless = True
    batch_independent = True

    def __init__(
        self,
        path: Path | None = None,
        calibration_temperatures: tuple[float, ...] | None = None,
        provenance: Provenance | None = None,
    ) -> None:
        if (path is None) == (calibration_temperatures is None):
            raise ValueError(
                "sts needs path=FILE (made by `sparkit calibrate`) or calibration_temperatures, and not both"
            )
        self.provenance = provenance or Provenance()
        if path is not None:
            document, self.provenance = calibration.load(Path(path), "sts")
            calibration_temperatures = calibration.numbers(document, "calibration_temperatures", Path(path))
        assert calibration_temperatures is not None
        if not calibration_temperatures or min(calibration_temperatures) <= 0:
            given = f"{path or 'sts'}: calibration_temperatures={shown(calibration_temperatures)}"
            raise ValueError(f"{given}: expected one number above 0 a position")
        self.calibration_temperatures = torch.tensor(calibration_temperatures, dtype=torch.float64)

    @classmethod
    def fit(cls, records: Records, provenance: Provenance | None = None) -> tuple["Sts", tuple[PositionFit, ...]]:
        """The calibrator of some rounds, and how each position's fit went."""
        scaling = fit_temperatures(records)
        fitted = cls(calibration_temperatures=tuple(scaling.calibration_temperatures.tolist()), provenance=provenance)
        return fitted, calibration.report(records, fitted.calibrate(records.logits, None), scaling.notes)

    def save(self, path: Path, report: tuple[PositionFit, ...] = ()) -> None:
        """Writes JSON."""
        numbers = {"calibration_temperatures": self.calibration_temperatures.tolist()}
        calibration.save(path, "sts", numbers, self.provenance, report)

    def start(self) -> None:
        """No memory."""

    def calibrate(self, logits: Float[Tensor, "R gamma"], memory: None) -> Float[Tensor, "R gamma"]:
        """See `Calibrator`."""
        return to_confidence(logits / for_gamma(self.calibration_temperatures, logits.shape[1]).to(logits), logits)

    def floor(self, memory: None, anchors: Int[Tensor, " R"], decisions: Decisions) -> Int[Tensor, " R"]:
        """No probes."""
        return torch.zeros_like(anchors)

    def observe(self, memory: None, rounds: Rounds) -> None:
        """Learns nothing while serving."""

"""Raw confidences as they are: c_k = sigmoid(logit_k).

>>> Identity().calibrate(torch.tensor([[0.0, torch.inf]]), None)
tensor([[0.5000, 1.0000]])
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sparkit.decisions import Decisions
from sparkit.protocols import CALIBRATORS
from sparkit.rounds import Rounds


@CALIBRATORS.register("identity", summary="raw confidences as they are")
class Identity:
    """No correction, no probes, no memory."""

    lossless = True
    batch_independent = True

    def start(self) -> None:
        """No memory."""

    def calibrate(self, logits: Float[Tensor, "R gamma"], memory: None) -> Float[Tensor, "R gamma"]:
        """See `Calibrator`."""
        return torch.sigmoid(logits).nan_to_num(nan=0.0)

    def floor(self, memory: None, anchors: Int[Tensor, " R"], decisions: Decisions) -> Int[Tensor, " R"]:
        """No probes."""
        return torch.zeros_like(anchors)

    def observe(self, memory: None, rounds: Rounds) -> None:
        """Learns nothing."""

"""The capacity curve: how many engine rounds a second fit at each batch size."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Flat:
    """Every extra token looks free."""

    rate: float = 1.0

    def rounds_per_second(self, num_requests: int, batch_tokens: int) -> float:
        """Constant."""
        return self.rate


Capacity = Flat

"""What drafters are trained on: prompts answered by the target itself, with the features it had while answering.

Two files in one folder: `responses.safetensors` (tokens, lengths, prompt lengths, domains) and `features.npy`, a
memory-mapped half-precision array with one row a token: the tapped layers side by side, the last layer last. The
frozen target then never runs during drafter training; its logits are its LM head on the last part of a row.

Not done here: producing them (`sparkit.training.generate`).

>>> Responses(torch.arange(5), torch.tensor([3, 2]), torch.tensor([1, 1]), torch.tensor([0, 1])).starts.tolist()
[0, 3]
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor

from sparkit.training.checkpoint import write_tensors

TOKENS, FEATURES = "responses.safetensors", "features.npy"


@dataclass(frozen=True, slots=True)
class Responses:
    """Documents in one flat row."""

    tokens: Int[Tensor, " N"]
    lengths: Int[Tensor, " D"]
    prompt_lengths: Int[Tensor, " D"]  # leading tokens of each document that the target did not write
    domains: Int[Tensor, " D"]  # index into the corpus' DOMAINS

    @property
    def starts(self) -> Int[Tensor, " D"]:
        """Flat index of each document's first token."""
        return self.lengths.cumsum(0) - self.lengths

    def document(self, index: int) -> slice:
        """The flat rows of one document."""
        start = int(self.starts[index])
        return slice(start, start + int(self.lengths[index]))

    def supervised(self, index: int) -> Bool[Tensor, " L"]:
        """The tokens of one document that the target wrote."""
        return torch.arange(int(self.lengths[index])) >= self.prompt_lengths[index]

    def save(self, folder: Path) -> None:
        """Writes the tokens."""
        folder.mkdir(parents=True, exist_ok=True)
        tensors = {name: getattr(self, name) for name in ("tokens", "lengths", "prompt_lengths", "domains")}
        write_tensors(folder / TOKENS, tensors, {"schema": "sparkit.responses/1"})

    @classmethod
    def load(cls, folder: Path) -> "Responses":
        """Reads the tokens.

        Raises:
            FileNotFoundError: without them, saying how to make them.
        """
        path = folder / TOKENS
        if not path.exists():
            raise FileNotFoundError(f"no responses in {folder}: run `sparkit data generate` first")
        return cls(**load_file(path))


class Features:
    """Feature rows, one a token, read where they are needed."""

    def __init__(self, rows: NDArray[np.floating]) -> None:
        self.rows = rows

    @classmethod
    def load(cls, folder: Path) -> "Features":
        """The rows of a folder, memory-mapped.

        Raises:
            FileNotFoundError: without them, saying how to make them.
        """
        path = folder / FEATURES
        if not path.exists():
            raise FileNotFoundError(f"no {FEATURES} in {folder}: run `sparkit data generate` first")
        return cls(np.load(path, mmap_mode="r"))

    def __getitem__(self, rows: slice) -> Float[Tensor, "L width"]:
        """A copy in float32."""
        return torch.from_numpy(self.rows[rows].astype(np.float32))

"""The trained confidence head: c_k = sigmoid(w^T [h_k ; W1[x_{k-1}]] + b) [DSpark eq. 7].

It sees the backbone's state and the token before, never x_k. Without a Markov table its input is h_k alone. Its
weights travel in the drafter's folder as `confidence_head.proj`.

>>> ConfidenceHead(hidden_size=4, rank=2).proj.in_features
6
"""

from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sparkit.protocols import CONFIDENCES
from sparkit.rounds import Draft, Rounds
from sparkit.targets.loaders.folder import weight_files
from sparkit.targets.loaders.safetensors_file import FLOATS, Shards

_WEIGHT, _BIAS = "confidence_head.proj.weight", "confidence_head.proj.bias"


class ConfidenceHead(nn.Module):
    """See `sparkit.protocols.Confidence`.

    Args:
        hidden_size: d, the width of h_k.
        rank: width of the previous token's embedding; 0 reads h_k alone.
    """

    lossless = True
    batch_independent = True

    def __init__(self, hidden_size: int, rank: int = 0) -> None:
        super().__init__()
        if hidden_size < 1 or rank < 0:
            raise ValueError(f"confidence head with hidden_size={hidden_size}, rank={rank}: expected >= 1 and >= 0")
        self.hidden_size, self.rank = hidden_size, rank
        self.proj = nn.Linear(hidden_size + rank, 1)
        nn.init.zeros_(self.proj.weight)
        nn.init.zeros_(self.proj.bias)

    def forward(
        self, hidden: Float[Tensor, "N gamma d"], previous_embedding: Float[Tensor, "N gamma r"] | None = None
    ) -> Float[Tensor, "N gamma"]:
        """Raw logits (the training form)."""
        if not self.rank:
            logits: Tensor = self.proj(hidden)
            return logits[..., 0]
        if previous_embedding is None or previous_embedding.shape[-1] != self.rank:
            given = None if previous_embedding is None else list(previous_embedding.shape)
            raise ValueError(
                f"confidence head of rank {self.rank}: the previous token's embedding is {given}; it was trained "
                "with a drafter whose serial head has such a table"
            )
        logits = self.proj(torch.cat((hidden, previous_embedding), dim=-1))
        return logits[..., 0]

    def start(self) -> None:
        """No memory."""

    @torch.no_grad()
    def logits(self, draft: Draft, memory: None) -> Float[Tensor, "R gamma"]:
        """See `Confidence`."""
        if draft.hidden is None or draft.hidden.shape[-1] != self.hidden_size:
            given = None if draft.hidden is None else list(draft.hidden.shape)
            raise ValueError(
                f"confidence head of width {self.hidden_size}: the draft's hidden states are {given}; use a confidence "
                "that needs none ('position', 'max_prob')"
            )
        return self.forward(draft.hidden, draft.previous_embedding)

    def observe(self, memory: None, rounds: Rounds) -> None:
        """No memory."""


@CONFIDENCES.register("head", summary="trained head on the backbone's state and the previous token (default)")
def load_head(
    path: Path, hidden_size: int, dtype: torch.dtype = torch.float32, device: torch.device = torch.device("cpu")
) -> ConfidenceHead:
    """The head in a drafter's folder.

    Args:
        path: the folder.
        hidden_size: the target's width, which says how much of the input is the previous token.
        dtype: precision in memory.
        device: where it goes.

    Raises:
        FileNotFoundError: without weights.
        ValueError: for a folder without a head, or one of another width.
    """
    shards = Shards(weight_files(Path(path)))
    found: dict[str, Any] = {name: shards.entries.get(name) for name in (_WEIGHT, _BIAS)}
    weight, bias = found[_WEIGHT], found[_BIAS]
    if weight is None or bias is None:
        raise ValueError(f"{path}: no trained confidence head ({_WEIGHT}); use the confidence 'position' or 'max_prob'")
    is_row = len(weight.shape) == 2 and weight.shape[0] == 1 and weight.shape[1] >= hidden_size
    if not is_row or bias.shape != (1,) or not {weight.dtype, bias.dtype} <= set(FLOATS):
        raise ValueError(
            f"{path}: {_WEIGHT} {weight.dtype} {list(weight.shape)}, bias {list(bias.shape)}; expected floats "
            f"[1, {hidden_size} + rank] and [1]"
        )
    head = ConfidenceHead(hidden_size, weight.shape[1] - hidden_size).to(device=device, dtype=dtype)
    head.proj.weight.data.copy_(shards.read(_WEIGHT))
    head.proj.bias.data.copy_(shards.read(_BIAS))
    return head.eval().requires_grad_(False)

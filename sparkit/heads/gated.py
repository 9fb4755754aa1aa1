"""The gated Markov head: the backbone's state decides how much of each transition feature counts.

    e = W1[x_{k-1}],   B_k = (sigmoid(W_g [h_k ; e] + b) * e) W2        [method section 4]

>>> GatedHead(vocab_size=8, rank=2, hidden_size=4).gate.in_features
6
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from sparkit.protocols import HEADS


@HEADS.register("gated", summary="markov, each transition feature gated by the backbone's state")
class GatedHead(nn.Module):
    """See `sparkit.protocols.SerialHead`."""

    def __init__(self, vocab_size: int, rank: int = 64, hidden_size: int = 0) -> None:
        super().__init__()
        if rank < 1 or hidden_size < 1:
            raise ValueError(f"head 'gated' with rank={rank}, hidden_size={hidden_size}: expected both at least 1")
        self.rank = rank
        table = torch.empty(vocab_size, rank)
        # Drawn as torch draws it; on the meta device torch's own way imports its compiler, 2 s of every start.
        self.embedding = nn.Embedding(vocab_size, rank, _weight=table if table.is_meta else table.normal_())
        self.gate = nn.Linear(hidden_size + rank, rank)
        self.to_logits = nn.Linear(rank, vocab_size, bias=False)

    def start(self, anchor: Int[Tensor, " R"]) -> None:
        """No state beyond the previous token."""

    def step(
        self, state: None, previous_token: Int[Tensor, " R"], hidden: Float[Tensor, "R d"]
    ) -> tuple[Float[Tensor, "R V"], None]:
        """One position."""
        return self._bias(self.embedding(previous_token), hidden), None

    def block(
        self, previous_tokens: Int[Tensor, "N gamma"], hidden: Float[Tensor, "N gamma d"]
    ) -> Float[Tensor, "N gamma V"]:
        """The same for known previous tokens."""
        return self._bias(self.embedding(previous_tokens), hidden)

    def previous_embedding(self, previous_tokens: Int[Tensor, "N gamma"]) -> Float[Tensor, "N gamma r"]:
        """W1[x_{k-1}], ungated."""
        embedded: Tensor = self.embedding(previous_tokens)
        return embedded

    def _bias(self, embedded: Float[Tensor, "*N r"], hidden: Float[Tensor, "*N d"]) -> Float[Tensor, "*N V"]:
        gate = torch.sigmoid(self.gate(torch.cat((hidden, embedded), dim=-1)))
        bias: Tensor = self.to_logits(gate * embedded)
        return bias

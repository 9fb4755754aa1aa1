"""The gated Markov head: the backbone's state decides how much of each transition feature counts.

    e = W1[x_{k-1}],   B_k = (sigmoid(W_g [h_k ; e] + b) * e) W2        [method section 4]

>>> GatedHead(vocab_size=8, rank=2, hidden_size=4).gate.in_features
6
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from sparkit.protocols import HEADS


class Weights(NamedTuple):
    """The layers as functions take them, looked up once a block: a module's call costs more than its product."""

    embedding: Float[Tensor, "V r"]
    gate: Float[Tensor, "r d_r"]
    bias: Float[Tensor, " r"]
    to_logits: Float[Tensor, "V r"]


@HEADS.register("gated", summary="markov, each transition feature gated by the backbone's state")
class GatedHead(nn.Module):
    """See `sparkit.protocols.SerialHead`; its state is the weights that every step reads."""

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

    def start(self, anchor: Int[Tensor, " R"]) -> Weights:
        """Nothing but the weights."""
        return Weights(self.embedding.weight, self.gate.weight, self.gate.bias, self.to_logits.weight)

    def step(
        self, state: Weights, previous_token: Int[Tensor, " R"], hidden: Float[Tensor, "R d"]
    ) -> tuple[Float[Tensor, "R V"], Weights]:
        """One position."""
        return _bias(state, state.embedding.index_select(0, previous_token), hidden), state

    def block(
        self, previous_tokens: Int[Tensor, "N gamma"], hidden: Float[Tensor, "N gamma d"]
    ) -> Float[Tensor, "N gamma V"]:
        """The same for known previous tokens."""
        return _bias(self.start(previous_tokens[:, 0]), self.embedding(previous_tokens), hidden)

    def previous_embedding(self, previous_tokens: Int[Tensor, "N gamma"]) -> Float[Tensor, "N gamma r"]:
        """W1[x_{k-1}], ungated."""
        embedded: Tensor = self.embedding(previous_tokens)
        return embedded


def _bias(weights: Weights, embedded: Float[Tensor, "*N r"], hidden: Float[Tensor, "*N d"]) -> Float[Tensor, "*N V"]:
    gate = torch.sigmoid(F.linear(torch.cat((hidden, embedded), dim=-1), weights.gate, weights.bias))
    return F.linear(gate * embedded, weights.to_logits)

"""The recurrent head: a small state remembers the whole block, not only the last token [DSpark eq. 6].

    z_k = [s_{k-1} ; W1[x_{k-1}] ; h_k],   s_k = sig(W_g z) * s_{k-1} + (1 - sig(W_g z)) * tanh(W_c z),
    B_k = tanh(W_o z) W2,   s_0 = 0

W_g, W_c, W_o are the rows of one layer, `joint`, in the order gate, candidate, output.

>>> RnnHead(vocab_size=8, rank=2, hidden_size=4).joint.out_features
6
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from sparkit.protocols import HEADS


class Weights(NamedTuple):
    """The layers as functions take them, looked up once a block.

    Seven steps of three modules, called as modules, cost half as much again as what they compute.
    """

    embedding: Float[Tensor, "V r"]
    joint: Float[Tensor, "3r 2r_d"]
    bias: Float[Tensor, " 3r"]
    to_logits: Float[Tensor, "V r"]


@HEADS.register("rnn", summary="a recurrent state over the block's tokens")
class RnnHead(nn.Module):
    """See `sparkit.protocols.SerialHead`; the state is s [R, r], beside the weights that every step reads."""

    def __init__(self, vocab_size: int, rank: int = 64, hidden_size: int = 0) -> None:
        super().__init__()
        if rank < 1 or hidden_size < 1:
            raise ValueError(f"head 'rnn' with rank={rank}, hidden_size={hidden_size}: expected both at least 1")
        self.rank = rank
        table = torch.empty(vocab_size, rank)
        # Drawn as torch draws it; on the meta device torch's own way imports its compiler, 2 s of every start.
        self.embedding = nn.Embedding(vocab_size, rank, _weight=table if table.is_meta else table.normal_())
        self.joint = nn.Linear(2 * rank + hidden_size, 3 * rank)
        self.to_logits = nn.Linear(rank, vocab_size, bias=False)

    def start(self, anchor: Int[Tensor, " R"]) -> tuple[Float[Tensor, "R r"], Weights]:
        """s_0 = 0."""
        weights = Weights(self.embedding.weight, self.joint.weight, self.joint.bias, self.to_logits.weight)
        return weights.to_logits.new_zeros(len(anchor), self.rank), weights

    def step(
        self,
        state: tuple[Float[Tensor, "R r"], Weights],
        previous_token: Int[Tensor, " R"],
        hidden: Float[Tensor, "R d"],
    ) -> tuple[Float[Tensor, "R V"], tuple[Float[Tensor, "R r"], Weights]]:
        """One position."""
        memory, weights = state
        output, memory = _cell(weights, memory, weights.embedding.index_select(0, previous_token), hidden)
        return F.linear(output, weights.to_logits), (memory, weights)

    def block(
        self, previous_tokens: Int[Tensor, "N gamma"], hidden: Float[Tensor, "N gamma d"]
    ) -> Float[Tensor, "N gamma V"]:
        """The same for known previous tokens: the recurrence left to right, then one product with W2."""
        embedded, (memory, weights), outputs = self.embedding(previous_tokens), self.start(previous_tokens[:, 0]), []
        for k in range(previous_tokens.shape[1]):
            output, memory = _cell(weights, memory, embedded[:, k], hidden[:, k])
            outputs.append(output)
        bias: Tensor = self.to_logits(torch.stack(outputs, dim=1))
        return bias

    def previous_embedding(self, previous_tokens: Int[Tensor, "N gamma"]) -> Float[Tensor, "N gamma r"]:
        """W1[x_{k-1}]."""
        embedded: Tensor = self.embedding(previous_tokens)
        return embedded


def _cell(
    weights: Weights, memory: Float[Tensor, "R r"], embedded: Float[Tensor, "R r"], hidden: Float[Tensor, "R d"]
) -> tuple[Float[Tensor, "R r"], Float[Tensor, "R r"]]:
    joint = F.linear(torch.cat((memory, embedded, hidden), dim=1), weights.joint, weights.bias)
    gate, candidate, output = joint.chunk(3, dim=1)
    return torch.tanh(output), torch.lerp(torch.tanh(candidate), memory, torch.sigmoid(gate))

"""The Markov head: a low-rank table of transitions, B(x_{k-1}, .) = W1[x_{k-1}] W2 [DSpark eq. 5].

W1 in R^{V x r} is `embedding`, W2 in R^{r x V} is `to_logits`. It reads one token back and nothing else, so a step is
one row of a table and one small product. At k = 1 the previous token is the anchor.

>>> MarkovHead(vocab_size=8, rank=2, hidden_size=4).rank
2
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from sparkit.protocols import HEADS


@HEADS.register("markov", summary="low-rank transition table W1[x_prev] W2 (default)")
class MarkovHead(nn.Module):
    """See `sparkit.protocols.SerialHead`; its state is W1 and W2.

    They are looked up once a block and taken by functions: a module's call costs more than so small a product.
    """

    def __init__(self, vocab_size: int, rank: int = 64, hidden_size: int = 0) -> None:
        super().__init__()
        if rank < 1:
            raise ValueError(f"head 'markov' with rank={rank}: expected at least 1; for no head take 'none'")
        self.rank = rank
        table = torch.empty(vocab_size, rank)
        # Drawn as torch draws it; on the meta device torch's own way imports its compiler, 2 s of every start.
        self.embedding = nn.Embedding(vocab_size, rank, _weight=table if table.is_meta else table.normal_())
        self.to_logits = nn.Linear(rank, vocab_size, bias=False)

    def start(self, anchor: Int[Tensor, " R"]) -> tuple[Tensor, Tensor]:
        """W1 and W2."""
        return self.embedding.weight, self.to_logits.weight

    def step(
        self, state: tuple[Tensor, Tensor], previous_token: Int[Tensor, " R"], hidden: Float[Tensor, "R d"]
    ) -> tuple[Float[Tensor, "R V"], tuple[Tensor, Tensor]]:
        """W1[x_{k-1}] W2."""
        return F.linear(state[0].index_select(0, previous_token), state[1]), state

    def block(
        self, previous_tokens: Int[Tensor, "N gamma"], hidden: Float[Tensor, "N gamma d"]
    ) -> Float[Tensor, "N gamma V"]:
        """The same for known previous tokens."""
        bias: Tensor = self.to_logits(self.embedding(previous_tokens))
        return bias

    def previous_embedding(self, previous_tokens: Int[Tensor, "N gamma"]) -> Float[Tensor, "N gamma r"]:
        """W1[x_{k-1}]."""
        embedded: Tensor = self.embedding(previous_tokens)
        return embedded

"""No serial head: B = 0, every position marginalises over its predecessors (this is DFlash) [DSpark section 3].

>>> NoHead(vocab_size=8).rank
0
"""

from jaxtyping import Float, Int
from torch import Tensor, nn

from sparkit.protocols import HEADS


@HEADS.register("none", summary="no transition bias: a plain parallel drafter")
class NoHead(nn.Module):
    """See `sparkit.protocols.SerialHead`; the sizes are taken so that every head is made the same way."""

    def __init__(self, vocab_size: int, rank: int = 0, hidden_size: int = 0) -> None:
        super().__init__()
        if rank != 0:
            raise ValueError(f"head 'none' with rank={rank}: it has no table; give rank 0, or another head")
        self.rank = 0

    def start(self, anchor: Int[Tensor, " R"]) -> None:
        """No state."""

    def step(self, state: None, previous_token: Int[Tensor, " R"], hidden: Float[Tensor, "R d"]) -> tuple[None, None]:
        """No bias."""
        return None, None

    def block(self, previous_tokens: Int[Tensor, "N gamma"], hidden: Float[Tensor, "N gamma d"]) -> None:
        """No bias."""

    def previous_embedding(self, previous_tokens: Int[Tensor, "N gamma"]) -> None:
        """No table."""

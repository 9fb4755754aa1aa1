"""Rotary tables of a drafter, in its weights' own precision; positions past the table hold still at its end.

A block may overhang the context's end by up to gamma positions. Its tokens there are never committed, but their laws
must exist. The keys of a context feature need no queries, so they are projected here on their own.

>>> Rotary(TransformerConfig(8, 4, 8, 1, 1))(torch.tensor([0]), torch.zeros(1))[0].shape
torch.Size([1, 1, 4])
"""

from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from sparkit.targets.transformer import Attention, Rope, TransformerConfig, rope_tables, rotate


class Rotary:
    """A decoder's rotary tables, held still past their end."""

    def __init__(self, config: TransformerConfig) -> None:
        self._tables, self._last = rope_tables(config), config.max_positions - 1

    def __call__(self, positions: Int[Tensor, " B"], like: Tensor) -> Rope:
        """The rows of a flat row of positions, in the precision and on the device of `like`."""
        return self._tables(positions.clamp(max=self._last), like)


def keys_and_values(
    attention: Attention, x: Float[Tensor, "B size"], rope: Rope
) -> tuple[Float[Tensor, "B kv e"], Float[Tensor, "B kv e"]]:
    """The keys (normed and rotated) and values of a flat row, without its queries."""
    first = attention.heads * attention.head_size
    bias: Tensor | None = attention.qkv.bias
    both = F.linear(x, attention.qkv.weight[first:], None if bias is None else bias[first:])
    k, v = rearrange(both, "B (two kv e) -> two B kv e", two=2, e=attention.head_size)
    return rotate(k if attention.k_norm is None else attention.k_norm(k), rope), v

"""The Llama / Qwen3 decoder: RMSNorm, RoPE, grouped queries, optional QK-norm, SwiGLU; dense layers on a flat row.

Only attention knows about requests, so a layer takes a function `mix(layer, q, k, v)` and the same weights serve
ragged decoding (`sparkit.targets.ragged`), causal training and the drafters' blocks. A feature tap k is the output of
decoder layer k, before the final norm; -1 is the embedding (DeepSpec's indexing).

Not done here: loading weights (`sparkit.targets.loaders`), sampling, caches.

>>> config = TransformerConfig(vocab_size=32, hidden_size=8, intermediate_size=16, num_layers=2, num_heads=2)
>>> model = Transformer(config)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from sparkit.targets.rope import RopeScaling, RopeTables

Mix = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""(layer, q [B, heads, e], k [B, kv_heads, e], v [B, kv_heads, e]) -> [B, heads, e]."""

Rope = tuple[Float[Tensor, "B 1 e"], Float[Tensor, "B 1 e"]]


@dataclass(frozen=True, slots=True)
class TransformerConfig:
    """Sizes and variants of one decoder; the defaults are the Llama family's."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int | None = None  # None: as many as num_heads
    head_dim: int | None = None  # None: hidden_size / num_heads
    rope_theta: float = 10_000.0
    rope_scaling: RopeScaling | None = None
    norm_eps: float = 1e-5
    qk_norm: bool = False  # Qwen3
    tie_embeddings: bool = True
    attention_bias: bool = False
    mlp_bias: bool = False
    sliding_window: int | None = None
    sliding_layers: tuple[int, ...] = field(default=())  # layers the window applies to
    max_positions: int = 512
    eos_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("vocab_size", "hidden_size", "intermediate_size", "num_layers", "num_heads", "max_positions"):
            if getattr(self, name) < 1:
                raise ValueError(f"TransformerConfig({name}={getattr(self, name)}): expected at least 1")
        if self.num_heads % self.kv_heads:
            raise ValueError(
                f"TransformerConfig(num_heads={self.num_heads}, num_kv_heads={self.num_kv_heads}): "
                "the query heads must be a multiple of the key/value heads"
            )

    @property
    def kv_heads(self) -> int:
        """Key/value heads."""
        return self.num_heads if self.num_kv_heads is None else self.num_kv_heads

    @property
    def head_size(self) -> int:
        """Width of one head."""
        return self.hidden_size // self.num_heads if self.head_dim is None else self.head_dim


def rope_tables(config: TransformerConfig) -> RopeTables:
    """The rotary tables of a decoder."""
    return RopeTables(config.head_size, config.max_positions, config.rope_theta, config.rope_scaling)


class RMSNorm(nn.Module):
    """x / rms(x) * weight, in x's own precision or float32, whichever is wider (never demoted)."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps
        self._floor: Tensor | None = None

    def forward(self, x: Float[Tensor, "*B d"]) -> Float[Tensor, "*B d"]:
        """Normalises the last axis."""
        return rms(x, self.weight, self.floor_like(x))

    def floor_like(self, x: Tensor) -> Float[Tensor, ""]:
        """The eps as a tensor of x's computing precision; kept, since making one costs as much as using it."""
        dtype, kept = _wide(x.dtype), self._floor
        if kept is None or kept.dtype != dtype or kept.device != x.device:
            kept = self._floor = torch.tensor(self.eps, dtype=dtype, device=x.device)
        return kept


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype


def rms(x: Float[Tensor, "*B d"], weight: Float[Tensor, "*h d"], floor: Float[Tensor, ""]) -> Float[Tensor, "*B d"]:
    """RMS norm, x * (|x|^2 / d + eps)^-1/2 * weight, of five small CPU kernels where `F.rms_norm` runs ten.

    A cast that changes nothing still costs a call, and a step has some fifty norms: both casts are asked for first.
    """
    wide = x if x.dtype is floor.dtype else x.to(floor.dtype)
    length = torch.linalg.vector_norm(wide, 2, -1, True)
    normed = wide * torch.addcmul(floor, length, length, value=1 / x.shape[-1]).rsqrt_()
    return (normed if wide is x else normed.to(x.dtype)) * weight


def rotate(x: Float[Tensor, "B heads e"], rope: Rope) -> Float[Tensor, "B heads e"]:
    """Rotary embedding in the half-split layout of `transformers`; `sin` comes with its first half negated."""
    cos, sin = rope
    return torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, -1), sin)


class Attention(nn.Module):
    """Projections, QK-norm and RoPE around a `mix` that does the attending."""

    def __init__(self, config: TransformerConfig, *, input_size: int | None = None) -> None:
        super().__init__()
        size = config.hidden_size if input_size is None else input_size
        self.heads, self.kv_heads, self.head_size = config.num_heads, config.kv_heads, config.head_size
        width = (self.heads + 2 * self.kv_heads) * self.head_size
        self.qkv = nn.Linear(size, width, bias=config.attention_bias)
        self.out = nn.Linear(self.heads * self.head_size, config.hidden_size, bias=config.attention_bias)
        self.q_norm = RMSNorm(self.head_size, config.norm_eps) if config.qk_norm else None
        self.k_norm = RMSNorm(self.head_size, config.norm_eps) if config.qk_norm else None

    def project(self, x: Float[Tensor, "B size"], rope: Rope) -> tuple[Tensor, Tensor, Tensor]:
        """Queries and keys (normed and rotated) and values of a flat row."""
        heads, kv = self.heads, self.kv_heads
        qkv = rearrange(self.qkv(x), "B (heads e) -> B heads e", e=self.head_size)
        q, k, v = qkv[:, :heads], qkv[:, heads : heads + kv], qkv[:, heads + kv :]
        if self.q_norm is None or self.k_norm is None:
            turned = rotate(qkv[:, : heads + kv], rope)
            return turned[:, :heads], turned[:, heads:], v
        return rotate(self.q_norm(q), rope), rotate(self.k_norm(k), rope), v

    def forward(self, x: Float[Tensor, "B size"], rope: Rope, layer: int, mix: Mix) -> Float[Tensor, "B d"]:
        """Attention output of a flat row."""
        q, k, v = self.project(x, rope)
        mixed: Tensor = self.out(mix(layer, q, k, v).flatten(1))
        return mixed


class SwiGLU(nn.Module):
    """down(silu(gate x) * up x), gate and up in one matrix."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.gate_up = nn.Linear(config.hidden_size, 2 * config.intermediate_size, bias=config.mlp_bias)
        self.down = nn.Linear(config.intermediate_size, config.hidden_size, bias=config.mlp_bias)

    def forward(self, x: Float[Tensor, "B d"]) -> Float[Tensor, "B d"]:
        """One feed-forward layer."""
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        out: Tensor = self.down(F.silu(gate) * up)
        return out


class DecoderLayer(nn.Module):
    """Pre-norm attention and feed-forward around one residual stream."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(config.hidden_size, config.norm_eps)
        self.attention = Attention(config)
        self.mlp_norm = RMSNorm(config.hidden_size, config.norm_eps)
        self.mlp = SwiGLU(config)

    def forward(self, x: Float[Tensor, "B d"], rope: Rope, layer: int, mix: Mix) -> Float[Tensor, "B d"]:
        """One layer on a flat row."""
        x = x + self.attention(self.attention_norm(x), rope, layer, mix)
        change: Tensor = self.mlp(self.mlp_norm(x))
        return x + change


class Transformer(nn.Module):
    """Embedding, decoder layers, final norm and LM head."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        table = torch.empty(config.vocab_size, config.hidden_size)
        # Drawn as torch draws it; on the meta device torch's own way imports its compiler, 2 s of every start.
        self.embedding = nn.Embedding(
            config.vocab_size, config.hidden_size, _weight=table if table.is_meta else table.normal_()
        )
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.num_layers))
        self.norm = RMSNorm(config.hidden_size, config.norm_eps)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        if config.tie_embeddings:
            self.lm_head.weight = self.embedding.weight
        self._rope = rope_tables(config)

    def rope(self, positions: Int[Tensor, " B"]) -> Rope:
        """Cosines and sines of a flat row of positions, in the weights' own precision."""
        return self._rope(positions, self.norm.weight)

    def hidden(
        self, tokens: Int[Tensor, " B"], positions: Int[Tensor, " B"], mix: Mix, taps: Sequence[int] = ()
    ) -> tuple[Float[Tensor, "B d"], list[Float[Tensor, "B d"]]]:
        """The last layer's output before the final norm, and the outputs of the tapped layers in `taps` order."""
        x, rope = self.embedding(tokens), self.rope(positions)
        tapped = {-1: x}
        for index, layer in enumerate(self.layers):
            x = layer(x, rope, index, mix)
            if index in taps:
                tapped[index] = x
        return x, [tapped[tap] for tap in taps]

    def logits(self, hidden: Float[Tensor, "N d"]) -> Float[Tensor, "N V"]:
        """Final norm and LM head, at the rows that were asked for only."""
        logits: Tensor = self.lm_head(self.norm(hidden))
        return logits

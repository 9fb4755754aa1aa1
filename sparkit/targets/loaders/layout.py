"""The tensor names of the `transformers` library to ours and back.

Ours fuses what is multiplied by the same input: q, k, v in one matrix, gate and up in one.

>>> config = TransformerConfig(vocab_size=32, hidden_size=8, intermediate_size=16, num_layers=1, num_heads=2)
>>> [piece.shape for piece in tensors_of(config)["layers.0.mlp.gate_up.weight"]]
[(16, 8), (16, 8)]
"""

from typing import NamedTuple

from sparkit.targets.transformer import TransformerConfig


class Piece(NamedTuple):
    """One tensor as `transformers` names it."""

    name: str
    shape: tuple[int, ...]


def tensors_of(config: TransformerConfig) -> dict[str, tuple[Piece, ...]]:
    """Our parameter names, each with the pieces that lie one after the other in its rows."""
    d, e = config.hidden_size, config.head_size
    names: dict[str, tuple[Piece, ...]] = {
        "embedding.weight": (Piece("model.embed_tokens.weight", (config.vocab_size, d)),)
    }
    for i in range(config.num_layers):
        theirs, ours = f"model.layers.{i}.", f"layers.{i}."
        names[ours + "attention_norm.weight"] = (Piece(theirs + "input_layernorm.weight", (d,)),)
        names[ours + "mlp_norm.weight"] = (Piece(theirs + "post_attention_layernorm.weight", (d,)),)
        for name, pieces, has_bias in _matrices(config):
            found = [(theirs + piece, shape) for piece, shape in pieces]
            names[f"{ours}{name}.weight"] = tuple(Piece(f"{piece}.weight", shape) for piece, shape in found)
            if has_bias:
                names[f"{ours}{name}.bias"] = tuple(Piece(f"{piece}.bias", shape[:1]) for piece, shape in found)
        for part in ("q_norm", "k_norm") if config.qk_norm else ():
            names[f"{ours}attention.{part}.weight"] = (Piece(f"{theirs}self_attn.{part}.weight", (e,)),)
    names["norm.weight"] = (Piece("model.norm.weight", (d,)),)
    if not config.tie_embeddings:
        names["lm_head.weight"] = (Piece("lm_head.weight", (config.vocab_size, d)),)
    return names


def _matrices(config: TransformerConfig) -> list[tuple[str, list[tuple[str, tuple[int, int]]], bool]]:
    d, m, q, kv = config.hidden_size, config.intermediate_size, config.num_heads, config.kv_heads
    e = config.head_size
    heads = [(f"self_attn.{x}_proj", (n * e, d)) for x, n in (("q", q), ("k", kv), ("v", kv))]
    return [
        ("attention.qkv", heads, config.attention_bias),
        ("attention.out", [("self_attn.o_proj", (d, q * e))], config.attention_bias),
        ("mlp.gate_up", [("mlp.gate_proj", (m, d)), ("mlp.up_proj", (m, d))], config.mlp_bias),
        ("mlp.down", [("mlp.down_proj", (d, m))], config.mlp_bias),
    ]

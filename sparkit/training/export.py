"""A finished target as a Hugging-Face-style Llama folder: config.json and model.safetensors in half precision.

Our fused rows are cut apart (q, k, v; gate, up), so that the `transformers` library loads the same folder. Both files
are written under temporary names and renamed.

>>> sorted(llama_config(TransformerConfig(8, 4, 8, 1, 1)))[:1]
['architectures']
"""

import json
from pathlib import Path
from typing import cast

from torch import Tensor

from sparkit.targets.transformer import DecoderLayer, Transformer, TransformerConfig
from sparkit.training.checkpoint import write_tensors


def llama_config(config: TransformerConfig, pad_id: int = 0) -> dict[str, object]:
    """config.json of `LlamaForCausalLM`.

    Raises:
        ValueError: for variants that the Llama class does not have.
    """
    if config.qk_norm or config.sliding_window is not None or config.rope_scaling is not None:
        raise ValueError("llama_config(): QK-norm, sliding windows and scaled RoPE have no place in a Llama folder")
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_size,
        "max_position_embeddings": config.max_positions,
        "rope_theta": config.rope_theta,
        "rms_norm_eps": config.norm_eps,
        "tie_word_embeddings": config.tie_embeddings,
        "attention_bias": config.attention_bias,
        "mlp_bias": config.mlp_bias,
        "hidden_act": "silu",
        "bos_token_id": None,
        "eos_token_id": list(config.eos_ids) if len(config.eos_ids) > 1 else (config.eos_ids or (None,))[0],
        "pad_token_id": pad_id,
        "torch_dtype": "float16",
    }


def llama_tensors(model: Transformer) -> dict[str, Tensor]:
    """Weights under the names of `LlamaForCausalLM`."""
    config = model.config
    tensors = {"model.embed_tokens.weight": model.embedding.weight, "model.norm.weight": model.norm.weight}
    if not config.tie_embeddings:
        tensors["lm_head.weight"] = model.lm_head.weight
    for i, layer in enumerate(model.layers):
        prefix = f"model.layers.{i}."
        tensors |= {
            prefix + name: weight for name, weight in layer_tensors(cast("DecoderLayer", layer), config).items()
        }
    return {name: weight.detach() for name, weight in tensors.items()}


def layer_tensors(layer: DecoderLayer, config: TransformerConfig) -> dict[str, Tensor]:
    """One decoder layer, fused rows cut apart."""
    kv = config.kv_heads * config.head_size
    q, k, v = layer.attention.qkv.weight.split([config.num_heads * config.head_size, kv, kv])
    gate, up = layer.mlp.gate_up.weight.chunk(2)
    return {
        "input_layernorm.weight": layer.attention_norm.weight,
        "self_attn.q_proj.weight": q,
        "self_attn.k_proj.weight": k,
        "self_attn.v_proj.weight": v,
        "self_attn.o_proj.weight": layer.attention.out.weight,
        "post_attention_layernorm.weight": layer.mlp_norm.weight,
        "mlp.gate_proj.weight": gate,
        "mlp.up_proj.weight": up,
        "mlp.down_proj.weight": layer.mlp.down.weight,
    }


def write_folder(folder: Path, config: dict[str, object], tensors: dict[str, Tensor]) -> None:
    """Saves half-precision weights, then the config that names them."""
    folder.mkdir(parents=True, exist_ok=True)
    write_tensors(folder / "model.safetensors", {n: t.detach().half() for n, t in tensors.items()}, {"format": "pt"})
    scratch = folder / ".config.json.part"
    scratch.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    scratch.replace(folder / "config.json")


def export_target(model: Transformer, folder: Path) -> None:
    """Writes the target's folder."""
    write_folder(folder, llama_config(model.config), llama_tensors(model))

"""A GGUF file becomes a model folder once: dequantised to float32, names and row order as `transformers` has them.

llama.cpp stores the rows of q and k for interleaved rotary embeddings; `_half_split` puts them back. The folder is
kept under the cache directory ($SPARKIT_CACHE, else $XDG_CACHE_HOME/sparkit, else ~/.cache/sparkit), named by the
file's path, size and time, and appears whole or not at all. Architectures other than llama are refused by name.

    folder = converted(Path("SmolLM2-135M-Instruct.Q4_1.gguf"))
"""

import hashlib
import mmap
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from einops import rearrange
from torch import Tensor

from sparkit.files import shown, write_json
from sparkit.targets.loaders.config_json import config_of
from sparkit.targets.loaders.folder import new_folder, write_folder
from sparkit.targets.loaders.gguf_file import PACKINGS, GGUFFile, PackedTensor, read_gguf
from sparkit.targets.loaders.gguf_vocabulary import tokenizer_files
from sparkit.targets.loaders.layout import tensors_of

FORMAT = "1"  # of the converted folder; a new number converts again
_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def cache_folder() -> Path:
    """Where converted models are kept."""
    if "SPARKIT_CACHE" in os.environ:
        return Path(os.environ["SPARKIT_CACHE"])
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "sparkit"


def converted(path: Path) -> Path:
    """The model folder of a GGUF file, made on first use."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; expected a GGUF file")
    status = path.stat()
    key = f"{FORMAT} {path.resolve()} {status.st_size} {status.st_mtime_ns}"
    folder = cache_folder() / "converted" / f"{path.stem}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
    if not folder.is_dir():
        convert(path, folder)
    return folder


def convert(path: Path, folder: Path) -> None:
    """Writes the model folder of a GGUF file.

    Raises:
        ValueError: for another architecture, rope scaling, or tensors that do not fit the metadata.
    """
    file = read_gguf(path)
    document = config_document(file)
    names = _names(file, document)
    files = tokenizer_files(file.metadata, str(path))
    with path.open("rb") as raw, mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ) as data:
        weights = {theirs: _weight(file.tensors[ours], ours, data, document) for ours, theirs in names.items()}
    with new_folder(folder) as scratch:
        for name, content in files.items():
            write_json(scratch / name, content)
        write_folder(scratch, document, weights)


def config_document(file: GGUFFile) -> dict[str, Any]:
    """The config.json that the metadata amounts to."""
    meta, where = file.metadata, str(file.path)
    if (family := meta.get("general.architecture")) != "llama":
        raise ValueError(
            f"{where}: architecture {shown(family)}; only llama is read from GGUF: use the safetensors folder"
        )
    if meta.get("llama.rope.scaling.type", "none") != "none" or "rope_freqs.weight" in file.tensors:
        raise ValueError(f"{where}: rope scaling in GGUF is not supported; use the safetensors folder")
    document = {theirs: meta.get(f"llama.{ours}") for ours, theirs in _FIELDS.items()}
    tokens, base = meta.get("tokenizer.ggml.tokens"), meta.get("llama.rope.freq_base", 10_000.0)
    document["vocab_size"] = meta.get("llama.vocab_size", len(tokens) if isinstance(tokens, list) else None)
    if type(base) not in (int, float):
        raise ValueError(f"{where}: llama.rope.freq_base is {shown(base)}; expected a number")
    size = meta.get("llama.rope.dimension_count")
    document |= {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "rope_theta": float(base),
        "tie_word_embeddings": "output.weight" not in file.tensors,
        "eos_token_id": meta.get("tokenizer.ggml.eos_token_id"),
        "bos_token_id": meta.get("tokenizer.ggml.bos_token_id"),
        "dtype": "float32",
    }
    head = config_of(document, where).head_size  # checks every field on the way
    if size not in (None, head):
        raise ValueError(
            f"{where}: llama.rope.dimension_count is {shown(size)}, the head size {head}; partial rotary is refused"
        )
    return document


_FIELDS = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
}


def _names(file: GGUFFile, document: Mapping[str, Any]) -> dict[str, str]:
    """GGUF names to ours, every shape checked before a number is unpacked."""
    wanted = {p.name: p.shape for group in tensors_of(config_of(document, str(file.path))).values() for p in group}
    names = {name: _theirs(name) for name in file.tensors}
    found = {theirs: file.tensors[name].shape for name, theirs in names.items()}
    for name, shape in wanted.items():
        if found.get(name) != shape:
            has = f"has shape {list(found[name])}" if name in found else "is missing"
            raise ValueError(f"{file.path}: the tensor of {name} {has}; the metadata says {list(shape)}")
    if strange := [name for name, theirs in names.items() if theirs not in wanted]:
        raise ValueError(f"{file.path}: tensor {shown(strange[0])} is not of the llama architecture")
    return names


def _theirs(name: str) -> str:
    stem, _, ending = name.rpartition(".")
    if stem.startswith("blk."):
        _, number, part = stem.split(".", 2) if stem.count(".") >= 2 else ("", "", "")
        return f"model.layers.{number}.{_LAYER.get(part, part)}.{ending}"
    return f"{_TOP.get(stem, stem)}.{ending}"


def _weight(packed: PackedTensor, name: str, data: mmap.mmap, document: Mapping[str, Any]) -> Tensor:
    weight = unpack(data[packed.begin : packed.end], packed)
    if name.endswith("attn_q.weight"):
        return _half_split(weight, document["num_attention_heads"])
    if name.endswith("attn_k.weight"):
        return _half_split(weight, document["num_key_value_heads"] or document["num_attention_heads"])
    return weight


def _half_split(weight: Tensor, heads: int) -> Tensor:
    """Rows of each head from (x0 y0 x1 y1 ...) to (x0 x1 ... y0 y1 ...)."""
    return rearrange(weight, "(heads pair two) d -> (heads two pair) d", heads=heads, two=2).contiguous()


def unpack(data: bytes, packed: PackedTensor) -> Tensor:
    """Float32 numbers of a packed tensor; quantised types by the `gguf` package.

    Raises:
        ValueError: if the tensor is quantised and `gguf` is not installed.
    """
    name = PACKINGS[packed.kind].name
    plain = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
    if name in plain:
        return torch.frombuffer(bytearray(data), dtype=plain[name]).float().reshape(packed.shape)
    try:
        import gguf
    except ModuleNotFoundError as error:
        raise ValueError(f"{name} weights need the gguf package: pip install 'sparkit[gguf]'") from error
    import numpy as np

    block = PACKINGS[packed.kind]
    rows = np.frombuffer(data, dtype=np.uint8).reshape(-1, packed.shape[-1] // block.block * block.size)
    numbers = gguf.dequantize(rows, gguf.GGMLQuantizationType(packed.kind))
    return torch.from_numpy(np.ascontiguousarray(numbers, dtype=np.float32)).reshape(packed.shape)

"""Drafter folders in DeepSpec's layout: the one map between our parameter names and theirs, saving and loading.

Ours fuses what is multiplied by the same input (q, k, v; gate, up); theirs does not. A folder holds config.json and
model.safetensors with `fc`, `hidden_norm`, `norm`, `layers.*`, `markov_head.*`, `confidence_head.proj.*`; the frozen
`embed_tokens` and `lm_head` are the target's and are not written (they are accepted and ignored on reading, after a
check of their shape). A reduced vocabulary adds its own `lm_head`, `d2t` and `t2d`.

>>> their_names("backbone.layers.0.attention.qkv.weight")[0]
'layers.0.self_attn.q_proj.weight'
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from sparkit.drafters.config import DrafterConfig
from sparkit.drafters.document import read_drafter_config
from sparkit.drafters.vocabulary import is_kept, target_ids
from sparkit.protocols import DRAFTERS, Target
from sparkit.targets.loaders.folder import require_fitting, weight_files, write_folder
from sparkit.targets.loaders.layout import Piece
from sparkit.targets.loaders.safetensors_file import Entry, Shards

Net = TypeVar("Net", bound=nn.Module)

_FUSED = {
    "attention.qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "mlp.gate_up": ("mlp.gate_proj", "mlp.up_proj"),
}
_RENAMED = (  # ours -> theirs, first match wins
    (r"^backbone\.", ""),
    (r"^link\.(attention|mlp|mlp_norm|attention_norm)\b", r"layers.0.\1"),
    (r"^link\.(embed_norm|hidden_norm)\b", r"layers.0.\1"),
    (r"^link\.", ""),
    (r"^head\.embedding\b", "markov_head.markov_w1"),
    (r"^head\.to_logits\b", "markov_head.markov_w2"),
    (r"^head\.gate\b", "markov_head.gate_proj"),
    (r"^head\.joint\b", "markov_head.joint_proj"),
    (r"^head\.", "markov_head."),
)
_IN_LAYER = {
    "attention_norm": "input_layernorm",
    "embed_norm": "input_layernorm",
    "mlp_norm": "post_attention_layernorm",
    "attention.out": "self_attn.o_proj",
    "attention.q_norm": "self_attn.q_norm",
    "attention.k_norm": "self_attn.k_norm",
    "mlp.down": "mlp.down_proj",
    **_FUSED,
}
_CONFIDENCE, _FROZEN = "confidence_head.", ("embed_tokens.weight", "lm_head.weight")


class Drafted(NamedTuple):
    """A net as read, with the config it was read by."""

    config: DrafterConfig
    net: Any


def their_names(name: str) -> tuple[str, ...]:
    """DeepSpec's names of one of our parameters: several when ours is fused."""
    for pattern, replacement in _RENAMED:
        renamed = re.sub(pattern, replacement, name)
        if renamed != name:
            name = renamed
            break
    layer = re.match(r"^(layers\.\d+\.)(.+)(\.(?:weight|bias))$", name)
    if layer is None:
        return (name,)
    inner = _IN_LAYER.get(layer[2], layer[2])
    parts = inner if isinstance(inner, tuple) else (inner,)
    return tuple(f"{layer[1]}{part}{layer[3]}" for part in parts)


def pieces_of(net: nn.Module, config: DrafterConfig) -> dict[str, tuple[Piece, ...]]:
    """Our parameters, each with the pieces that lie one after the other in its rows."""
    decoder = config.decoder
    rows = {
        3: [decoder.num_heads * decoder.head_size, *[decoder.kv_heads * decoder.head_size] * 2],
        2: [decoder.intermediate_size] * 2,
    }
    out: dict[str, tuple[Piece, ...]] = {}
    for name, tensor in net.named_parameters():
        theirs = their_names(name)
        sizes = rows.get(len(theirs), [tensor.shape[0]])
        shown = zip(theirs, sizes, strict=True)
        out[name] = tuple(Piece(their, (size, *tensor.shape[1:])) for their, size in shown)
    return out


def split_net(net: nn.Module, config: DrafterConfig, dtype: torch.dtype) -> dict[str, Tensor]:
    """The weights under DeepSpec's names."""
    state, out = dict(net.named_parameters()), dict[str, Tensor]()
    for name, pieces in pieces_of(net, config).items():
        rows = [piece.shape[0] for piece in pieces]
        parts = state[name].detach().to(device="cpu", dtype=dtype).split_with_sizes(rows)
        out |= {piece.name: part.contiguous().clone() for piece, part in zip(pieces, parts, strict=True)}
    if config.draft_vocab_size is not None:
        d2t = net.get_buffer("d2t").cpu()
        ids = target_ids(d2t, config.decoder.vocab_size, config.draft_vocab_size)
        out |= {"d2t": d2t.clone(), "t2d": is_kept(ids, config.decoder.vocab_size)}
    return out


def save_drafter(
    folder: Path, drafter: Any, confidence: nn.Module | None = None, *, dtype: torch.dtype = torch.float16
) -> DrafterConfig:
    """Writes a neural drafter and its trained confidence head; each file appears whole or not at all.

    Args:
        folder: made if it does not exist.
        drafter: a block or chain drafter.
        confidence: a `ConfidenceHead`, or None.
        dtype: precision on disk.

    Returns:
        The config as written.
    """
    weights = split_net(drafter.net, drafter.config, dtype)
    config: DrafterConfig = drafter.config
    if confidence is not None:
        with_markov = confidence.get_parameter("proj.weight").shape[1] > config.decoder.hidden_size
        config = replace(config, confidence_with_markov=None if with_markov == (config.rank > 0) else with_markov)
        weights |= {_CONFIDENCE + n: p.detach().cpu().to(dtype).clone() for n, p in confidence.named_parameters()}
    config = replace(config, has_confidence=confidence is not None)
    write_folder(Path(folder), config.document(str(dtype).removeprefix("torch.")), weights)
    return config


def load_drafter(folder: Path, target: Target, gamma: int | None = None) -> Any:
    """The drafter of a folder, in the target's precision and on its device.

    Raises:
        FileNotFoundError: if folder, config or weights are missing.
        ValueError: for weights that do not fit their config, or a drafter of another target.
    """
    config = read_drafter_config(Path(folder))
    return DRAFTERS.create(config.algorithm, target=target, path=Path(folder), gamma=gamma)


def load_net(folder: Path, target: Target, build: Callable[[DrafterConfig], Net]) -> tuple[DrafterConfig, Net]:
    """Config and weights of a folder; file and config are held against each other before anything is allocated."""
    config = read_drafter_config(Path(folder))
    shards = Shards(weight_files(Path(folder)))
    try:
        with torch.device("meta"):
            net = build(config)
    except LookupError as error:  # a head that is not registered
        raise ValueError(f"{folder}: {error}") from error
    wanted = pieces_of(net, config)
    _require_fitting(wanted, shards.entries, config, str(folder))
    state = {name: _joined(shards, pieces, target) for name, pieces in wanted.items()}
    if config.draft_vocab_size is not None:
        state["d2t"] = shards.read("d2t").to(target.device)
    net.load_state_dict(state, assign=True)
    return config, net.eval().requires_grad_(False)


def _require_fitting(
    wanted: Mapping[str, tuple[Piece, ...]], found: Mapping[str, Entry], config: DrafterConfig, where: str
) -> None:
    frozen = (config.decoder.vocab_size, config.decoder.hidden_size)
    own = {piece.name for pieces in wanted.values() for piece in pieces}
    for name in _FROZEN:
        if name in found and name not in own and found[name].shape != frozen:
            raise ValueError(f"{where}: tensor {name!r} has shape {list(found[name].shape)}, expected {list(frozen)}")
    if config.draft_vocab_size is not None and "d2t" not in found:
        raise ValueError(
            f"{where}: draft_vocab_size {config.draft_vocab_size} without a tensor 'd2t' that says what the ids are"
        )
    ours = {n: e for n, e in found.items() if n in own or n not in (*_FROZEN, "d2t", "t2d")}
    ours = {n: e for n, e in ours.items() if not n.startswith(_CONFIDENCE)}
    require_fitting(wanted, ours, where, is_tied=False)


def _joined(shards: Shards, pieces: tuple[Piece, ...], target: Target) -> Tensor:
    parts = [shards.read(piece.name).to(device=target.device, dtype=target.dtype) for piece in pieces]
    return parts[0].contiguous() if len(parts) == 1 else torch.cat(parts)


def initialise(net: nn.Module, seed: int, std: float = 0.02) -> None:
    """Small normal matrices from an explicit generator; norms stay 1, biases 0; a Markov table has unit rows."""
    generator = torch.Generator().manual_seed(seed)
    for name, p in net.named_parameters():
        if p.ndim < 2:
            nn.init.constant_(p, 0.0 if name.endswith("bias") else 1.0)
            continue
        scale = p.shape[1] ** -0.5 if name == "head.embedding.weight" else std
        with torch.no_grad():
            p.copy_(torch.randn(p.shape, generator=generator, dtype=torch.float64) * scale)


def fresh_net(config: DrafterConfig, target: Target, build: Callable[[DrafterConfig], Net], seed: int) -> Net:
    """Untrained weights in the target's precision."""
    net = build(config)
    initialise(net, seed)
    return net.to(device=target.device, dtype=target.dtype)

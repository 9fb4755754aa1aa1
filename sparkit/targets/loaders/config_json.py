"""The config.json of the `transformers` library to our config and back. Families: llama and qwen3.

Whatever a config asks for that we would not compute exactly is refused by name, never ignored.

    config_of({"model_type": "llama", "vocab_size": 32, ...}, "config.json").num_layers
"""

from collections.abc import Mapping
from typing import Any

from sparkit.files import shown
from sparkit.targets.loaders.fields import Fields
from sparkit.targets.rope import RopeScaling
from sparkit.targets.transformer import TransformerConfig

FAMILIES = ("llama", "qwen3")
MAX_LAYERS = 1024
MAX_POSITIONS = 1 << 20
_SCALINGS = {
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
    "yarn": ("factor", "original_max_position_embeddings"),
}
_YARN_OPTIONS = ("beta_fast", "beta_slow", "attention_factor")

Document = Mapping[str, Any]


def config_of(document: Document, where: str) -> TransformerConfig:
    """Our config of a config.json.

    Args:
        document: the parsed file.
        where: its name, for messages.

    Raises:
        ValueError: naming the field that is missing, out of range, contradictory or not supported.
    """
    try:
        return _config(document, where)
    except ValueError as error:
        raise ValueError(str(error) if str(error).startswith(where) else f"{where}: {error}") from error


def _config(document: Document, where: str) -> TransformerConfig:
    family = document.get("model_type")
    if family not in FAMILIES:
        raise ValueError(
            f"{where}: model_type {shown(family)} is not one of {', '.join(FAMILIES)}; "
            "use --target hf:PATH for other models"
        )
    if document.get("hidden_act", "silu") != "silu":
        raise ValueError(
            f"{where}: hidden_act {shown(document['hidden_act'])}: only silu is supported; use --target hf:PATH"
        )
    read = Fields(document, where)
    heads = read.count("num_attention_heads")
    hidden, layers = read.count("hidden_size"), read.count("num_hidden_layers", most=MAX_LAYERS)
    theta, scaling = _rope(document, where)
    window, sliding = _sliding(document, where, layers) if family == "qwen3" else (None, ())
    return TransformerConfig(
        vocab_size=read.count("vocab_size"),
        hidden_size=hidden,
        intermediate_size=read.count("intermediate_size"),
        num_layers=layers,
        num_heads=heads,
        num_kv_heads=read.count("num_key_value_heads", heads),
        head_dim=read.count("head_dim", 128 if family == "qwen3" else hidden // heads),
        rope_theta=theta,
        rope_scaling=scaling,
        norm_eps=read.number("rms_norm_eps", 1e-6),
        qk_norm=family == "qwen3",
        tie_embeddings=read.flag("tie_word_embeddings"),
        attention_bias=read.flag("attention_bias"),
        mlp_bias=family == "llama" and read.flag("mlp_bias"),
        sliding_window=window,
        sliding_layers=sliding,
        max_positions=min(read.count("max_position_embeddings", 2048, most=1 << 40), MAX_POSITIONS),
        eos_ids=token_ids(document.get("eos_token_id"), f"{where}: eos_token_id"),
    )


def token_ids(value: object, where: str) -> tuple[int, ...]:
    """A token id, a list of them, or null."""
    ids = value if isinstance(value, list) else [] if value is None else [value]
    if any(type(i) is not int or i < 0 for i in ids):
        raise ValueError(f"{where} is {shown(value)}; expected a token id, a list of them, or null")
    return tuple(ids)


def _rope(document: Document, where: str) -> tuple[float, RopeScaling | None]:
    """Reads `rope_parameters` (new style), or `rope_theta` and `rope_scaling` (old style); both must agree."""
    new, old = document.get("rope_parameters"), document.get("rope_scaling")
    for name, value in (("rope_parameters", new), ("rope_scaling", old)):
        if value is not None and not isinstance(value, Mapping):
            raise ValueError(f"{where}: {name} is {shown(value)}; expected an object or null")
    if new and old and dict(new) != {**new, **old}:
        raise ValueError(f"{where}: rope_parameters and rope_scaling disagree: {shown(new)} and {shown(old)}; keep one")
    rope = {**(old or {}), **(new or {})}
    thetas = {float(d["rope_theta"]) for d in (document, rope) if type(d.get("rope_theta")) in (int, float)}
    if len(thetas) > 1:
        raise ValueError(f"{where}: rope_theta is given as {sorted(thetas)}; keep one")
    rope |= {"rope_theta": thetas.pop() if thetas else 10_000.0}
    if (partial := rope.get("partial_rotary_factor", document.get("partial_rotary_factor", 1.0))) != 1.0:
        raise ValueError(f"{where}: partial_rotary_factor {shown(partial)} is not supported; use --target hf:PATH")
    return Fields(rope, where).number("rope_theta"), _scaling(rope, document, where)


def _scaling(rope: dict[str, Any], document: Document, where: str) -> RopeScaling | None:
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind == "default":
        return None
    if not isinstance(kind, str) or kind not in _SCALINGS or rope.get("mscale") or rope.get("truncate") is False:
        raise ValueError(
            f"{where}: rope scaling {shown(kind)} with {shown(sorted(rope))} is not one of default, "
            f"{', '.join(_SCALINGS)}; use --target hf:PATH"
        )
    if kind != "linear" and rope.get("original_max_position_embeddings") is None:
        rope = {**rope, "original_max_position_embeddings": document.get("max_position_embeddings")}
    read = Fields(rope, f"{where}, rope {kind}")
    values = {name: read.number(name) for name in _SCALINGS[kind]}
    values |= {name: read.number(name) for name in _YARN_OPTIONS if kind == "yarn" and rope.get(name) is not None}
    original = values.pop("original_max_position_embeddings", 8192)
    return RopeScaling(kind=kind, original_max_positions=int(original), **values)  # type: ignore[arg-type]


def _sliding(document: Document, where: str, layers: int) -> tuple[int | None, tuple[int, ...]]:
    """Qwen3: a window, on the layers that `layer_types` names or from `max_window_layers` on."""
    read = Fields(document, where)
    if not read.flag("use_sliding_window") or document.get("sliding_window") is None:
        return None, ()
    kinds = document.get("layer_types")
    if kinds is None:
        first = document.get("max_window_layers", 28)
        kinds = ["full_attention" if i < first else "sliding_attention" for i in range(layers)]
    if not isinstance(kinds, list) or len(kinds) != layers or set(kinds) - {"full_attention", "sliding_attention"}:
        raise ValueError(f"{where}: layer_types is {shown(kinds)}; expected {layers} of full_ or sliding_attention")
    return read.count("sliding_window"), tuple(i for i, kind in enumerate(kinds) if kind == "sliding_attention")


def document_of(config: TransformerConfig, dtype: str) -> dict[str, Any]:
    """The config.json of a config.

    Raises:
        ValueError: if neither family can say it.
    """
    if (config.qk_norm and config.mlp_bias) or (config.sliding_window and not config.qk_norm):
        raise ValueError("this config is of neither family: qwen3 has no mlp_bias, llama no sliding window")
    family, scaling = (
        ("qwen3", "Qwen3ForCausalLM") if config.qk_norm else ("llama", "LlamaForCausalLM"),
        config.rope_scaling,
    )
    rope: dict[str, Any] = {
        "rope_type": "default" if scaling is None else scaling.kind,
        "rope_theta": config.rope_theta,
    }
    if scaling is not None:
        known = {**_fields(scaling), "original_max_position_embeddings": scaling.original_max_positions}
        options = _YARN_OPTIONS if scaling.kind == "yarn" else ()
        rope |= {name: known[name] for name in (*_SCALINGS[scaling.kind], *options) if known[name] is not None}
    document = {
        "architectures": [family[1]],
        "model_type": family[0],
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_size,
        "hidden_act": "silu",
        "rms_norm_eps": config.norm_eps,
        "rope_parameters": rope,
        "max_position_embeddings": config.max_positions,
        "tie_word_embeddings": config.tie_embeddings,
        "attention_bias": config.attention_bias,
        "eos_token_id": list(config.eos_ids) if len(config.eos_ids) != 1 else config.eos_ids[0],
        "dtype": dtype,
    }
    if not config.qk_norm:
        return {**document, "mlp_bias": config.mlp_bias}
    kinds = ["sliding_attention" if i in config.sliding_layers else "full_attention" for i in range(config.num_layers)]
    is_windowed = config.sliding_window is not None
    return {
        **document,
        "use_sliding_window": is_windowed,
        "sliding_window": config.sliding_window,
        "layer_types": kinds,
    }


def _fields(scaling: RopeScaling) -> dict[str, Any]:
    return {name: getattr(scaling, name) for name in scaling.__slots__}

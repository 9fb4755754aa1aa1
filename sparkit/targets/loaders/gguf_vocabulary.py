"""A GGUF file's own tables become the tokenizer.json and tokenizer_config.json of `transformers`.

Byte-level BPE only (`tokenizer.ggml.model` = gpt2), with the pre-tokenizers `smollm` (digits one by one) and `gpt-2`;
others are refused by name, since a wrong split silently gives other token ids.

    files = tokenizer_files(read_gguf(path).metadata, str(path))
"""

from collections.abc import Mapping
from typing import Any

from sparkit.files import shown

_CONTROL, _USER_DEFINED = 3, 4  # llama.cpp's token types
_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
_SPLITS: dict[str, list[dict[str, Any]]] = {
    "smollm": [{"type": "Digits", "individual_digits": True}, _BYTES],
    "gpt-2": [_BYTES],
    "default": [_BYTES],
}

Metadata = Mapping[str, Any]


def tokenizer_files(metadata: Metadata, where: str) -> dict[str, dict[str, Any]]:
    """File names and their JSON content.

    Raises:
        ValueError: naming the table that is missing or of a kind we would not read exactly.
    """
    model, split = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre", "default")
    if model != "gpt2" or not isinstance(split, str) or split not in _SPLITS:
        raise ValueError(
            f"{where}: tokenizer {shown(model)} with pre-tokenizer {shown(split)}; "
            f"only gpt2 with {', '.join(_SPLITS)} is read"
        )
    tokens, kinds = _list(metadata, "tokens", where), metadata.get("tokenizer.ggml.token_type")
    kinds = kinds if isinstance(kinds, list) and len(kinds) == len(tokens) else [1] * len(tokens)
    vocabulary = {token: i for i, token in enumerate(tokens)}
    if len(vocabulary) != len(tokens):
        raise ValueError(f"{where}: tokenizer.ggml.tokens holds a token twice")
    added = [_added(i, t, k == _CONTROL) for i, (t, k) in enumerate(zip(tokens, kinds, strict=True)) if k in (3, 4)]
    document = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": _SPLITS[split]},
        "post_processor": None,
        "decoder": _BYTES,
        "model": _bpe(vocabulary, _list(metadata, "merges", where)),
    }
    return {"tokenizer.json": document, "tokenizer_config.json": _settings(metadata, tokens, where)}


def _list(metadata: Metadata, name: str, where: str) -> list[str]:
    value = metadata.get(f"tokenizer.ggml.{name}")
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{where}: tokenizer.ggml.{name} is missing or not a list of texts")
    return value


def _added(number: int, token: str, is_special: bool) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": token, **flags, "special": is_special}


def _bpe(vocabulary: dict[str, int], merges: list[str]) -> dict[str, Any]:
    switches = dict.fromkeys(("fuse_unk", "byte_fallback", "ignore_merges"), False)
    empty = dict.fromkeys(("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"))
    return {"type": "BPE", **empty, **switches, "vocab": vocabulary, "merges": merges}


def _settings(metadata: Metadata, tokens: list[str], where: str) -> dict[str, Any]:
    settings: dict[str, Any] = {"add_bos_token": bool(metadata.get("tokenizer.ggml.add_bos_token", False))}
    for name in ("bos", "eos"):
        number = metadata.get(f"tokenizer.ggml.{name}_token_id")
        if number is not None and not (type(number) is int and 0 <= number < len(tokens)):
            raise ValueError(
                f"{where}: tokenizer.ggml.{name}_token_id is {shown(number)}; there are {len(tokens)} tokens"
            )
        settings[f"{name}_token"] = None if number is None else tokens[number]
    template = metadata.get("tokenizer.chat_template")
    return {**settings, **({"chat_template": template} if isinstance(template, str) else {})}

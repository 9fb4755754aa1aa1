"""Kind 10, checkpoint loading: config shapes and layer indices of the target's side (cases.md B28), and its kind.

The cure of the kind: a folder is loaded only when config and weights name the same tensors of the same shapes, and
every header is held against the file's length before anything is allocated.
"""

import json
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from sparkit.protocols import Span
from sparkit.targets.loaders import load_target, save_model
from sparkit.targets.loaders.config_json import config_of
from sparkit.targets.loaders.gguf_file import PACKINGS, read_gguf
from sparkit.targets.loaders.safetensors_file import read_header
from sparkit.targets.model import TransformerTarget
from sparkit.targets.transformer import Transformer, TransformerConfig

SMALL = TransformerConfig(vocab_size=11, hidden_size=8, intermediate_size=12, num_layers=2, num_heads=2, num_kv_heads=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small model on disk."""
    generator = torch.Generator().manual_seed(1)
    model = Transformer(SMALL)
    for p in model.parameters():
        p.data.copy_(torch.randn(p.shape, generator=generator))
    save_model(tmp_path / "model", model)
    return tmp_path / "model"


def _logits(folder: Path) -> torch.Tensor:
    target, _ = load_target(str(folder))
    return target.forward(torch.arange(5), [Span(0, 0, 5)], target.new_cache(1, 8)).logits


def _edit(folder: Path, **fields: Any) -> None:
    path = folder / "config.json"
    document = {**json.loads(path.read_text()), **fields}
    path.write_text(json.dumps({key: value for key, value in document.items() if value is not ...}))


def _adding_target(taps: tuple[int, ...]) -> TransformerTarget:
    """Attention is silent; the feed-forward of layer i adds 10^i to coordinate 0 through its bias."""
    config = TransformerConfig(4, 4, 4, num_layers=4, num_heads=1, mlp_bias=True)
    model = Transformer(config)
    for p in model.parameters():
        p.data.zero_()
    model.embedding.weight.data[2, 0] = 5.0
    for i, layer in enumerate(model.layers):
        layer.mlp.down.bias.data[0] = 10.0**i  # type: ignore[union-attr]
    return TransformerTarget(model, taps=taps)


def _features(taps: tuple[int, ...]) -> list[float]:
    target = _adding_target(taps)
    out = target.forward(torch.tensor([2]), [Span(0, 0, 1)], target.new_cache(1, 4))
    return out.features[0, ::4].tolist()


def test_b28_feature_layers_are_decoder_outputs() -> None:
    """Kills: taps one layer too early or late; -1 taken as the last layer."""
    assert _features((0, 2)) == [5 + 1, 5 + 111]
    assert _features((-1,)) == [5]
    assert _features((3, -1, 1)) == [5 + 1111, 5, 5 + 11]


def test_b28_layers_that_do_not_exist_are_refused() -> None:
    """Kills: Python's negative indices, and the `+1` convention running past the end unnoticed."""
    for tap in (4, -2):
        with pytest.raises(
            ValueError, match=rf"feature layer {tap}: .*layers 0\.\.3 \(and -1.*hidden_states\[k \+ 1\]"
        ):
            _adding_target((0, tap))
    assert _adding_target(()).with_taps((1,)).feature_layers == (1,)


def test_b28_one_model_in_several_config_shapes(folder: Path) -> None:
    """Kills: reading the rotary base from one place only."""
    wanted = _logits(folder)
    _edit(folder, rope_parameters=..., rope_theta=10_000.0)
    assert torch.equal(_logits(folder), wanted)
    _edit(folder, rope_parameters=None, rope_scaling={"type": "linear", "factor": 2.0})
    old = _logits(folder)
    _edit(folder, rope_scaling=..., rope_parameters={"rope_type": "linear", "rope_theta": 10_000, "factor": 2})
    assert torch.equal(_logits(folder), old)
    assert not torch.equal(old, wanted)


def test_b28_two_places_that_disagree(folder: Path) -> None:
    """Kills: one of two contradicting fields silently winning."""
    _edit(folder, rope_theta=5.0)
    with pytest.raises(ValueError, match=r"config\.json: rope_theta is given as \[5\.0, 10000\.0\]; keep one"):
        load_target(str(folder))
    _edit(folder, rope_theta=10_000, rope_scaling={"rope_type": "linear", "factor": 2.0})
    with pytest.raises(ValueError, match="rope_parameters and rope_scaling disagree"):
        load_target(str(folder))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"model_type": "gemma4"}, "model_type 'gemma4' is not one of llama, qwen3; use --target hf:"),
        ({"hidden_act": "gelu"}, "only silu is supported"),
        ({"rope_parameters": {"rope_type": "longrope", "rope_theta": 1e4}}, "rope scaling 'longrope'"),
        ({"rope_parameters": {"rope_type": "llama3", "factor": 2.0}}, "rope llama3: low_freq_factor is None"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor 0.5 is not supported"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000; expected a whole number from 1 to 1024"),
        ({"hidden_size": True}, "hidden_size is True; expected a whole number"),
        ({"vocab_size": ...}, "vocab_size is None"),
        ({"num_attention_heads": 3, "num_key_value_heads": 2}, "multiple of the key/value heads"),
        ({"eos_token_id": 11}, "eos_token_id .11. lies outside the vocabulary of 11"),
        (
            {"num_hidden_layers": 3},
            "'model.layers.2.input_layernorm.weight' .8., which config.json asks for, is missing",
        ),
        ({"num_hidden_layers": 1}, "tensor 'model.layers.1.* is none of the"),
        ({"vocab_size": 12}, "'model.embed_tokens.weight' has shape .11, 8., config.json says .12, 8."),
        ({"tie_word_embeddings": False}, "'lm_head.weight' .11, 8., which config.json asks for, is missing"),
    ],
)
def test_config_that_does_not_fit(folder: Path, fields: dict[str, Any], message: str) -> None:
    """Kills: a field ignored, an allocation by an unchecked size, a traceback from inside torch."""
    _edit(folder, **fields)
    with pytest.raises(ValueError, match=message) as caught:
        load_target(str(folder))
    assert "\n" not in str(caught.value)


def test_weights_that_do_not_fit(folder: Path) -> None:
    """Kills: integers or truncated files taken for weights; pickles opened."""
    path = folder / "model.safetensors"
    weights = load_file(path)
    save_file({**weights, "model.norm.weight": torch.ones(8, dtype=torch.int32)}, path)
    with pytest.raises(ValueError, match=r"'model\.norm\.weight' is I32; expected one of F64, F32, F16, BF16"):
        load_target(str(folder))
    save_file(weights, path)
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(
        ValueError, match=r"the header promises .* bytes of data, the file has .*: truncated or damaged"
    ):
        load_target(str(folder))
    path.rename(folder / "pytorch_model.bin")
    with pytest.raises(FileNotFoundError, match=r"pytorch_model\.bin is a pickle, which is never opened"):
        load_target(str(folder))
    (folder / "config.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"no config\.json"):
        load_target(str(folder))


def test_sharded_folder(folder: Path) -> None:
    """Kills: an index that reaches outside its folder, a missing shard, a tensor read from the wrong shard."""
    wanted, weights = _logits(folder), load_file(folder / "model.safetensors")
    names = {name: f"part-{i % 2}.safetensors" for i, name in enumerate(weights)}
    for part in set(names.values()):
        save_file({n: w for n, w in weights.items() if names[n] == part}, folder / part)
    (folder / "model.safetensors").unlink()
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": names}))
    assert torch.equal(_logits(folder), wanted)
    index.write_text(json.dumps({"weight_map": {**names, "x": "../x.safetensors"}}))
    with pytest.raises(ValueError, match=r"'\.\./x\.safetensors' is not a safetensors file in this folder"):
        load_target(str(folder))
    index.write_text(json.dumps({"weight_map": {**names, "x": "part-2.safetensors"}}))
    with pytest.raises(FileNotFoundError, match=r"part-2\.safetensors: missing"):
        load_target(str(folder))


def test_saving_twice_leaves_the_last_and_nothing_else(folder: Path) -> None:
    """Kills: scratch files left behind, fp16 saved as float32."""
    target, _ = load_target(str(folder), dtype=torch.float64)
    assert isinstance(target, TransformerTarget)
    save_model(folder, target.model, dtype=torch.float16)
    assert sorted(p.name for p in folder.iterdir()) == ["config.json", "model.safetensors"]
    assert {entry.dtype for entry in read_header(folder / "model.safetensors").values()} == {"F16"}
    assert (
        _logits(folder) - target.forward(torch.arange(5), [Span(0, 0, 5)], target.new_cache(1, 8)).logits
    ).abs().max() < 0.2


# ------------------------------------------------------------------------------------------------ headers


def _safetensors(header: bytes, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header)) + header + data


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "truncated, or not a safetensors file"),
        (struct.pack("<Q", 10**15) + b"{}", "a header of 1000000000000000: truncated"),
        (
            _safetensors(b'{"a":{"dtype":"F32","shape":[1000000000000000],"data_offsets":[0,4]}}', b"0000"),
            "needs 4000000000000000 bytes",
        ),
        (
            _safetensors(b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}', b"00000000"),
            "begins at byte 4, expected 0",
        ),
        (
            _safetensors(b'{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}', b"0000"),
            "expected lists of numbers",
        ),
        (_safetensors(b'{"a":{"dtype":"F9","shape":[1],"data_offsets":[0,4]}}', b"0000"), "expected a dtype of F64"),
        (_safetensors(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"), "nested .* deep"),
        (_safetensors(b"[]"), "not an object"),
        (_safetensors(b"\xff\xfe"), "not JSON"),
    ],
)
def test_safetensors_headers_are_not_believed(tmp_path: Path, content: bytes, message: str) -> None:
    """Kills: an allocation or a recursion that a header asks for."""
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_header(path)


def _text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def _gguf(pairs: list[bytes], tensors: list[bytes], data: bytes = b"") -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs)) + b"".join(pairs) + b"".join(tensors)
    return head + b"\0" * (-len(head) % 32) + data


def _tensor(name: str, shape: list[int], kind: int = 0, offset: int = 0) -> bytes:
    return _text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


GOOD = _gguf(
    [
        _text("general.architecture") + struct.pack("<I", 8) + _text("llama"),
        _text("xs") + struct.pack("<IIQ3i", 9, 5, 3, 1, -2, 3),
    ],
    [_tensor("a", [2, 3]), _tensor("b", [32], 3, 32)],
    b"\0" * 64,
)


def test_gguf_header_is_read(tmp_path: Path) -> None:
    """Kills: axes in file order, offsets from the wrong start."""
    path = tmp_path / "x.gguf"
    path.write_bytes(GOOD)
    file = read_gguf(path)
    assert file.metadata == {"general.architecture": "llama", "xs": [1, -2, 3]}
    assert file.tensors["a"].shape == (3, 2)
    assert file.tensors["a"].end - file.tensors["a"].begin == 24
    assert file.tensors["b"].begin - file.tensors["a"].begin == 32
    assert file.tensors["b"].end - file.tensors["b"].begin == 20


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"GGUF", "not a GGUF file, or truncated"),
        (b"GGML" + GOOD[4:], "not a GGUF file of version 2 or 3"),
        (GOOD[:-20], r"tensor 'b' \[32\] ends at byte .*: truncated or damaged"),
        (GOOD[:60], "the header asks for .*: truncated"),
        (_gguf([], [_tensor("a", [10**15])]), "truncated or damaged"),
        (_gguf([], [_tensor(name, [64]) for name in "abc"], b"\0" * 256), "its tensors share bytes"),
        (_gguf([], [_tensor("a", [2], 77)]), "GGML type 77; known: F32"),
        (_gguf([], [_tensor("a", [31], 3)]), "Q4_1 packs rows in 32s"),
        (_gguf([], [_tensor("a", [1] * 5)]), "has 5 axes"),
        (_gguf([_text("k") + struct.pack("<IIQ", 9, 4, 10**15)], []), "promises 1000000000000000 items in 'k'"),
        (_gguf([_text("k") + struct.pack("<IIQ", 9, 9, 1) + struct.pack("<IQ", 9, 1) * 5], []), "type 9 .nested 2."),
        (b"GGUF" + struct.pack("<IQQ", 3, 10**15, 0), "promises 1000000000000000 tensors"),
        (_gguf([_text("general.alignment") + struct.pack("<II", 4, 0)], []), "alignment is 0"),
    ],
)
def test_gguf_headers_are_not_believed(tmp_path: Path, content: bytes, message: str) -> None:
    """Kills: counts, offsets and nesting taken at their word."""
    path = tmp_path / "x.gguf"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_gguf(path)


def test_packings_are_the_librarys() -> None:
    """Kills: a block size mistyped."""
    import gguf

    for kind, packing in PACKINGS.items():
        theirs = gguf.GGMLQuantizationType(kind)
        assert (packing.name, (packing.block, packing.size)) == (theirs.name, gguf.GGML_QUANT_SIZES[theirs])


SAFE = _safetensors(
    b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F16","shape":[],"data_offsets":[8,10]}}',
    b"0" * 10,
)


@pytest.mark.parametrize(("good", "read"), [(SAFE, read_header), (GOOD, read_gguf)], ids=["safetensors", "gguf"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(edits=[(0, 255)], cut=0)
@given(edits=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=4), cut=st.integers(0, 80))
def test_damaged_headers_give_an_error_or_a_header(
    tmp_path: Path, good: bytes, read: Any, edits: list[tuple[int, int]], cut: int
) -> None:
    """Kills: any other exception than ValueError from a file that a stranger bent."""
    content = bytearray(good)
    for position, byte in edits:
        content[position % len(content)] = byte
    path = tmp_path / "x"
    path.write_bytes(content[: len(content) - cut])
    try:
        read(path)
    except ValueError as error:
        assert str(path) in str(error)  # noqa: PT017 - both outcomes are right


FIELDS = [
    "model_type",
    "hidden_size",
    "num_hidden_layers",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "layer_types",
    "use_sliding_window",
    "sliding_window",
    "eos_token_id",
    "head_dim",
    "vocab_size",
]


@given(
    st.dictionaries(
        st.sampled_from(FIELDS),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.sampled_from(["rope_type", "factor", "rope_theta"]), inner)
            ),
        ),
    ),
    st.sampled_from(["llama", "qwen3"]),
)
def test_any_config_gives_an_error_or_a_config(fields: dict[str, Any], family: str) -> None:
    """Kills: TypeError, KeyError or OverflowError from a field of the wrong kind."""
    document = {
        "model_type": family,
        "vocab_size": 8,
        "hidden_size": 8,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    try:
        config_of({**document, "intermediate_size": 8, **fields}, "config.json")
    except ValueError as error:
        assert "\n" not in str(error)  # noqa: PT017 - both outcomes are right

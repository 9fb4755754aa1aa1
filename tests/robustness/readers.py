"""Every file that sparkit reads: a good one, the part of it that a stranger bends, and the code that reads it.

    READERS["trace"].make(folder)     writes the good files
    READERS["trace"].read(folder)     what the library does with them, as far as a user's command would go

Both run in a process that has the whole library; see `tests.robustness.zygote`.
"""

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True)
class Reader:
    """One kind of file."""

    file: str  # the one that is bent, inside the folder
    form: str  # json, lines, safetensors, gguf, toml
    make: Callable[[Path], None]
    read: Callable[[Path], Any]


READERS: dict[str, Reader] = {}


def _reader(name: str, file: str, form: str, make: Callable[[Path], None]) -> Callable[[Any], Any]:
    def register(read: Callable[[Path], Any]) -> Callable[[Path], Any]:
        READERS[name] = Reader(file, form, make, read)
        return read

    return register


# ------------------------------------------------------------------------------------------------- vocabulary


def _tokenizer() -> dict[str, Any]:
    from sparkit.targets.loaders.gguf_vocabulary import tokenizer_files

    return tokenizer_files(_metadata(), "made")["tokenizer.json"]


def _metadata() -> dict[str, Any]:
    tokens = ["a", "b", "Ġ", "ab", "<|end|>", "1", "2", "c", "d", "Ġa", "e"]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1, 1, 1, 1, 3, 1, 1, 1, 1, 1, 1],
        "tokenizer.ggml.merges": ["a b", "Ġ a"],
        "tokenizer.ggml.eos_token_id": 4,
    }


def make_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text(json.dumps(_tokenizer()))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|end|>", "bos_token": "a"}))


@_reader("tokenizer", "tokenizer.json", "json", make_tokenizer)
def read_tokenizer(folder: Path) -> None:
    from sparkit.targets.tokenizer import Tokenizer

    tokenizer = Tokenizer.from_folder(folder)
    tokenizer.fingerprint()
    stream = tokenizer.stream()
    ids = tokenizer.encode_prompt("ab 12 a<|end|>")
    tokenizer.decode(ids)
    stream.push(*ids)
    stream.finish()


@_reader("tokenizer settings", "tokenizer_config.json", "json", make_tokenizer)
def read_tokenizer_settings(folder: Path) -> None:
    read_tokenizer(folder)


# ------------------------------------------------------------------------------------------------- weights


def _seeded(module: nn.Module) -> None:
    generator = torch.Generator().manual_seed(1)
    for p in module.parameters():
        p.data.copy_(torch.randn(p.shape, generator=generator))


def make_target(folder: Path) -> None:
    from sparkit.targets.loaders import save_model
    from sparkit.targets.transformer import Transformer, TransformerConfig

    model = Transformer(TransformerConfig(11, 8, 12, num_layers=2, num_heads=2, num_kv_heads=1))
    _seeded(model)
    save_model(folder, model)
    make_tokenizer(folder)


def _forward(folder: str) -> None:
    from sparkit.protocols import Span
    from sparkit.targets.loaders import load_target

    target, tokenizer = load_target(folder)
    assert tokenizer is not None
    count = min(3, target.max_positions)  # a context of two is small, not wrong
    target.forward(torch.arange(count), [Span(0, 0, count)], target.new_cache(1, 8))


@_reader("target config", "config.json", "json", make_target)
def read_target(folder: Path) -> None:
    _forward(str(folder))


@_reader("safetensors", "model.safetensors", "safetensors", make_target)
def read_safetensors(folder: Path) -> None:
    from sparkit.targets.loaders.safetensors_file import Shards

    shards = Shards([folder / "model.safetensors"])
    for name in shards.entries:
        shards.read(name)


def _drafter_target() -> Any:
    from sparkit.targets.model import TransformerTarget
    from sparkit.targets.transformer import Transformer, TransformerConfig

    model = Transformer(TransformerConfig(11, 8, 12, num_layers=4, num_heads=2, num_kv_heads=1))
    _seeded(model)
    return TransformerTarget(model, taps=(0, 1))


def make_drafter(folder: Path) -> None:
    import sparkit.drafters  # noqa: F401 - registers the parts
    from sparkit.drafters.layout import save_drafter
    from sparkit.protocols import DRAFTERS

    options = {"gamma": 3, "head": "markov", "rank": 2}
    save_drafter(folder, DRAFTERS.create("dspark", target=_drafter_target(), **options), dtype=torch.float32)


@_reader("drafter config", "config.json", "json", make_drafter)
def read_drafter(folder: Path) -> None:
    import sparkit.drafters  # noqa: F401 - registers the parts
    from sparkit.drafters.layout import load_drafter

    load_drafter(folder, _drafter_target())


def make_recurrent(folder: Path) -> None:
    from sparkit.confidences.recurrent import RecurrentConfidence
    from sparkit.training.confidence import save

    made = RecurrentConfidence(11, 8, rank=2, width=5, embedding_size=3)
    _seeded(made)
    save(folder, made, dtype=torch.float32)


@_reader("recurrent confidence", "recurrent.safetensors", "safetensors", make_recurrent)
def read_recurrent(folder: Path) -> None:
    from sparkit.confidences.recurrent import load_recurrent

    load_recurrent(folder, 11, 8)


def _trained() -> Any:
    net = nn.Linear(3, 2)
    _seeded(net)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
    net(torch.ones(3)).sum().backward()
    optimizer.step()
    return net, optimizer


def make_checkpoint(folder: Path) -> None:
    from sparkit.training.checkpoint import Note, save_checkpoint

    save_checkpoint(folder, *_trained(), Note(step=5, seconds=1.0, world_size=1))


@_reader("training checkpoint", "checkpoint.safetensors", "safetensors", make_checkpoint)
def read_checkpoint(folder: Path) -> None:
    from sparkit.training.checkpoint import load_checkpoint

    net, optimizer = _trained()
    load_checkpoint(folder, net, optimizer)
    optimizer.step()


# ------------------------------------------------------------------------------------------------- GGUF


@dataclass(frozen=True)
class Gguf:
    """A GGUF file in pieces, so that one piece can be bent."""

    pairs: tuple[bytes, ...]
    tensors: tuple[bytes, ...]
    data: bytes
    num_pairs: int | None = None  # None: as many as there are
    num_tensors: int | None = None

    def content(self) -> bytes:
        counts = [own if own is not None else len(all_) for own, all_ in self._counted()]
        head = b"GGUF" + struct.pack("<IQQ", 3, *counts) + b"".join(self.pairs) + b"".join(self.tensors)
        return head + b"\0" * (-len(head) % 32) + self.data

    def _counted(self) -> tuple[tuple[int | None, tuple[bytes, ...]], ...]:
        return (self.num_tensors, self.tensors), (self.num_pairs, self.pairs)


def gguf_text(value: bytes | str) -> bytes:
    raw = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(raw)) + raw


def gguf_value(value: Any) -> bytes:
    """Type and payload."""
    if isinstance(value, str):
        return struct.pack("<I", 8) + gguf_text(value)
    if isinstance(value, bool):
        return struct.pack("<IB", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    items = [gguf_value(item) for item in value]
    return struct.pack("<I", 9) + items[0][:4] + struct.pack("<Q", len(items)) + b"".join(i[4:] for i in items)


def gguf_tensor(name: str, shape: tuple[int, ...], kind: int, offset: int) -> bytes:
    return gguf_text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


def good_gguf() -> Gguf:
    names = {
        "block_count": 1, "context_length": 64, "embedding_length": 8, "feed_forward_length": 12,
        "attention.head_count": 2, "attention.head_count_kv": 1, "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.freq_base": 1e4, "rope.dimension_count": 4, "vocab_size": 11,
    }  # fmt: skip
    metadata = {"general.architecture": "llama", **{f"llama.{k}": v for k, v in names.items()}, **_metadata()}
    matrices = {
        "token_embd": (11, 8), "output_norm": (8,), "blk.0.attn_norm": (8,), "blk.0.ffn_norm": (8,),
        "blk.0.attn_q": (8, 8), "blk.0.attn_k": (4, 8), "blk.0.attn_v": (4, 8), "blk.0.attn_output": (8, 8),
        "blk.0.ffn_gate": (12, 8), "blk.0.ffn_up": (12, 8), "blk.0.ffn_down": (8, 12),
    }  # fmt: skip
    tensors, data = [], b""
    for name, shape in matrices.items():
        tensors.append(gguf_tensor(f"{name}.weight", shape[::-1], 0, len(data)))
        size = 4 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        data += b"\0" * (size + -size % 32)
    pairs = tuple(gguf_text(key) + gguf_value(value) for key, value in metadata.items())
    return Gguf(pairs, tuple(tensors), data)


def make_gguf(folder: Path) -> None:
    (folder / "x.gguf").write_bytes(good_gguf().content())


@_reader("gguf", "x.gguf", "gguf", make_gguf)
def read_gguf(folder: Path) -> None:
    import shutil

    from sparkit.targets.loaders.gguf_model import convert

    convert(folder / "x.gguf", folder / "converted")
    try:
        _forward(str(folder / "converted"))
    finally:
        shutil.rmtree(folder / "converted")


# ------------------------------------------------------------------------------------------------- text


def make_recipe(folder: Path) -> None:
    from sparkit.recipe import Recipe

    recipe = Recipe(head="markov", stop=("\n",), logit_bias=((3, -1.5),), stop_tokens=(2,), token_budget=64)
    recipe.save(folder / "recipe.toml")


@_reader("recipe", "recipe.toml", "toml", make_recipe)
def read_recipe(folder: Path) -> None:
    from sparkit.recipe import Recipe

    Recipe.load(folder / "recipe.toml").save(folder / "again.toml")


def make_trace(folder: Path) -> None:
    from sparkit.rounds import Round, Seconds, Token, TopTokens
    from sparkit.traces import TraceHeader, write_trace

    seconds = Seconds(0.1, 0.1, 0.1, 0.1)
    one = Round(
        request=0, step=1, kind="drafted", anchor=3, anchor_position=5, drafted=(1, 2), p_draft=(0.5, 0.4),
        p_target=(0.5,), logits=(0.1, float("inf")), confidence=(0.6, 1.0), survival=(0.6, 0.6),
        accept_rate=(0.9, float("nan")), verify_len=1, floor=0, ceiling=2, is_probe=False, accepted=1, next_token=4,
        origin="bonus", tokens=(Token(1, "draft"), Token(4, "bonus")), stop_reason=None, audit_chosen=(True,),
        audit_mass=(0.5,), num_requests=1, batch_tokens=2, base_tokens=1, seconds=seconds,
        top=(TopTokens(((1, 0.5),), ((1, 0.5),), ((2, 0.5),)), TopTokens(((1, 0.5),), None, None)),
    )  # fmt: skip
    header = TraceHeader({"drafter": "dspark", "gamma": 2}, 2, {0: {"prompt": "a", "seed": 1}}, {1: "a", 4: "b"}, {}, 0)
    write_trace(folder / "x.jsonl", header, [one, one])


@_reader("trace", "x.jsonl", "lines", make_trace)
def read_trace(folder: Path) -> None:
    from sparkit.traces import read_trace

    read_trace(folder / "x.jsonl")


def make_prompts(folder: Path) -> None:
    row = {"id": "1", "domain": "math", "prompt": "2 + 2"}
    (folder / "prompts.jsonl").write_text((json.dumps(row) + "\n") * 2)


@_reader("prompts", "prompts.jsonl", "lines", make_prompts)
def read_prompts(folder: Path) -> None:
    from sparkit.prompts import read_prompts

    read_prompts(folder / "prompts.jsonl")


def make_capacity(folder: Path) -> None:
    from sparkit.capacity import from_rates

    from_rates({1: 1.0, 2: 0.5, 3: 0.45}).save(folder / "capacity.json")


@_reader("capacity", "capacity.json", "json", make_capacity)
def read_capacity(folder: Path) -> None:
    from sparkit.capacity import Capacity

    capacity = Capacity.load(folder / "capacity.json")
    capacity.rates(2, 2, 6, torch.zeros(1))
    capacity.undrafted_rate(1, 1)


def make_tables(folder: Path) -> None:
    tables = {
        "schema": "sparkit.table/1", "vocab": ["A", "B"], "target": {"": [0.7, 0.3]},
        "draft": [{"": [0.5, 0.5]}, {"A": [0.6, 0.4], "B": [0.5, 0.5]}],
        "confidence": [{"": 0.8}, {"A": 0.9, "B": 0.0}], "capacity": {"1": 1.0, "2": 0.5},
    }  # fmt: skip
    (folder / "tables.json").write_text(json.dumps(tables))


@_reader("tables", "tables.json", "json", make_tables)
def read_tables(folder: Path) -> None:
    from sparkit.targets.table import load_table

    _ = load_table(str(folder / "tables.json")).tables.capacity


def _calibration(kind: str, **numbers: Any) -> None:
    def make(folder: Path) -> None:
        from sparkit import calibration

        provenance = calibration.Provenance(drafter="dspark", target="bundled", temperature=1.0, gamma=2)
        fits = [calibration.PositionFit(k, 100, 0.1, 0.05, 0.02, 0.7) for k in (1, 2)]
        calibration.save(folder / f"{kind}.json", kind, numbers, provenance, fits)

    @_reader(f"calibration {kind}", f"{kind}.json", "json", make)
    def read(folder: Path) -> None:
        import sparkit.calibrators  # noqa: F401 - registers the parts
        from sparkit.calibration import Provenance, warn_mismatch
        from sparkit.protocols import CALIBRATORS

        calibrator = CALIBRATORS.create(kind, path=folder / f"{kind}.json")
        warn_mismatch(calibrator.provenance, Provenance(drafter="x"))
        calibrator.calibrate(torch.zeros(1, 1), calibrator.start())  # more positions than fitted: refused in use


_calibration("sts", calibration_temperatures=[1.0, 1.5])
_calibration("platt", slopes=[1.0, 0.5], biases=[0.0, 0.1])
_calibration("isotonic", knots=[[[-1.0, 0.1], [1.0, 0.9]], []])

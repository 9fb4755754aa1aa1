"""A folder of `transformers`: config.json and safetensors, checked against each other before anything is allocated.

Read: one model.safetensors, or shards named by model.safetensors.index.json. Written: the same layout, so that other
libraries load what we trained. Weights are never unpickled: a folder with only .bin files is refused.

    model = load_model(Path("sparkit/assets/bundled/target"), dtype=torch.float32, device="cpu")
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sparkit.files import read_json, scratch_for, shown, write_json
from sparkit.targets.loaders.config_json import config_of, document_of, token_ids
from sparkit.targets.loaders.layout import Piece, tensors_of
from sparkit.targets.loaders.safetensors_file import FLOATS, Entry, Shards
from sparkit.targets.transformer import Transformer, TransformerConfig

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
_BUFFERS = ("rotary_emb.inv_freq", "masked_bias")  # old checkpoints carry these; they are computed, not learned


def load_model(folder: Path, *, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu") -> Transformer:
    """The weights of a folder in the wanted precision.

    Raises:
        FileNotFoundError: if the folder, its config or its weights are missing.
        ValueError: naming file, tensor and shapes, for anything that does not fit together.
    """
    config = read_config(folder)
    shards = Shards(weight_files(folder))
    wanted = _prefixed(tensors_of(config), shards.entries)
    require_fitting(wanted, shards.entries, str(folder), is_tied=config.tie_embeddings)
    with torch.device("meta"):
        model = Transformer(config)
    state = {name: _joined(shards, pieces, dtype, device) for name, pieces in wanted.items()}
    if config.tie_embeddings:
        state["lm_head.weight"] = state["embedding.weight"]
    model.load_state_dict(state, assign=True)
    if config.tie_embeddings:
        model.lm_head.weight = model.embedding.weight
    return model.eval().requires_grad_(False)


def read_config(folder: Path) -> TransformerConfig:
    """config.json, with the stop tokens of generation_config.json where that has some."""
    path = folder / "config.json"
    if not path.is_file():
        raise FileNotFoundError(f"{folder}: no config.json; expected a model folder of the transformers library")
    config = config_of(read_object(path), str(path))
    extra = folder / "generation_config.json"
    stops = token_ids(read_object(extra).get("eos_token_id"), f"{extra}: eos_token_id") if extra.is_file() else ()
    stops = stops or config.eos_ids
    if any(i >= config.vocab_size for i in stops):
        raise ValueError(
            f"{folder}: eos_token_id {shown(list(stops))} lies outside the vocabulary of {config.vocab_size}"
        )
    return replace(config, eos_ids=stops)


def read_object(path: Path) -> dict[str, Any]:
    """A JSON file that holds an object."""
    document = read_json(path)
    if not isinstance(document, dict):
        raise ValueError(f"{path}: expected a JSON object, found {type(document).__name__}")
    return document


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a folder, the shards of an index among them."""
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if (folder / INDEX).is_file():
        return _shards(folder)
    pickled = sorted(p.name for p in (*folder.glob("*.bin"), *folder.glob("*.pt"), *folder.glob("*.pth")))
    hint = f"; {pickled[0]} is a pickle, which is never opened: convert it to safetensors" if pickled else ""
    raise FileNotFoundError(f"{folder}: no {WEIGHTS} and no {INDEX}{hint}")


def _shards(folder: Path) -> list[Path]:
    index = folder / INDEX
    mapping = read_object(index).get("weight_map")
    if not isinstance(mapping, dict) or not mapping or not all(isinstance(v, str) for v in mapping.values()):
        raise ValueError(f"{index}: weight_map is {shown(mapping)}; expected an object of tensor names to files")
    names = sorted(set(mapping.values()))
    for name in names:
        if name != Path(name).name or not name.endswith(".safetensors"):
            raise ValueError(f"{index}: {shown(name)} is not a safetensors file in this folder")
        if not (folder / name).is_file():
            raise FileNotFoundError(f"{folder / name}: missing, and {INDEX} names it; download the folder again")
    return [folder / name for name in names]


def _prefixed(wanted: dict[str, tuple[Piece, ...]], found: Mapping[str, Entry]) -> dict[str, tuple[Piece, ...]]:
    """Checkpoints of the bare decoder lack the `model.` that language models carry."""
    if "embed_tokens.weight" not in found:
        return wanted
    return {k: tuple(p._replace(name=p.name.removeprefix("model.")) for p in v) for k, v in wanted.items()}


def require_fitting(
    wanted: Mapping[str, tuple[Piece, ...]], found: Mapping[str, Entry], where: str, *, is_tied: bool
) -> None:
    """A `ValueError` for a tensor that is missing, of another shape or type, or not known."""
    pieces = {piece.name: piece.shape for group in wanted.values() for piece in group}
    for name, shape in pieces.items():
        if name not in found:
            raise ValueError(f"{where}: tensor {name!r} {list(shape)}, which config.json asks for, is missing")
        if found[name].shape != shape:
            raise ValueError(
                f"{where}: tensor {name!r} has shape {list(found[name].shape)}, config.json says {list(shape)}"
            )
        if found[name].dtype not in FLOATS:
            raise ValueError(f"{where}: tensor {name!r} is {found[name].dtype}; expected one of {', '.join(FLOATS)}")
    allowed = {"lm_head.weight"} if is_tied else set()
    strange = [n for n in found if n not in pieces and n not in allowed and not n.endswith(_BUFFERS)]
    if strange:
        raise ValueError(
            f"{where}: tensor {shown(strange[0])} ({len(strange)} such) is none of the {len(pieces)} that config.json "
            "asks for; is it the config of another model?"
        )


def _joined(shards: Shards, pieces: tuple[Piece, ...], dtype: torch.dtype, device: torch.device | str) -> Tensor:
    parts = [shards.read(piece.name).to(device=device, dtype=dtype) for piece in pieces]
    return parts[0].contiguous() if len(parts) == 1 else torch.cat(parts)


def split_weights(model: Transformer, dtype: torch.dtype) -> dict[str, Tensor]:
    """The weights under `transformers`' names, fused matrices cut apart; a tied head is left out."""
    state, out = model.state_dict(), dict[str, Tensor]()
    for name, pieces in tensors_of(model.config).items():
        rows = state[name].detach().to(device="cpu", dtype=dtype).split([piece.shape[0] for piece in pieces])
        out |= {piece.name: part.contiguous().clone() for piece, part in zip(pieces, rows, strict=True)}
    return out


def save_model(folder: Path, model: Transformer, *, dtype: torch.dtype = torch.float32) -> None:
    """Writes config.json and model.safetensors; the files appear whole or not at all."""
    name = str(dtype).removeprefix("torch.")
    write_folder(folder, document_of(model.config, name), split_weights(model, dtype))


def write_folder(folder: Path, config: dict[str, Any], weights: dict[str, Tensor]) -> None:
    """Writes both files into a new or an existing folder; weights first, so that no config lacks its weights."""
    write_tensors(folder / WEIGHTS, weights)
    write_json(folder / "config.json", config)


def write_tensors(path: Path, weights: dict[str, Tensor]) -> None:
    """Writes a safetensors file, whole or not at all; its folder is made if it does not exist."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = scratch_for(path)
    try:
        save_file(weights, scratch, metadata={"format": "pt"})
        scratch.replace(path)
    except BaseException as error:
        scratch.unlink(missing_ok=True)
        if isinstance(error, SafetensorError):  # its text says why: no space left, for instance
            raise OSError(f"cannot write {path}: {error}") from error
        raise


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder that appears under its name only when the block ends without an error."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = scratch_for(folder)
    scratch.mkdir()
    try:
        yield scratch
        if not folder.exists():  # else another process was faster, with the same content
            scratch.rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)

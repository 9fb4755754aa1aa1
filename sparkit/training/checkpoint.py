"""A training state is one safetensors file, replaced whole: weights, optimiser moments, and a JSON note in its header.

One file means one rename, so a kill at any moment leaves the old state or the new one. Nothing is pickled. Batches and
anchors are functions of (seed, step), so no generator state is kept: the step number is all that resuming needs.

Not done here: writing finished folders (`sparkit.targets.loaders.save_model`, `sparkit.drafters.layout.save_drafter`).

>>> note = Note(step=5, seconds=1.0, world_size=1)
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from sparkit.files import parse_json, scratch_for, shown
from sparkit.targets.loaders.safetensors_file import Shards

FILE = "checkpoint.safetensors"
_MODEL, _OPTIMIZER = "model.", "optimizer."
MOMENTS = (("exp_avg", "exp_avg_sq", "step"), ("momentum",), ("mean", "square", "step"))
"""What an optimiser keeps of one parameter: AdamW, Muon of a map, Muon of anything else."""


@dataclass(frozen=True, slots=True)
class Note:
    """What a checkpoint says beside its tensors."""

    step: int  # optimiser steps done
    seconds: float  # training time spent, pauses excluded
    world_size: int  # processes that took part


def trainable(module: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that training changes, by name."""
    return {name: p for name, p in module.named_parameters() if p.requires_grad}


def save_checkpoint(folder: Path, module: nn.Module, optimizer: torch.optim.Optimizer, note: Note) -> Path:
    """Writes the state under a temporary name and renames it into place."""
    tensors = {_MODEL + name: p.detach() for name, p in trainable(module).items()}
    for name, p in trainable(module).items():
        for key, value in optimizer.state.get(p, {}).items():
            tensors[f"{_OPTIMIZER}{key}.{name}"] = torch.as_tensor(value)
    folder.mkdir(parents=True, exist_ok=True)
    return write_tensors(folder / FILE, tensors, {"note": json.dumps(asdict(note))})


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> Path:
    """A safetensors file that is there whole or not at all."""
    scratch = scratch_for(path)
    try:
        save_file({name: t.contiguous() for name, t in tensors.items()}, scratch, metadata=metadata)
        scratch.replace(path)
    except SafetensorError as error:  # its text says why: no space left, for instance
        raise OSError(f"cannot write {path}: {error}") from error
    finally:
        scratch.unlink(missing_ok=True)
    return path


def load_checkpoint(folder: Path, module: nn.Module, optimizer: torch.optim.Optimizer, world_size: int = 1) -> Note:
    """Puts a saved state into `module` and `optimizer` and returns its note.

    Raises:
        ValueError: if the file is damaged, belongs to another module, or was written by another number of processes.
    """
    path = folder / FILE
    try:
        shards = Shards([path])
        with safe_open(path, framework="pt") as file:
            note = _note((file.metadata() or {}).get("note", ""))
        tensors = {name: shards.read(name) for name in shards.entries}
    except (ValueError, SafetensorError) as error:
        reason = " ".join(str(error).removeprefix(f"{path}: ").split())[:200]
        raise ValueError(f"checkpoint {path}: not readable ({reason}); delete it to start afresh") from error
    _check(path, module, tensors, note, world_size)
    _fill(module, optimizer, tensors)
    return note


def _note(text: str) -> Note:
    """What the header says.

    Raises:
        ValueError: unless it says exactly what a `Note` holds.
    """
    found = parse_json(text.encode(), "note")
    kinds = {"step": (int,), "seconds": (float, int), "world_size": (int,)}
    if not isinstance(found, dict) or found.keys() != kinds.keys():
        raise ValueError(f"its note is {shown(found)}; expected {', '.join(kinds)}")
    for name, kind in kinds.items():
        if type(found[name]) not in kind or not 0 <= found[name] < 1 << 53:
            raise ValueError(f"its note says {name} {shown(found[name])}; expected a number of 0 or more")
    return Note(found["step"], float(found["seconds"]), found["world_size"])


def _check(path: Path, module: nn.Module, tensors: dict[str, Tensor], note: Note, world_size: int) -> None:
    if note.world_size != world_size:
        raise ValueError(
            f"checkpoint {path} was written by {note.world_size} process(es), this run has {world_size}: batches are "
            "shared out by rank, so resume with the same number or start afresh"
        )
    stored = {name.removeprefix(_MODEL): tuple(t.shape) for name, t in tensors.items() if name.startswith(_MODEL)}
    wanted = {name: tuple(p.shape) for name, p in trainable(module).items()}
    if stored != wanted:
        odd = sorted(n for n in stored.keys() | wanted.keys() if stored.get(n) != wanted.get(n))
        raise ValueError(f"checkpoint {path} holds another module: {shown(odd[:3])} differ; delete it to start afresh")
    for name, shape in wanted.items():
        moments = {_kind(key): tuple(tensors[key].shape) for key in _moments(tensors, name)}
        if moments and moments not in [{k: () if k == "step" else shape for k in kinds} for kinds in MOMENTS]:
            raise ValueError(f"checkpoint {path}: the moments of {name} are damaged; delete it to start afresh")


def _kind(key: str) -> str:
    return key.removeprefix(_OPTIMIZER).partition(".")[0]


def _moments(tensors: dict[str, Tensor], name: str) -> list[str]:
    """The optimiser's tensors of one parameter; none before its first step."""
    inner = {key: key.removeprefix(_OPTIMIZER).partition(".")[2] for key in tensors if key.startswith(_OPTIMIZER)}
    return [key for key, parameter in inner.items() if parameter == name]


def _fill(module: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    states: dict[nn.Parameter, dict[str, Tensor]] = {}
    for name, p in trainable(module).items():
        p.data.copy_(tensors[_MODEL + name])
        states[p] = {_kind(k): tensors[k] for k in _moments(tensors, name)}
    optimizer.state.clear()
    optimizer.state.update({p: state for p, state in states.items() if state})

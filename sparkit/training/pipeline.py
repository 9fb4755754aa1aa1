"""From the corpus to finished folders: the target first, then its own answers, then the drafters on those.

Each stage reads what the stage before it left on disk, so stages can run days apart, and a stage that was stopped
goes on from its checkpoint.

>>> tensors([[1, 2, 3]], max_len=2)[0].tolist()
[1, 2]
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from jaxtyping import Int
from torch import Tensor

from sparkit.targets.transformer import Transformer
from sparkit.training.corpus import DOMAINS, Split, token_stream
from sparkit.training.distributed import World, broadcast
from sparkit.training.export import export_target
from sparkit.training.loop import Training, run
from sparkit.training.presets import Preset
from sparkit.training.target import initialise, objective


def tensors(documents: Iterable[Sequence[int]], max_len: int) -> list[Int[Tensor, " _"]]:
    """Documents as token tensors, cut at `max_len`."""
    return [torch.as_tensor(document, dtype=torch.int64)[:max_len] for document in documents]


def corpus(preset: Preset, split: Split, cache: Path) -> dict[str, list[Int[Tensor, " _"]]]:
    """The documents of a split by domain."""
    size = preset.corpus_tokens if split == "train" else preset.heldout_tokens
    stream = token_stream(split, size, preset.seed, cache)
    return {domain: tensors(stream.of_domain(domain), preset.max_len) for domain in DOMAINS}


def fresh_target(preset: Preset) -> Transformer:
    """The preset's target with its first weights."""
    model = Transformer(preset.target)
    initialise(model, torch.Generator().manual_seed(preset.seed))
    return model


def train_target(preset: Preset, work: Path, out: Path, world: World) -> Transformer:
    """Trains (or goes on training) in `work`/target and writes the finished folder `out`."""
    model = fresh_target(preset)
    broadcast(model.parameters(), world)
    training = Training(model, preset.target_plan, work / "target", world)
    seed = preset.seed * world.size + world.rank  # every rank its own batches
    documents = corpus(preset, "train", work / "corpus")
    run(training, objective(model, documents, preset.target_tokens_per_step // world.size, seed, preset.target_shares))
    if world.is_main:
        export_target(model, out)
    return model

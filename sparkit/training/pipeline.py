"""From the corpus to finished folders: the target first, then its own answers, then the drafters on those.

Each stage reads what the stage before it left on disk, so stages can run days apart, and a stage that was stopped
goes on from its checkpoint.

>>> tensors([[1, 2, 3]], max_len=2)[0].tolist()
[1, 2]
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

import sparkit.drafters  # noqa: F401 - registers the parts
from sparkit.confidences.head import ConfidenceHead
from sparkit.drafters.layout import save_drafter
from sparkit.protocols import DRAFTERS as PARTS
from sparkit.targets.loaders import load_target, save_model
from sparkit.targets.model import TransformerTarget
from sparkit.targets.transformer import Transformer
from sparkit.training.acceptance import Acceptance, acceptance
from sparkit.training.corpus import DOMAINS, Split, load_tokenizer, render, token_stream
from sparkit.training.corpus.draw import endless
from sparkit.training.corpus.tokenizer import save_tokenizer
from sparkit.training.distributed import World, broadcast
from sparkit.training.drafter import Material, Trainee
from sparkit.training.drafter import objective as drafter_objective
from sparkit.training.generate import Sampling, generate
from sparkit.training.loop import Training, run
from sparkit.training.losses import RECIPES
from sparkit.training.presets import ABLATIONS, DRAFTERS, Preset
from sparkit.training.quality import Quality, measure
from sparkit.training.responses import Features, Responses
from sparkit.training.target import initialise, objective

Report = Callable[[int], None]
"""Told how many tokens are done."""


def tensors(documents: Iterable[Any], max_len: int) -> list[Int[Tensor, " _"]]:
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
        save_model(out, model, dtype=torch.float16)
        if not (out.parent / "tokenizer.json").exists():
            save_tokenizer(load_tokenizer(), out)  # away from the bundled lane a folder brings its own
    return model


def read_target(folder: Path) -> TransformerTarget:
    """A finished target folder, frozen.

    Raises:
        FileNotFoundError: if there is none, saying how to make it.
    """
    if not (folder / "config.json").exists():
        raise FileNotFoundError(f"no target in {folder}: run `sparkit train target` first")
    target, _ = load_target(str(folder), device="cpu", dtype=torch.float32, taps=())
    if not isinstance(target, TransformerTarget):
        raise ValueError(f"target {folder}: drafters are trained on sparkit's own transformer only")
    return target


def prompts(split: Split, max_len: int, seed: int) -> list[Iterator[list[int]]]:
    """Endless prompts of every domain, as tokens up to and with the assistant marker."""
    tokenizer = load_tokenizer()

    def of(domain: str) -> Iterator[list[int]]:
        for document in endless(domain, split, seed):
            tokens = tokenizer.encode(render(document)[0]).ids
            if len(tokens) <= max_len // 2:
                yield tokens

    return [of(domain) for domain in DOMAINS]


def answer(preset: Preset, target: TransformerTarget, split: Split, out: Path, show: Report) -> Responses:
    """The target's own answers to the prompts of a split, in `out`."""
    size = preset.response_tokens if split == "train" else preset.check_tokens
    sampling = Sampling(size, preset.taps, max_len=preset.max_len, seed=preset.seed)
    return generate(target, prompts(split, preset.max_len, preset.seed + 1), sampling, out, show)


def material(preset: Preset, folder: Path, world: World, gamma: int, num_anchors: int | None = None) -> Material:
    """What a drafter's batches are drawn from; every rank draws its own share."""
    return Material(
        Responses.load(folder),
        Features.load(folder),
        preset.taps,
        preset.drafter_tokens_per_step // world.size,
        (preset.num_anchors if num_anchors is None else num_anchors) // world.size,
        gamma,
        preset.seed * world.size + world.rank,
    )


def fresh_trainee(preset: Preset, name: str, target: TransformerTarget) -> Trainee:
    """An untrained bundled drafter with its confidence head.

    Raises:
        LookupError: for a name that is not in the preset, with the names that are.
    """
    known = {**DRAFTERS, **ABLATIONS}
    if name not in known:
        raise LookupError(f"drafter {name!r} is not among the bundled ones and ablations: {', '.join(known)}")
    spec = known[name]
    drafter = PARTS.create(spec.part, target=target, gamma=preset.gamma_of(name), seed=preset.seed, **spec.options)
    confidence = ConfidenceHead(target.hidden_size, drafter.config.confidence_rank)
    return Trainee(drafter, confidence, RECIPES[spec.recipe])


def train_drafter(preset: Preset, name: str, target: TransformerTarget, work: Path, out: Path, world: World) -> Trainee:
    """Trains (or goes on training) a bundled drafter in `work`/drafters/NAME and writes the finished folder `out`."""
    trainee = fresh_trainee(preset, name, target)
    broadcast(trainee.parameters(), world)
    training = Training(trainee, preset.plan_of(name), work / "drafters" / name, world)
    answers = material(preset, work / "responses", world, trainee.drafter.gamma)
    run(training, drafter_objective(trainee, target, answers))
    if world.is_main:
        save_drafter(out, trainee.drafter, trainee.confidence)
    return trainee


def check_drafter(preset: Preset, trainee: Trainee, target: TransformerTarget, work: Path) -> list[Acceptance]:
    """Offline acceptance by domain on the target's answers to held-out prompts."""
    return acceptance(trainee, target, material(preset, work / "check", World(), trainee.drafter.gamma, 384), DOMAINS)


def check_target(preset: Preset, model: Transformer, work: Path) -> list[Quality]:
    """Held-out loss and entropy by domain."""
    return measure(model, corpus(preset, "heldout", work / "corpus"))

"""The recurrent confidence of a finished drafter: rounds of the real engine, then cross-entropy with c*.

    fit(blocks, likely, plan)   -> RecurrentConfidence, its input scale folded into its first layer

Not done here: the rounds (`sparkit.training.blocks`).
"""

from itertools import chain
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from sparkit.compose import assemble
from sparkit.confidences.recurrent import FILE, LawView, RecurrentConfidence
from sparkit.recipe import Recipe
from sparkit.targets.loaders.folder import write_tensors
from sparkit.training.blocks import Blocks, Report, collect
from sparkit.training.loop import Optimisation, StepLoss, Training, run
from sparkit.training.pipeline import prompts
from sparkit.training.presets import Preset

BATCH = 512  # blocks a step


def confidence_of(plan: Preset, name: str, folder: Path, where: str, tell: Report | None = None) -> Path:
    """Collects, fits and writes the recurrent confidence of a finished drafter.

    Args:
        plan: how many rounds and steps; its seed.
        name: a bundled drafter, such as dspark-markov.
        folder: where its weights lie; the file goes there too.
        where: the target it was trained for: bundled, or a folder.
        tell: called with the number of blocks collected so far.
    """
    part, _, head = name.partition("-")
    recipe = Recipe(
        target=where, drafter=f"{part}:path={folder}", head=head or None, scheduler="fixed", calibrator="identity",
        capacity="roofline", gamma=plan.gamma_of(name), batch=32, max_new_tokens=128,
    )  # fmt: skip
    composition = assemble(recipe)
    texts = chain.from_iterable(zip(*prompts("train", plan.max_len, plan.seed + 2), strict=True))
    blocks = collect(composition, texts, plan.confidence_rounds, tell)
    target = composition.parts.target
    likely = target.embed(torch.arange(target.vocab_size)).float()
    model = fit(blocks, likely, plan.confidence_plan, plan.seed)
    return save(folder, model)


def fit(blocks: Blocks, likely: Float[Tensor, "V n"], plan: Optimisation, seed: int = 0) -> RecurrentConfidence:
    """Minimises the cross-entropy with c*, on random blocks at each step.

    Args:
        blocks: what was collected.
        likely: what the embedding of likely tokens begins as: the target's own says which tokens are alike.
        plan: steps and rates.
        seed: of the first weights and of the batches.

    Raises:
        ValueError: for fewer blocks than a batch.
    """
    if len(blocks) < BATCH:
        raise ValueError(f"fit: {len(blocks)} blocks; expected at least {BATCH}")
    rank = 0 if blocks.embedded is None else blocks.embedded.shape[-1]
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        model = RecurrentConfidence(len(likely), blocks.hidden.shape[-1], rank, embedding_size=likely.shape[1])
    model.embedding.data.copy_(likely / likely.std())
    scaled, scales = _scaled(blocks)

    def loss(step: int) -> StepLoss:
        generator = torch.Generator().manual_seed((seed << 32) + step)
        batch = scaled[torch.randint(len(blocks), (BATCH,), generator=generator)]
        logits = model(batch.hidden, batch.embedded, batch.law)
        total = F.binary_cross_entropy_with_logits(logits, batch.accept_rate, reduction="sum")
        return StepLoss(total, torch.tensor(float(logits.numel())))

    run(Training(model, plan), loss)
    return _folded(model, scales)


Scale = tuple[Float[Tensor, " _"], Float[Tensor, " _"]]
"""Mean and deviation of some inputs."""


def _scale(values: Float[Tensor, "N gamma n"]) -> Scale:
    return values.mean((0, 1)), values.std((0, 1)).clamp(min=1e-3)


def _scaled(blocks: Blocks) -> tuple[Blocks, tuple[Scale, Scale | None, Scale]]:
    """State, embedding and numbers with mean 0 and deviation 1; likely tokens are left as they are."""
    hidden, embedded, law = blocks.hidden.float(), blocks.embedded, blocks.law
    of_hidden, of_numbers = _scale(hidden), _scale(law.numbers.float())
    of_embedded = None if embedded is None else _scale(embedded.float())
    if embedded is not None and of_embedded is not None:
        embedded = _by(embedded.float(), of_embedded)
    law = LawView(law.tokens, law.probs.float(), _by(law.numbers.float(), of_numbers))
    changed = Blocks(_by(hidden, of_hidden), embedded, law, blocks.accept_rate.float())
    return changed, (of_hidden, of_embedded, of_numbers)


def _by(values: Float[Tensor, "N gamma n"], scale: Scale) -> Float[Tensor, "N gamma n"]:
    return (values - scale[0]) / scale[1]


@torch.no_grad()
def _folded(model: RecurrentConfidence, scales: tuple[Scale, Scale | None, Scale]) -> RecurrentConfidence:
    """The same function of inputs as they come."""
    weight, size = model.joint.weight, model.embedding.shape[1]
    unscaled = (weight.new_zeros(size), weight.new_ones(size))
    parts = [scale for scale in (*scales[:2], unscaled, scales[2]) if scale is not None]
    mean, deviation = (torch.cat(columns) for columns in zip(*parts, strict=True))
    weight.div_(deviation)
    model.joint.bias.sub_(weight @ mean)
    return model.eval().requires_grad_(False)


def save(folder: Path, model: RecurrentConfidence, dtype: torch.dtype = torch.float16) -> Path:
    """Writes `folder`/recurrent.safetensors, whole or not at all."""
    weights = {name: p.detach().cpu().to(dtype).contiguous() for name, p in model.named_parameters()}
    write_tensors(Path(folder) / FILE, weights)
    return Path(folder) / FILE

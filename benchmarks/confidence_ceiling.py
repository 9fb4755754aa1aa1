"""How far a confidence could get: the trained head beside heads fitted to convergence on richer inputs.

The drafter is frozen; every head predicts c*_k = 1 - TV(p_draft, p_target) from what is known before x_k is drawn, is
fitted on the target's answers to training prompts, and is judged on answers to held-out ones: AUC of the product of
its confidences against coins thrown with c*, beside the AUC of the product of c* itself.

    python benchmarks/confidence_ceiling.py --work WORK --drafter dspark --head rnn --out benchmarks/results/...json

WORK is the folder of `sparkit train all --preset bundled --work WORK` (responses and check are read).
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sparkit.cli.environment import environment
from sparkit.compose import assemble
from sparkit.metrics import auc
from sparkit.recipe import Recipe
from sparkit.training.distributed import World
from sparkit.training.drafter import Trainee, target_logits
from sparkit.training.losses import RECIPES, accept_rate
from sparkit.training.pipeline import material, read_target
from sparkit.training.presets import PRESETS

LATER = 10_000_000  # steps whose batches training never drew
PARTS = {"state": "h_k and W1[x_{k-1}]", "law": "the same, and entropy and largest probability of p_draft"}


@torch.inference_mode()
def collect(trainee: Trainee, target: object, work: Path, split: str, num_steps: int) -> dict[str, Tensor]:
    """Whole blocks: head inputs, c*, the trained head's logits."""
    drafter, batches = trainee.drafter, material(PRESETS["bundled"], work / split, World())
    rows: dict[str, list[Tensor]] = {"state": [], "law": [], "rate": [], "own": []}
    for step in range(num_steps):
        batch = batches.batch(LATER + step, drafter.config.feature_layers)
        if batch is None:
            continue
        hidden, previous = drafter.forward_blocks(batch.features, batch.tokens, batch.lengths, batch.blocks.anchors)
        law, embedded = drafter.block_logits(hidden, previous).softmax(-1), drafter.previous_embedding(previous)
        whole = batch.blocks.valid.all(1)
        state = hidden if embedded is None else torch.cat((hidden, embedded), -1)
        shape = torch.stack((-(law * law.clamp_min(1e-9).log()).sum(-1), law.amax(-1)), -1)
        rate = accept_rate(law, target_logits(target, batch).softmax(-1))  # type: ignore[arg-type]
        own = trainee.confidence(hidden, embedded)  # type: ignore[misc]
        found = {"state": state, "law": torch.cat((state, shape), -1), "rate": rate, "own": own}
        for name, values in found.items():
            rows[name].append(values[whole])
    return {name: torch.cat(parts) for name, parts in rows.items()}


def fit(model: nn.Module, inputs: Tensor, rate: Tensor, epochs: int) -> nn.Module:
    """Cross-entropy with the soft label, to convergence."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, epochs)
    for _ in range(epochs):
        for rows in torch.randperm(len(inputs)).split(512):
            optimizer.zero_grad()
            F.binary_cross_entropy_with_logits(model(inputs[rows])[..., 0], rate[rows]).backward()
            optimizer.step()
        schedule.step()
    return model


def mean_auc(confidence: Tensor, reached: Tensor) -> float:
    """Of survival against "prefix accepted", mean over positions."""
    found = [auc(s, r) for s, r in zip(confidence.cumprod(-1).unbind(1), reached.unbind(1), strict=True)]
    return sum(one for one in found if one is not None) / len(found)


def heads(train: dict[str, Tensor], check: dict[str, Tensor]) -> dict[str, Tensor]:
    """Confidence logits on the check set: the trained head's, and four fitted ones."""
    found = {"trained head": check["own"]}
    for name, inputs in PARTS.items():
        width = train[name].shape[-1]
        models = {
            "linear": nn.Linear(width, 1),
            "two layers": nn.Sequential(nn.Linear(width, 128), nn.GELU(), nn.Linear(128, 1)),
        }
        for kind, model in models.items():
            fit(model, train[name], train["rate"], 20)
            with torch.no_grad():
                found[f"{kind}, {inputs}"] = model(check[name])[..., 0]
    return found


def main() -> None:
    """Fits, judges, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--drafter", default="dspark")
    parser.add_argument("--head", default="rnn")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.manual_seed(0)
    recipe = Recipe(drafter=given.drafter, capacity="roofline")
    parts = assemble(replace(recipe, head=given.head) if given.drafter == "dspark" else recipe).parts
    target = read_target(Path(__file__).parents[1] / "sparkit" / "assets" / "bundled" / "target")
    trainee = Trainee(parts.drafter, parts.confidence, RECIPES[given.drafter])  # type: ignore[arg-type]
    train = collect(trainee, target, given.work, "responses", given.steps)
    check = collect(trainee, target, given.work, "check", given.steps // 2)
    coins = torch.rand(check["rate"].shape, generator=torch.Generator().manual_seed(0)) < check["rate"]
    reached = coins.long().cumprod(-1) > 0
    best = mean_auc(check["rate"], reached)
    rows = [
        {
            "head": name,
            "auc": (found := mean_auc(logits.sigmoid(), reached)),
            "of_analytic": found / best,
            "cross_entropy": float(F.binary_cross_entropy_with_logits(logits, check["rate"])),
        }
        for name, logits in heads(train, check).items()
    ]
    document = {
        "environment": environment("cpu"),
        "drafter": f"{given.drafter}-{given.head}" if given.drafter == "dspark" else given.drafter,
        "num_fitted": len(train["rate"]),
        "num_judged": len(check["rate"]),
        "auc_analytic": best,
        "heads": rows,
    }
    print(json.dumps(document, indent=1))
    if given.out is not None:
        given.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()

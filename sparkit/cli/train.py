"""`sparkit train target | drafter NAME | all`: the bundled lane from the corpus to finished folders.

Under `torchrun` every process takes its share of each batch; one process needs nothing. A run that was stopped goes
on from its checkpoint in `--work`.
"""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparkit.cli.documents import JsonOption, console, write_json
from sparkit.cli.training import (
    MinutesOption,
    OutOption,
    PresetOption,
    StepsOption,
    WorkOption,
    assets,
    budget,
    bundled_target,
    everyone,
    preset_named,
    progress,
)

if TYPE_CHECKING:
    from sparkit.training.presets import Preset

command = typer.Typer(help="Train a target, a drafter, or everything bundled.", no_args_is_help=True)


@command.command()
def target(
    preset: PresetOption = "bundled",
    work: WorkOption = Path("runs"),
    out: OutOption = None,
    minutes: MinutesOption = None,
    steps: StepsOption = None,
    json: JsonOption = None,
) -> None:
    """Pre-train the target on the corpus and write its folder.

    Examples:
        sparkit train target --preset bundled
        torchrun --nproc-per-node 2 -m sparkit train target --minutes 30
    """
    from sparkit.training.pipeline import check_target, train_target

    plan = preset_named(preset)
    plan = replace(plan, target_plan=budget(plan.target_plan, minutes, steps))
    with everyone() as world:
        model = train_target(plan, work, (out or assets()) / "target", world)
        if not world.is_main:
            return
        numbers = check_target(plan, model, work)
    for n in numbers:
        console(json).print(
            f"{n.domain:5} held-out loss {n.loss:.3f}  entropy {n.entropy:.3f}  ({n.num_tokens} tokens)"
        )
    if json is not None:
        write_json({"schema": "sparkit.train-target/1", "domains": [asdict(n) for n in numbers]}, json)


@command.command()
def drafter(
    name: Annotated[str, typer.Argument(help="dflash, eagle3, mtp, dspark-{markov,gated,rnn}, dflash-dspark-losses.")],
    preset: PresetOption = "bundled",
    work: WorkOption = Path("runs"),
    target: Annotated[Path | None, typer.Option(help="Target folder; the bundled one if not given.")] = None,
    out: OutOption = None,
    steps: StepsOption = None,
    json: JsonOption = None,
) -> None:
    """Train one drafter on the target's own answers and write its folder.

    Examples:
        sparkit train drafter dspark-markov
        sparkit train drafter eagle3 --steps 200 --out /tmp/mine
    """
    from sparkit.training.pipeline import read_target

    plan = preset_named(preset)
    plan = plan if steps is None else plan.with_drafter_steps(steps)
    with everyone() as world:
        rows = _drafter(plan, name, read_target(target or bundled_target()), work, out, world)
    _show(name, rows, json)
    if json is not None and rows is not None:
        write_json({"schema": "sparkit.train-drafter/1", "drafter": name, "domains": rows}, json)


@command.command()
def confidence(
    name: Annotated[str, typer.Argument(help="dflash, eagle3, mtp, dspark-{markov,gated,rnn}.")],
    preset: PresetOption = "bundled",
    target: Annotated[Path | None, typer.Option(help="Target folder; the bundled one if not given.")] = None,
    out: OutOption = None,
    rounds: Annotated[int | None, typer.Option(min=512, help="Verified blocks to learn from instead.")] = None,
    json: JsonOption = None,
) -> None:
    """Train the recurrent confidence of a finished drafter on rounds of the engine, and fit its temperatures.

    Examples:
        sparkit train confidence dspark-markov
        sparkit compose --drafter dspark --confidence recurrent
    """
    plan, folder = preset_named(preset), (out or assets()) / "drafters" / name
    plan = plan if rounds is None else replace(plan, confidence_rounds=rounds)
    file = _confidence(plan, name, folder, "bundled" if target is None else str(target), json)
    console(json).print(f"wrote {file} and its temperatures")
    if json is not None:
        write_json({"schema": "sparkit.train-confidence/1", "drafter": name, "path": str(file)}, json)


@command.command("all")
def everything(
    preset: PresetOption = "bundled",
    work: WorkOption = Path("runs"),
    out: OutOption = None,
    minutes: MinutesOption = None,
    steps: StepsOption = None,
    json: JsonOption = None,
) -> None:
    """Rebuild the bundled lane: target, its answers, the six drafters, their confidences and fitted temperatures.

    Examples:
        sparkit train all --preset bundled
    """
    from sparkit.training.distributed import World
    from sparkit.training.pipeline import answer, read_target
    from sparkit.training.presets import DRAFTERS

    plan, folder = preset_named(preset), out or assets()
    target(preset, work, out, minutes, None, None)
    frozen = read_target(folder / "target")
    for split, part in (("train", "responses"), ("heldout", "check")):
        total = plan.response_tokens if split == "train" else plan.check_tokens
        if not (work / part / "responses.safetensors").exists():
            with progress(f"answering {split} prompts", total, json) as show:
                answer(plan, frozen, split, work / part, show)  # type: ignore[arg-type]
    plan = plan if steps is None else plan.with_drafter_steps(steps)
    documents = {}
    for name in DRAFTERS:
        documents[name] = _drafter(plan, name, frozen, work, out, World())
        _show(name, documents[name], json)
    where = "bundled" if out is None else str(folder / "target")
    _fit(plan, folder, where, json)
    for name in plan.confidences:
        _confidence(plan, name, folder / "drafters" / name, where, json)
    if json is not None:
        write_json({"schema": "sparkit.train-all/1", "drafters": documents}, json)


def _fit(plan: "Preset", folder: Path, target: str, json: str | None) -> None:
    from sparkit.training.presets import DRAFTERS
    from sparkit.training.temperatures import fit_temperatures, fitting_prompts

    prompts = fitting_prompts(plan.fitting_prompts)
    with progress("fitting temperatures", len(DRAFTERS), json) as show:
        for done, name in enumerate(DRAFTERS, start=1):
            fit_temperatures(name, folder / "drafters" / name, prompts, target=target, gamma=plan.gamma_of(name))
            show(done)


def _confidence(plan: "Preset", name: str, folder: Path, target: str, json: str | None) -> Path:
    from sparkit.training.confidence import confidence_of
    from sparkit.training.temperatures import fit_temperatures, fitting_prompts

    if not folder.is_dir():
        raise FileNotFoundError(f"no drafter in {folder}: run `sparkit train drafter {name}` first")
    with progress(f"confidence of {name}", plan.confidence_rounds, json) as show:
        file = confidence_of(plan, name, folder, target, show)
    prompts, gamma = fitting_prompts(plan.fitting_prompts), plan.gamma_of(name)
    fit_temperatures(name, folder, prompts, target=target, confidence="recurrent", gamma=gamma)
    return file


def _drafter(
    plan: "Preset", name: str, target: Any, work: Path, out: Path | None, world: Any
) -> list[dict[str, Any]] | None:
    from sparkit.training.pipeline import check_drafter, train_drafter

    trainee = train_drafter(plan, name, target, work, (out or assets()) / "drafters" / name, world)
    if not world.is_main or not (work / "check").exists():
        return None
    return [asdict(row) for row in check_drafter(plan, trainee, target, work)]


def _show(name: str, rows: list[dict[str, Any]] | None, json: str | None) -> None:
    for row in rows or []:
        rates = " ".join(f"{rate:.2f}" for rate in row["accept"])
        console(json).print(f"{name:14} {row['domain']:5} tau about {row['tau']:.2f}  accept rate by position {rates}")

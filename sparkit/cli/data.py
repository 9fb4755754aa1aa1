"""`sparkit data generate`: the target answers train-split prompts itself; drafters learn from these answers.

The files are described in `sparkit.training.responses`.
"""

from pathlib import Path
from typing import Annotated

import typer

from sparkit.cli.documents import JsonOption, console, write_json
from sparkit.cli.training import PresetOption, WorkOption, bundled_target, preset_named, progress

command = typer.Typer(help="Generate the training data of drafters.", no_args_is_help=True)


@command.callback()
def data() -> None:
    """Generate the training data of drafters."""


@command.command()
def generate(
    preset: PresetOption = "bundled",
    work: WorkOption = Path("runs"),
    target: Annotated[Path | None, typer.Option(help="Target folder; the bundled one if not given.")] = None,
    tokens: Annotated[int | None, typer.Option(min=1000, help="Tokens in all, prompts included.")] = None,
    heldout: Annotated[bool, typer.Option(help="Answer held-out prompts, for the offline numbers only.")] = False,
    json: JsonOption = None,
) -> None:
    """Let the target answer prompts at temperature 1 and keep its features.

    Examples:
        sparkit data generate --work runs
        sparkit data generate --work runs --heldout --tokens 60000
    """
    from dataclasses import replace

    from sparkit.training.corpus import DOMAINS
    from sparkit.training.pipeline import answer, read_target

    plan = preset_named(preset)
    if tokens is not None:
        plan = replace(plan, check_tokens=tokens) if heldout else replace(plan, response_tokens=tokens)
    total = plan.check_tokens if heldout else plan.response_tokens
    out = work / ("check" if heldout else "responses")
    with progress("answering", total, json) as show:
        done = answer(plan, read_target(target or bundled_target()), "heldout" if heldout else "train", out, show)
    counts = {d: int(done.lengths[done.domains == i].sum()) for i, d in enumerate(DOMAINS)}
    console(json).print(f"{out}: {len(done.lengths)} answers, tokens by domain {counts}")
    if json is not None:
        write_json(
            {"schema": "sparkit.data/1", "folder": str(out), "num_answers": len(done.lengths), "tokens": counts}, json
        )

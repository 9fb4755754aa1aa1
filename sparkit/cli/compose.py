"""`sparkit compose` decodes prompts with chosen parts and measures them beside plain decoding of the same target."""

import itertools
from pathlib import Path
from typing import Annotated, Any

import typer

from sparkit.cli.documents import JsonOption, console, out_option, write_json

Many = list[str] | None


def command(
    target: Annotated[str | None, typer.Option(help="bundled, smollm2, a folder, a .gguf, hf:NAME, table:...")] = None,
    drafter: Annotated[Many, typer.Option(help="NAME or NAME:key=value,... (several make a grid)")] = None,
    head: Annotated[Many, typer.Option(help="Serial head: none, markov, gated, rnn.")] = None,
    confidence: Annotated[Many, typer.Option(help="By default the drafter's trained head, else position.")] = None,
    calibrator: Annotated[Many, typer.Option(help="By default the drafter's fitted sts, else identity.")] = None,
    scheduler: Annotated[Many, typer.Option(help="fixed, threshold:value=0.6, greedy, delayed, foresight, ...")] = None,
    verifier: Annotated[Many, typer.Option(help="rejection, block, coupled, lenient (lossy).")] = None,
    gamma: Annotated[list[int] | None, typer.Option(help="Draft tokens per round.")] = None,
    capacity: Annotated[Many, typer.Option(help="measured, flat, roofline, staircase, or a JSON of profile.")] = None,
    temperature: Annotated[list[float] | None, typer.Option(help="0 is greedy.")] = None,
    top_k: Annotated[int | None, typer.Option()] = None,
    top_p: Annotated[float | None, typer.Option()] = None,
    min_p: Annotated[float | None, typer.Option()] = None,
    repetition_penalty: Annotated[float | None, typer.Option()] = None,
    presence_penalty: Annotated[float | None, typer.Option()] = None,
    frequency_penalty: Annotated[float | None, typer.Option()] = None,
    logit_bias: Annotated[Many, typer.Option(help="ID=BIAS, such as 42=-5 or 42=-inf to ban it.")] = None,
    stop: Annotated[Many, typer.Option(help="Text that ends a request.")] = None,
    stop_token: Annotated[list[int] | None, typer.Option(help="Token id that ends a request.")] = None,
    ignore_eos: Annotated[bool, typer.Option("--ignore-eos", help="Go on past the target's end token.")] = False,
    prompt: Annotated[Many, typer.Option(help="A prompt typed by hand.")] = None,
    prompts: Annotated[Path | None, typer.Option(help="A file with one JSON object a line.")] = None,
    domain: Annotated[str, typer.Option(help="Bundled prompts: math, code, chat or all.")] = "all",
    num_prompts: Annotated[int, typer.Option(help="Bundled prompts a domain.")] = 2,
    max_new_tokens: Annotated[int | None, typer.Option()] = None,
    batch: Annotated[list[int] | None, typer.Option(help="Requests at once.")] = None,
    token_budget: Annotated[int | None, typer.Option(help="Most target tokens of a step.")] = None,
    seed: Annotated[list[int] | None, typer.Option()] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, mps.")] = None,
    dtype: Annotated[str | None, typer.Option()] = None,
    recipe: Annotated[Path | None, typer.Option(help="Begin from a recipe; options override it.")] = None,
    save_recipe: Annotated[Path | None, out_option(help="Write the recipe (of the first run) here.")] = None,
    trace: Annotated[Path | None, out_option(help="Write the rounds of the first run here (JSONL).")] = None,
    top_tokens: Annotated[int, typer.Option(min=0, help="Largest entries of each law that a trace keeps.")] = 5,
    show: Annotated[int, typer.Option(help="Coloured texts to print.")] = 1,
    json: JsonOption = None,
) -> None:
    """Decode prompts with chosen parts and measure them beside plain decoding.

    Examples: `sparkit compose --drafter dspark --scheduler greedy` ·
    `sparkit compose --prompt "Tom has 3 apples." --temperature 0` ·
    `sparkit compose --drafter dspark --drafter dflash --drafter eagle3 --domain all --json out.json`

    Ctrl-C keeps what was decoded until then: printed, written, `is_complete` false in the document, exit code 130.
    """
    from sparkit.cli import comparing, composing
    from sparkit.recipe import Recipe

    fixed = {
        "target": target, "top_k": top_k, "top_p": top_p, "min_p": min_p, "repetition_penalty": repetition_penalty,
        "presence_penalty": presence_penalty, "frequency_penalty": frequency_penalty,
        "max_new_tokens": max_new_tokens, "token_budget": token_budget, "device": device, "dtype": dtype,
        "ignore_eos": ignore_eos or None, "stop": tuple(stop or ()) or None,
        "stop_tokens": tuple(stop_token or ()) or None,
        "logit_bias": tuple(composing.bias(text) for text in logit_bias or ()) or None,
    }  # fmt: skip
    grid = {
        "drafter": drafter, "head": head, "confidence": confidence, "calibrator": calibrator, "scheduler": scheduler,
        "verifier": verifier, "gamma": gamma, "capacity": capacity, "temperature": temperature, "batch": batch,
        "seed": seed,
    }  # fmt: skip
    begin = Recipe() if recipe is None else Recipe.load(recipe)
    recipes = [composing.changed(begin, fixed | point) for point in points(grid)]
    rows = composing.chosen_prompts(prompt, prompts, domain, num_prompts)
    if save_recipe is not None:
        recipes[0].save(save_recipe)
    done = composing.run(recipes, rows, console(json), trace, top_tokens)
    if json is not None:
        write_json(done.document, json)
    if json != "-":
        comparing.show(done, console(json), show)
    if not done.document["is_complete"]:
        raise typer.Exit(130)


def points(grid: dict[str, list[Any] | None]) -> list[dict[str, Any]]:
    """Every combination of the values given."""
    given = {name: values for name, values in grid.items() if values}
    return [dict(zip(given, values, strict=True)) for values in itertools.product(*given.values())]

"""The work behind `sparkit compose`: recipes from options, runs with a progress bar, the documents."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from sparkit.cli.environment import environment
from sparkit.compose import Composition, assemble
from sparkit.experiments import Run, decode, with_plain
from sparkit.prompts import Prompt, bundled, read_prompts
from sparkit.recipe import Recipe
from sparkit.reports import comparison
from sparkit.rounds import Round
from sparkit.traces import TraceHeader, write_trace


@dataclass(frozen=True, slots=True)
class Done:
    """A finished (or interrupted) experiment."""

    document: dict[str, Any]
    runs: list[Run]


def bias(text: str) -> tuple[int, float]:
    """ID=BIAS as numbers."""
    token, _, value = text.partition("=")
    try:
        return int(token), float(value)
    except ValueError as error:
        raise ValueError(f"logit bias {text!r}: expected TOKEN_ID=BIAS, such as 42=-5") from error


def changed(recipe: Recipe, values: dict[str, Any]) -> Recipe:
    """The recipe with every value that was given."""
    return replace(recipe, **{name: value for name, value in values.items() if value is not None})


def chosen_prompts(typed: list[str] | None, path: Path | None, domain: str, num: int) -> list[Prompt]:
    """Prompts typed, from a file, or bundled ones."""
    if typed:
        for text in typed:
            if not text.strip():
                raise ValueError("--prompt '': the prompt is empty; give some text")
            if any("\udc80" <= c <= "\udcff" for c in text):
                raise ValueError("--prompt is not UTF-8; give UTF-8 text")
        return [Prompt(str(i), "prompt", text) for i, text in enumerate(typed)]
    return read_prompts(path) if path is not None else bundled(domain, num)


def run(
    recipes: Sequence[Recipe], prompts: Sequence[Prompt], out: Console, trace: Path | None, top_tokens: int
) -> Done:
    """Assembles, decodes and measures; a trace of the first run, `top_tokens` a law, is written on the way."""
    with out.status("loading"):
        compositions = [assemble(recipe) for recipe in recipes]
    for composition in compositions:
        _check_prompts(composition, prompts)
    runs = with_plain(compositions, top_tokens if trace is not None else 0)
    with _bar(out, runs, prompts) as advance:
        is_complete = decode(runs, prompts, advance)
    document = comparison.document(runs, environment(recipes[0].device), is_complete=is_complete)
    if trace is not None:
        _write_trace(trace, runs[0])
    return Done(document, runs)


def _check_prompts(composition: Composition, prompts: Sequence[Prompt]) -> None:
    limit = composition.parts.target.max_positions
    for prompt in prompts:
        num = len(composition.encode(prompt.text))
        if num >= limit:
            raise ValueError(
                f"prompt {prompt.id!r} has {num} tokens and the context of {composition.recipe.target!r} is {limit}; "
                "shorten it"
            )


@contextmanager
def _bar(out: Console, runs: Sequence[Run], prompts: Sequence[Prompt]) -> Iterator[Any]:
    num_runs = len(runs) + len({id(run.plain) for run in runs})
    with Progress(console=out, transient=True) as progress:
        task = progress.add_task("decoding", total=num_runs * len(prompts))

        def advance(_: Run, one: Round) -> None:
            if one.stop_reason is not None:
                progress.advance(task)

        yield advance


def _write_trace(path: Path, run: Run) -> None:
    tokenizer, rounds = run.composition.tokenizer, run.rounds
    ids = {i for one in rounds for i in (one.anchor, one.next_token, *one.drafted, *(t.id for t in one.tokens))}
    ids |= {i for one in rounds for top in one.top for law in (top.draft, top.target or ()) for i, _ in law}
    pieces = {i: tokenizer.decode([i]) if tokenizer is not None else str(i) for i in sorted(ids)}
    rows = {
        f.id: {"label": f.request.label, "prompt": p.text, "seed": f.request.seed}
        for done in run.domains.values()
        for f, p in zip(done.finished, done.prompts, strict=True)
    }
    named = {k: v for k, v in run.composition.names.items() if k in ("head", "confidence", "calibrator")}
    recipe = {**asdict(run.composition.recipe), **named}
    capacity = run.composition.parts.capacity.to_json()
    header = TraceHeader(recipe, run.composition.recipe.gamma, rows, pieces, capacity, run.composition.recipe.seed)
    write_trace(path, header, rounds)

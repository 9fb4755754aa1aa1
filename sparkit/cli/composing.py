"""The work behind `sparkit compose`: recipes from options, runs with a progress bar, the table and coloured texts."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from sparkit.cli.environment import environment
from sparkit.compose import Composition, assemble
from sparkit.curves import mispriced
from sparkit.experiments import Run, decode, with_plain
from sparkit.prompts import Prompt, bundled, read_prompts
from sparkit.recipe import Recipe
from sparkit.reports import comparison
from sparkit.rounds import Round
from sparkit.traces import TraceHeader, write_trace

GRID = ("target", "confidence", "calibrator", "gamma", "temperature", "capacity", "seed")  # beside parts and batch
STYLES = {"draft": "green", "correction": "bold red", "bonus": "bold cyan", "plain": "yellow"}


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


def show(done: Done, out: Console, num_texts: int) -> None:
    """The comparison, and some texts with their tokens told apart."""
    rows = done.document["runs"]
    names = names_of(rows)
    for each in tables(rows):
        out.print(each)
    out.print("[dim]tau: tokens a round, bonus included; plain: the same target without drafts, same process[/]")
    for name, row in zip(names, rows, strict=True):
        if row["speedup"] is not None and row["speedup"] < 1:
            out.print(f"[yellow]{name} on {row['domain']} is slower than plain decoding ({row['speedup']:.2f} x)[/]")
    for warning in mispriced_curves(done.runs):
        out.print(f"[yellow]{warning}[/]")
    if not done.document["is_complete"]:
        out.print("[yellow]interrupted: the numbers are those of what was decoded until then[/]")
    for name in sorted({name for name, row in zip(names, rows, strict=True) if not row["lossless"]}):
        out.print(f"[bold red]{name} is declared LOSSY: its output is not the target's[/]")
    for text in [t for t in done.document["texts"] if t["run"] == 0][:num_texts]:
        out.print()
        out.print(coloured(text))
    if num_texts:
        out.print(legend())


def mispriced_curves(runs: Sequence[Run]) -> list[str]:
    """One sentence for every kept curve that this process's plain steps contradict."""
    found = (
        mispriced(run.composition.recipe, run.composition.parts.capacity, run.plain.rounds) for run in runs if run.plain
    )
    return list(dict.fromkeys(warning for warning in found if warning))


def names_of(rows: Sequence[dict[str, Any]]) -> list[str]:
    """A run in a few words, a row; of what a grid is made of, whatever is not the same in all."""
    recipes = [row["recipe"] for row in rows]
    varied = [key for key in GRID if len({str(recipe.get(key)) for recipe in recipes}) > 1]
    return [", ".join([_parts(recipe), *(f"{key} {recipe.get(key)}" for key in varied)]) for recipe in recipes]


def _parts(recipe: dict[str, Any]) -> str:
    head = f"-{recipe['head']}" if recipe.get("head") not in (None, "none") else ""
    verifier = "" if recipe["verifier"] == "rejection" else f" {recipe['verifier']}"
    return f"{recipe['drafter']}{head} {recipe['scheduler']}{verifier}"


def tables(rows: Sequence[dict[str, Any]]) -> list[Table]:
    """One table a run, a line a domain; plain decoding stands beside every line."""
    firsts = [i for i, row in enumerate(rows) if i == 0 or rows[i - 1]["domain"] == comparison.MACRO]
    names = names_of(rows)
    return [table(names[i], rows[i:j]) for i, j in zip(firsts, [*firsts[1:], len(rows)], strict=False)]


def table(name: str, rows: Sequence[dict[str, Any]]) -> Table:
    """The lines of one run."""
    title = f"{name}, batch {rows[0]['batch']}"
    out = Table(
        title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True
    )
    for heading in ("domain", "tau", "95%", "verified", "ms/token", "plain", "speedup", "overhead", "ECE"):
        out.add_column(heading, justify="left" if heading == "domain" else "right", no_wrap=True)
    for row in rows:
        speed = row["speedup"]
        style = "red" if speed is not None and speed < 1 else "green"
        out.add_row(
            row["domain"], _number(row["tau"]), _interval(row["tau_interval"]), _number(row["mean_verify_len"]),
            _milli(row["seconds_per_token"]), _milli(row["plain_seconds_per_token"]),
            f"[{style}]{speed:.2f} x[/]" if speed is not None else "-", _share(row), _percent(row["ece"]),
            style="bold" if row["domain"] == comparison.MACRO else "",
        )  # fmt: skip
    return out


def _share(row: dict[str, Any]) -> str:
    phases = [row[f"{phase}_seconds"] for phase in ("draft", "schedule", "verify", "overhead")]
    if any(value is None for value in phases) or not sum(phases):
        return "-"
    return f"{(phases[1] + phases[3]) / sum(phases):.0%}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _milli(value: float | None) -> str:
    return "-" if value is None else f"{1e3 * value:.2f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _interval(value: Sequence[float] | None) -> str:
    return "-" if value is None else f"{value[0]:.2f}..{value[1]:.2f}"


def coloured(text: dict[str, Any]) -> Text:
    """Prompt and answer; corrections and bonuses are underlined too, for screens without colour."""
    out = Text(text["prompt"].strip() + "\n", style="dim")
    for token in text["tokens"]:
        line = "" if token["origin"] == "draft" else " underline"
        out.append(token["text"], style=STYLES[token["origin"]] + line)
    return out.append(f"  [{text['stop_reason']}]", style="dim")


def legend() -> Text:
    """What the colours mean."""
    out = Text("\n")
    meanings = {"draft": "accepted draft", "correction": "correction", "bonus": "bonus", "plain": "plain"}
    for origin, meaning in meanings.items():
        out.append(meaning, style=STYLES[origin] + ("" if origin == "draft" else " underline")).append("  ")
    return out

"""What `sparkit compose` shows: a table a run with plain decoding beside every line, and texts told apart by colour."""

import re
from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sparkit.cli.composing import Done
from sparkit.curves import mispriced
from sparkit.experiments import Run
from sparkit.reports import comparison

GRID = ("target", "confidence", "calibrator", "gamma", "temperature", "capacity", "seed")  # beside parts and batch
STYLES = {"draft": "green", "correction": "bold red", "bonus": "bold cyan", "plain": "yellow"}


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
    """A run in a few words, a row; and whatever tells it from another run of the same parts.

    (Between drafters the fitted calibration differs by itself: that says nothing.)
    """
    recipes = [row["recipe"] for row in rows]
    alike: dict[str, list[dict[str, Any]]] = {}
    for recipe in recipes:
        alike.setdefault(_parts(recipe), []).append(recipe)
    varied = [key for key in GRID if any(len({str(one.get(key)) for one in same}) > 1 for same in alike.values())]
    return [", ".join([_parts(one), *(f"{key} {_short(one.get(key))}" for key in varied)]) for one in recipes]


def _short(value: object) -> str:
    """A value without the folders of its paths."""
    return re.sub(r"[^=,\s]*/", "", str(value))


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

"""Verdicts as tables for people: a counterexample with its two laws side by side, the paper's example, the matrix."""

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sparkit.proofs.paper import PaperRow, thetas

if TYPE_CHECKING:
    from rich.table import Table


def _table(title: str, *columns: str) -> "Table":
    from rich.table import Table

    return Table(*columns, title=title, title_justify="left", title_style="bold", pad_edge=False, box=None)


def tables_of(shown: dict[str, Any]) -> list["Table"]:
    """A counterexample: the world, then the laws."""
    world = _table("smallest counterexample found", "", "after", "values")
    if shown["target"] is None:
        world.add_row("weights", "", f"of the classes above, drawn with seed {shown['seed']}")
    for name, table in _world(shown):
        for before, values in table.items():
            world.add_row(name, before or "any", "  ".join(values))
    world.add_row("rounds/s", "", "  ".join(f"{rate:.4g}" for rate in shown["rounds_per_second"]))
    sizes = ("requests", "gamma", "horizon", "max_new_tokens", "token_budget")
    world.add_row("sizes", "", ", ".join(f"{name} {shown[name]}" for name in sizes))
    world.add_row("sampling", "", ", ".join(f"{name} {value}" for name, value in shown["sampling"].items()))
    laws = _table(f"laws: total variation {shown['total_variation']:.6g}", "tokens", "target", "measured", "difference")
    for law in sorted(shown["laws"], key=lambda law: -abs(law["target"] - law["measured"]))[:16]:
        laws.add_row(*_law_row(law))
    return [world, laws]


def _world(shown: dict[str, Any]) -> list[tuple[str, dict[str, list[str]]]]:
    named = [("p_target", shown["target"] or {})]
    for name, key in (("p_draft", "draft"), ("confidence", "confidence")):
        named += [(f"{name} {k}", table) for k, table in enumerate(shown[key] or (), 1)]
    return named


def _law_row(law: dict[str, Any]) -> tuple[str, ...]:
    tokens = " | ".join(" ".join(map(str, text)) for text in law["tokens"])
    difference = law["measured"] - law["target"]
    return tokens, f"{law['target']:.6f}", f"{law['measured']:.6f}", f"{difference:+.6f}"


def theta_table() -> "Table":
    """Theta along the admission path, the two values of c_2."""
    table = _table("appendix A: throughput by verify_len", "x_1", "c_2", "Theta_0", "Theta_1", "Theta_2")
    for token, second in (("A", 0.9), ("B", 0.0)):
        values = [f"{theta:.4g}" for theta in thetas(second)]
        if second == 0.0:
            values.append(f"{1.8 * 0.45:.4g} (a_2 = 0: no candidate)")
        table.add_row(token, str(second), *values)
    return table


def appendix_table(rows: list[PaperRow]) -> "Table":
    """The law of the first token after the anchor, for every scheduler."""
    table = _table("law of the first token after the anchor; target 7/10, 3/10", "verifier", "scheduler", "A", "B", "")
    for row in rows:
        law = [str(p) if isinstance(p, Fraction) else f"{p:.15g}" for p in row.law]
        table.add_row(row.verifier, row.scheduler, *law, "[green]exact[/]" if row.is_lossless else "[red]LOSSY[/]")
    return table


def matrix_table(runs: list[dict[str, Any]]) -> "Table":
    """One line a drafter, confidence and calibrator; a column a verifier, with one mark a scheduler."""
    cells = {_names(run["recipe"]): "[green]·[/]" if run["lossless"] else "[red]x[/]" for run in runs}
    schedulers, verifiers = (sorted({run["recipe"][kind] for run in runs}) for kind in ("scheduler", "verifier"))
    table = _table(f"{len(runs)} compositions", "drafter", "confidence", "calibrator", *verifiers)
    for line in dict.fromkeys(names[:3] for names in cells):
        marks = ["".join(cells.get((*line, s, v), " ") for s in schedulers) for v in verifiers]
        table.add_row(*line, *marks)
    return table


def _names(recipe: dict[str, Any]) -> tuple[str, ...]:
    drafter = recipe["drafter"] if recipe["head"] is None else f"{recipe['drafter']} {recipe['head']}"
    return drafter, recipe["confidence"] or "trained", recipe["calibrator"], recipe["scheduler"], recipe["verifier"]


def matrix_summary(document: dict[str, Any]) -> list[str]:
    """How many were exact, and each that ought to have been and was not."""
    runs = document["runs"]
    ought = [run for run in runs if run["declared_lossless"]]
    wrong = [run for run in ought if not run["lossless"]]
    lossy = [run for run in runs if not run["declared_lossless"]]
    caught = sum(not run["lossless"] for run in lossy)
    word = "" if document["is_complete"] else "[yellow]not complete[/]: "
    schedulers = sorted({run["recipe"]["scheduler"] for run in runs})
    lines = [
        f"· exact, x lossy; the marks of a cell are the schedulers {', '.join(schedulers)}",
        f"{word}{len(runs)} of {document['num_compositions']} compositions in {document['seconds']:.0f} s",
        f"declared lossless: {len(ought)}, largest total variation {document['max_total_variation']:.2g}",
        f"declared lossy: {len(lossy)}, of which {caught} measured lossy in these worlds",
    ]
    return lines + [f"[red]LOSSY[/] though declared lossless: {', '.join(_names(run['recipe']))}" for run in wrong]

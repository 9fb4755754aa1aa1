"""Verdicts as tables for people: a counterexample with its two laws side by side, the paper's example, the matrix."""

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sparkit.proofs.paper import PaperRow, thetas
from sparkit.proofs.prove import counterexample
from sparkit.proofs.search import Measured

if TYPE_CHECKING:
    from rich.table import Table


def _table(title: str, *columns: str) -> "Table":
    from rich.table import Table

    return Table(*columns, title=title, title_justify="left", title_style="bold", pad_edge=False, box=None)


def tables_of(found: Measured) -> list["Table"]:
    """A counterexample: the world, then the laws."""
    shown = counterexample(found)
    world = _table("smallest counterexample found", "", "after token", "values")
    for previous, row in enumerate(shown["target"]):
        world.add_row("p_target", str(previous), "  ".join(row))
    for k, rows in enumerate(shown["draft"]):
        for previous, row in enumerate(rows):
            world.add_row(f"p_draft {k + 1}", str(previous), "  ".join(row))
    for k, values in enumerate(shown["confidence"]):
        world.add_row(f"confidence {k + 1}", "0, 1, ...", "  ".join(values))
    world.add_row("rounds/s", "", "  ".join(f"{rate:.4g}" for rate in shown["rounds_per_second"]))
    sizes = ("requests", "gamma", "horizon", "max_new_tokens", "token_budget")
    world.add_row("sizes", "", ", ".join(f"{name} {shown[name]}" for name in sizes))
    world.add_row("sampling", "", ", ".join(f"{name} {value}" for name, value in shown["sampling"].items()))
    laws = _table(f"laws: total variation {shown['total_variation']:.6g}", "tokens", "target", "measured", "difference")
    for law in sorted(shown["laws"], key=lambda law: -abs(law["target"] - law["measured"]))[:16]:
        laws.add_row(*_law_row(law))
    return [world, laws]


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


def matrix_table(verdicts: list[Any]) -> "Table":
    """One line a composition."""
    kinds = ("drafter", "head", "confidence", "calibrator", "scheduler", "verifier")
    columns = (*kinds, "declared", "total variation", "")
    table = _table(f"{len(verdicts)} compositions", *columns)
    for verdict in verdicts:
        recipe = verdict.recipe
        names = (recipe.drafter, recipe.head, recipe.confidence, recipe.calibrator, recipe.scheduler, recipe.verifier)
        table.add_row(
            *(name or "-" for name in names),
            "lossless" if verdict.declared_lossless else "lossy",
            f"{verdict.max_total_variation:.2g}",
            "[green]exact[/]" if verdict.is_lossless else "[red]LOSSY[/]",
        )
    return table

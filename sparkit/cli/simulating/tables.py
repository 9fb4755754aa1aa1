"""What `sparkit simulate` prints."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from sparkit.cli.simulating.options import BASELINE


def show(document: dict[str, Any], out: Console) -> None:
    """Tables for people."""
    {"drift": _show_drift, "real": _show_real}.get(document["kind"], _show_sweep)(document, out)


def _show_sweep(document: dict[str, Any], out: Console) -> None:
    titles = ("policy", "users" if document["kind"] == "closed" else "requests/s", "tokens/s", "one user", "p10..p90")
    table = _table(f"{document['source']}; {document['capacity']['source']}", (*titles, "budget", "tau", "undrafted"))
    for row in document["runs"]:
        spread = "-" if row["user_p10"] is None else f"{row['user_p10']:.1f}..{row['user_p90']:.1f}"
        load = row["users"] if row["users"] is not None else row["rate"]
        numbers = [_number(row[key]) for key in ("tokens_per_second", "user_tokens_per_second")]
        shares = (_number(row["budget"]), _number(row["tau"]), f"{row['undrafted_share']:.0%}")
        table.add_row(row["policy"], f"{load:g}", *numbers, spread, *shares)
    out.print(table)
    for one in document["frontiers"]:
        found = [(g["throughput_ratio"], g["speed_ratio"]) for g in one["gains"]]
        speeds = [f"{100 * s - 100:+.0f}%" for _, s in found if s is not None]
        throughputs = [f"{100 * t - 100:+.0f}%" for t, _ in found if t is not None]
        word = {True: "outside", False: "NOT everywhere outside", None: "nowhere comparable with"}[one["is_outside"]]
        out.print(f"{one['policy']}: {word} {BASELINE}; speed at its throughputs {' '.join(speeds) or '-'}")
        out.print(f"    throughput at its speeds {' '.join(throughputs) or '-'}  [dim](paper: +60..85%, +51%)[/]")
    for one in document["regrets"]:
        out.print(f"{one['policy']} at R = {one['num_requests']}: {one['attained']:.1%} of the reference's throughput")


def _show_drift(document: dict[str, Any], out: Console) -> None:
    table = _table(f"{document['source']}: ECE of survival", ("policy", "phase", "from round", "ECE", "perfect"))
    for row in document["windows"]:
        numbers = (f"{row['ece']:.2%}", f"{row['ece_floor']:.2%}")
        table.add_row(row["policy"], row["phase"], str(row["first_round"]), *numbers)
    out.print(table)
    for one in document["fed_300_rounds"]:
        text = f"{one['ece']:.2%} (perfect predictor {one['ece_floor']:.2%})"
        out.print(f"online, fed 300 rounds of chat by {one['learned_from']}, then frozen: {text}")


def _show_real(document: dict[str, Any], out: Console) -> None:
    titles = ("policy", "users", "tokens/s", "over plain", "over fixed", "budget", "tau")
    table = _table(f"real engine, {document['environment']['device_name']}", titles)
    for row in document["runs"]:
        keys = ("tokens_per_second", "over_plain", "over_fixed", "budget", "tau")
        table.add_row(row["policy"], str(row["users"]), *(_number(row[key]) for key in keys))
    out.print(table)


def _table(title: str, headings: Sequence[str]) -> Table:
    table = Table(title=title)
    for heading in headings:
        table.add_column(heading, justify="left" if heading in ("policy", "phase") else "right")
    return table


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"

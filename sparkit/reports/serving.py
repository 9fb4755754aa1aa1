"""Serving under load as pictures and CSV: the frontier, the budget against load, regret, errors while traffic changes.

plot_frontier({"dspark greedy": outcomes}, Path("frontier.png"), "roofline")
"""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sparkit.files import writing
from sparkit.serving.drift import Window
from sparkit.serving.frontier import line_of
from sparkit.serving.outcome import Outcome

LISTS = ("user_percentiles", "first_token_percentiles")


def plot_frontier(sweeps: Mapping[str, Sequence[Outcome]], path: Path, note: str) -> None:
    """Throughput against speed per user, and target tokens per request against concurrency; a line a policy."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.6), layout="constrained")
    frontier, budget = figure.subplots(1, 2)
    for name, outcomes in sweeps.items():
        _frontier(frontier, name, outcomes)
        _budget(budget, name, outcomes)
    frontier.set(xlabel="tokens/s of one user", ylabel="tokens/s of all users", title="frontier", ylim=(0, None))
    budget.set(xlabel="requests decoding", ylabel="target tokens a request and step", title="verification budget")
    budget.set_xscale("log", base=2)
    budget.set_ylim(0, None)
    frontier.legend(fontsize=8)
    figure.suptitle(note, fontsize=9)
    _save(figure, path)


def _frontier(axes: Any, name: str, outcomes: Sequence[Outcome]) -> None:
    points = [(one.user_tokens_per_second, one.tokens_per_second) for one in outcomes]
    (line,) = axes.plot(*_columns(line_of(outcomes)), linewidth=1.2, label=name)
    axes.scatter(*_columns([(s, t) for s, t in points if s is not None]), s=14, color=line.get_color())


def _budget(axes: Any, name: str, outcomes: Sequence[Outcome]) -> None:
    points = sorted((one.mean_requests, one.budget) for one in outcomes if one.budget is not None)
    axes.plot(*_columns([(r, b) for r, b in points if r > 0]), marker="o", markersize=4, linewidth=1.2, label=name)


def _columns(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def plot_drift(windows: Sequence[Window], path: Path, note: str) -> None:
    """ECE over time with the perfect predictor's beside it; the phases are marked."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    names = list(dict.fromkeys(one.policy for one in windows))
    for name in names:
        rows = [one for one in windows if one.policy == name]
        axes.plot([r.first_round + r.num_rounds / 2 for r in rows], [100 * r.ece for r in rows], marker="o", label=name)
    rows = [one for one in windows if one.policy == names[0]]
    floor = [100 * r.ece_floor for r in rows]
    axes.plot([r.first_round + r.num_rounds / 2 for r in rows], floor, "k--", linewidth=0.8, label="perfect predictor")
    for phase in dict.fromkeys(one.phase for one in rows):
        first = min(one.first_round for one in rows if one.phase == phase)
        axes.axvline(first, color="grey", linewidth=0.6)
        axes.text(first, 1.0, f" {phase}", transform=axes.get_xaxis_transform(), va="top", fontsize=9)
    axes.set(xlabel="rounds", ylabel="ECE of survival, mean over positions, %", ylim=(0, None))
    axes.legend(fontsize=8)
    axes.set_title(note, fontsize=9)
    _save(figure, path)


def _save(figure: Any, path: Path) -> None:
    kind = path.suffix[1:] or "png"
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=150, format=kind)
    with writing(path) as out:
        out.write(buffer.getvalue())


def row_of(outcome: Outcome) -> dict[str, Any]:
    """One line of the CSV and of the JSON: percentiles as columns of their own."""
    row = {key: value for key, value in asdict(outcome).items() if key not in LISTS}
    for prefix, values in (("user", outcome.user_percentiles), ("first_token", outcome.first_token_percentiles)):
        for share, value in zip(("p10", "p50", "p90"), values or (None, None, None), strict=True):
            row[f"{prefix}_{share}"] = value
    return row


def write_csv(outcomes: Sequence[Outcome], path: Path) -> None:
    """A header and one line an outcome; what is unknown stays empty."""
    rows = [row_of(one) for one in outcomes]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    with writing(path) as out:
        out.write(text.getvalue().encode())

"""Reliability diagrams: predicted survival against the share of prefixes accepted, position by position.

plot_reliability(records, {"raw": raw, "sts": fitted}, Path("reliability.png"))
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor

from sparkit.labels import Records
from sparkit.metrics import Reliability, auc, perfect_ece, reliability
from sparkit.survival import survival_of

MAX_COLUMNS = 4


def plot_reliability(records: Records, confidences: Mapping[str, Float[Tensor, "N gamma"]], path: Path) -> None:
    """One panel a position; each line a set of confidences, with its ECE; the title gives the perfect floor and AUC."""
    from matplotlib.figure import Figure

    columns = min(records.gamma, MAX_COLUMNS)
    rows = -(-records.gamma // columns)
    figure = Figure(figsize=(3.2 * columns, 3.4 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).flatten()
    survivals = {name: survival_of(confidence) for name, confidence in confidences.items()}
    for position, axes in enumerate(panels[: records.gamma]):
        _panel(axes, records, survivals, position)
    for axes in panels[records.gamma :]:
        axes.set_visible(False)
    figure.supxlabel("predicted survival")
    figure.supylabel("prefix accepted")
    figure.savefig(path, dpi=150)


def _panel(axes: Any, records: Records, survivals: Mapping[str, Float[Tensor, "N gamma"]], position: int) -> None:
    rows = records.verify_len > position
    outcome = records.accepted[rows] > position
    axes.plot([0, 1], [0, 1], color="grey", linewidth=0.8, linestyle="--")
    note = ""
    for name, survival in survivals.items():
        values = survival[rows, position]
        bins = reliability(values, outcome)
        label = name if bins.ece is None else f"{name}: ECE {100 * bins.ece:.1f}%"
        _line(axes, bins, label)
        note = _note(perfect_ece(values), auc(values, outcome))
    axes.set_title(f"position {position + 1}, {int(rows.sum())} rounds\n{note}", fontsize=8)
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.legend(fontsize=7, loc="upper left")


def _line(axes: Any, bins: Reliability, label: str) -> None:
    """Marks grow with their bin: three rounds at 0.9 must not look like three thousand."""
    points = [(c, y, n) for c, y, n in zip(bins.confidence, bins.outcome, bins.count, strict=True) if n]
    if points:
        x, y, count = zip(*points, strict=True)
        (line,) = axes.plot(x, y, linewidth=0.8, alpha=0.6)
        sizes = [4 + 60 * n / max(count) for n in count]
        axes.scatter(x, y, s=sizes, color=line.get_color(), label=label)


def _note(floor: float | None, area: float | None) -> str:
    floor_text = "no data" if floor is None else f"perfect predictor {100 * floor:.1f}%"
    return floor_text if area is None else f"{floor_text}, AUC {area:.2f}"

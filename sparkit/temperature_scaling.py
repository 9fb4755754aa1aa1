"""Sequential temperature scaling: one temperature a position, from left to right, by the error of the whole prefix.

c_k <- sigmoid(logit_k / T_k), T_k minimising the ECE of a_k = prod_{i<=k} c_i against "prefix up to k accepted", with
the positions before it held as fitted [DSpark section 3.2; method section 5]. The grid is even in log T; among equal
errors the temperature nearest to 1 wins. A position where nothing was rejected, nothing accepted, or fewer than
`min_rounds` were verified has no temperature of its own: it takes the one before it, and the report says so.

    fit_temperatures(records).calibration_temperatures
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from sparkit.labels import Records
from sparkit.metrics import NUM_BINS, bin_of

LOWEST, HIGHEST, NUM_TEMPERATURES = 0.1, 10.0, 121
CHUNK = 4_000_000  # grid cells computed at once


@dataclass(frozen=True, slots=True)
class Scaling:
    """Fitted temperatures; `notes` say where and why one was copied."""

    calibration_temperatures: Float[Tensor, " gamma"]
    notes: tuple[str, ...]


def fit_temperatures(
    records: Records,
    weight: Float[Tensor, " N"] | None = None,
    *,
    kept: Float[Tensor, " gamma"] | None = None,
    min_rounds: int = 30,
    min_weight: float = 0.0,
    num_temperatures: int = NUM_TEMPERATURES,
    soft: bool = False,
    smoothness: float = 0.0,
) -> Scaling:
    """Temperatures of every position.

    Args:
        records: verified rounds; for survival at k only those with verify_len >= k count.
        weight: None means 1 each; lets old rounds fade.
        kept: what a position without a temperature of its own takes; None means the one before it.
        min_rounds: fewer rounds at a position give it none,
        min_weight: nor do rounds that have faded to less than this in sum.
        num_temperatures: points of the grid.
        soft: the last step of "prefix accepted" by its label 1 - TV, which is known even one past the cut: the same
            mean with less noise, under token-wise rejection.
        smoothness: ECE that a whole e-fold away from the position before must be worth (few rounds).
    """
    logits = records.logits.double().nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
    weight = torch.ones(len(records), dtype=torch.float64) if weight is None else weight.double()
    grid = _grid(num_temperatures)
    survival = torch.ones(len(records), dtype=torch.float64)
    found, notes, last = [], [], torch.ones((), dtype=torch.float64)
    for k in range(records.gamma):
        rows, outcome = _outcomes(records, k, soft)
        note = _degenerate(records, rows, k, min_rounds)
        if float(weight[rows].sum()) < min_weight:
            note = "what was seen here has faded"
        if not note:
            errors = grid_ece(logits[rows, k], survival[rows], outcome[rows], weight[rows], grid)
            last = grid[(errors + smoothness * (grid / last).log().abs()).argmin()]
        elif kept is not None:
            last = kept[k].double()
        found.append(last)
        notes.append(note)
        survival = survival * torch.sigmoid(logits[:, k] / last)
    return Scaling(torch.stack(found), tuple(notes))


def _grid(num: int) -> Float[Tensor, " grid"]:
    grid = torch.linspace(math.log(LOWEST), math.log(HIGHEST), num, dtype=torch.float64)
    nearest_first = grid.abs().sort(stable=True).indices  # so that argmin prefers it among equals
    return grid[nearest_first].exp()


def _outcomes(records: Records, k: int, soft: bool) -> tuple[Bool[Tensor, " N"], Float[Tensor, " N"]]:
    """Which rounds know whether the prefix up to (0-based) k was accepted, and the answer."""
    rate = records.accept_rate[:, k]
    if not soft:
        return records.verify_len > k, (records.accepted > k).double()
    is_known = ((records.verify_len >= k) & ~rate.isnan()) | (records.verify_len > k)
    label = torch.where(rate.isnan(), (records.accepted > k).double(), rate.double())
    return is_known, torch.where(records.accepted >= k, label, 0.0)


def _degenerate(records: Records, rows: Bool[Tensor, " N"], k: int, min_rounds: int) -> str:
    num = int(rows.sum())
    if num < min_rounds:
        return f"{num} rounds verified it: at least {min_rounds} are needed"
    reached = (records.verify_len > k) & (records.accepted >= k)
    if not int(reached.sum()):
        return "no accepted prefix was verified here"
    accepted = int((reached & (records.accepted > k)).sum())
    if accepted == int(reached.sum()):
        return "nothing was rejected here"
    return "" if accepted else "nothing was accepted here"


def grid_ece(
    logits: Float[Tensor, " N"],
    before: Float[Tensor, " N"],
    outcome: Float[Tensor, " N"],
    weight: Float[Tensor, " N"],
    grid: Float[Tensor, " grid"],
) -> Float[Tensor, " grid"]:
    """ECE of before * sigmoid(logits / T) for every T: a bin's error is |sum of w (outcome - prediction)|."""
    chunk = max(1, CHUNK // max(1, len(logits)))
    return torch.cat([_errors(logits, before, outcome, weight, part) for part in torch.split(grid, chunk)])


def _errors(
    logits: Float[Tensor, " N"],
    before: Float[Tensor, " N"],
    outcome: Float[Tensor, " N"],
    weight: Float[Tensor, " N"],
    grid: Float[Tensor, " part"],
) -> Float[Tensor, " part"]:
    predicted = before * torch.sigmoid(logits / grid[:, None])
    gaps = weight * (outcome - predicted)
    sums = gaps.new_zeros(len(grid), NUM_BINS).scatter_add(1, bin_of(predicted), gaps)
    return sums.abs().sum(-1) / weight.sum()

"""Every statistical test of this project ends in a p-value that is compared with one constant.

A correct program fails one such test once in 1 / FAILURE_RATE fresh seeds; with the fixed seeds of the suite it
never does. A sample too small to reject anything is refused, since its test could not fail.

    >>> goodness_of_fit([503, 497], [0.5, 0.5]) > FAILURE_RATE
    True
"""

from collections.abc import Sequence

import torch

FAILURE_RATE = 1e-6
MIN_EXPECTED = 5.0  # the usual rule for the chi-square approximation


def goodness_of_fit(counts: Sequence[int], law: Sequence[float]) -> float:
    """The chi-square p-value of `counts` under `law`; a count where the law has no mass gives 0."""
    observed = torch.as_tensor(counts, dtype=torch.float64)
    expected = torch.as_tensor(law, dtype=torch.float64) * observed.sum()
    if bool((observed[expected == 0] > 0).any()):
        return 0.0
    observed, expected = _pooled(observed, expected)
    statistic = ((observed - expected).square() / expected).sum()
    return float(torch.special.gammaincc(torch.tensor((len(expected) - 1) / 2.0).double(), statistic / 2))


def _pooled(observed: torch.Tensor, expected: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Put all cells with a small expectation into one; refuse what is left when it cannot reject."""
    small = expected < MIN_EXPECTED
    cells = [(observed[~small], expected[~small])]
    if expected[small].sum() > 0:
        cells.append((observed[small].sum().view(1), expected[small].sum().view(1)))
    observed, expected = (torch.cat(parts) for parts in zip(*cells, strict=True))
    if len(expected) < 2 or expected.max() < 100:
        raise ValueError(f"{int(observed.sum())} samples over {len(expected)} cells cannot reject anything: draw more")
    return observed, expected


def assert_law(counts: Sequence[int], law: Sequence[float]) -> None:
    """Fail when the counts would be this far from the law less than once in 1 / FAILURE_RATE samples."""
    p_value = goodness_of_fit(counts, law)
    assert p_value > FAILURE_RATE, f"counts {list(counts)} under law {list(law)}: p = {p_value:.3g}"

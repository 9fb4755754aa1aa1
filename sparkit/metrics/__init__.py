"""Numbers over rounds: acceptance by position, tau with its interval, and how honest the confidences were.

Definitions (design section 5): tau = tokens emitted by rounds / request-rounds, a round cut by a stop counting what it
emitted, the prefill's own token left out. Rates at position k count only rounds with verify_len >= k and are None
below 30 of them. ece and auc: survival against "prefix k accepted", 10 equal bins, count-weighted over positions.
Pure readers of `Round`; nothing here touches a model.

    measure(rounds, gamma=7).tau
"""

from sparkit.metrics.honesty import NUM_BINS, Reliability, auc, bin_of, ece, perfect_ece, reliability
from sparkit.metrics.intervals import bootstrap_interval, bootstrap_ratios, macro_interval, percentile_interval
from sparkit.metrics.measures import Measures, measure, tau_groups
from sparkit.metrics.outcomes import MIN_ROUNDS, Outcomes, conditional_acceptance, prefix_acceptance

__all__ = [
    "MIN_ROUNDS",
    "NUM_BINS",
    "Measures",
    "Outcomes",
    "Reliability",
    "auc",
    "bin_of",
    "bootstrap_interval",
    "bootstrap_ratios",
    "conditional_acceptance",
    "ece",
    "macro_interval",
    "measure",
    "percentile_interval",
    "perfect_ece",
    "prefix_acceptance",
    "reliability",
    "tau_groups",
]

"""Rules that pick verify_len for every request; importing the package registers them."""

from sparkit.schedulers import delayed, fixed, foresight, greedy, lookahead, threshold

__all__ = ["delayed", "fixed", "foresight", "greedy", "lookahead", "threshold"]

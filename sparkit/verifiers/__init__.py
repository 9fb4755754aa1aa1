"""Rules that accept a prefix of a draft and draw the next token; importing the package registers them."""

from sparkit.verifiers import block, coupled, lenient, rejection

__all__ = ["block", "coupled", "lenient", "rejection"]

"""Cheap models that propose a block, in parallel, token by token or by look-up; importing registers them."""

from sparkit.drafters import dflash, dspark, eagle3, mtp, ngram, small_lm, table

__all__ = ["dflash", "dspark", "eagle3", "mtp", "ngram", "small_lm", "table"]

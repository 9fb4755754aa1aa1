"""Cheap models that propose a block: parallel, autoregressive, semi-autoregressive, lookup; importing registers them."""

from sparkit.drafters import dflash, dspark, eagle3, mtp

__all__ = ["dflash", "dspark", "eagle3", "mtp"]

"""Corrections of raw confidences; importing the package registers them."""

from sparkit.calibrators import identity, sts

__all__ = ["identity", "sts"]

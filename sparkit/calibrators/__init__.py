"""Corrections of raw confidences; importing the package registers them."""

from sparkit.calibrators import identity, isotonic, online, platt, sts

__all__ = ["identity", "isotonic", "online", "platt", "sts"]

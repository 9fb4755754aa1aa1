"""Estimates of what will be accepted, from what is known before a token is drawn; importing registers them."""

from sparkit.confidences import head

__all__ = ["head"]

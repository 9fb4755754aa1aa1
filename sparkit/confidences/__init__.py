"""Estimates of what will be accepted, from what is known before a token is drawn; importing registers them."""

from sparkit.confidences import head, max_prob, position, recurrent, table, token_prob

__all__ = ["head", "max_prob", "position", "recurrent", "table", "token_prob"]

"""Serving without a model: recorded blocks are decided again, one by one (replay) or under load (simulation)."""

"""Exact laws: the engine that ships, run over every branch of its random decisions, and compared with its target."""

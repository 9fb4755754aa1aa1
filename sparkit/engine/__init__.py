"""One engine for every composition: requests in, rounds out."""

from sparkit.engine.engine import Engine
from sparkit.engine.parts import Memories, Parts
from sparkit.engine.requests import Finished, Request
from sparkit.engine.snapshot import Snapshot, restore, snapshot

__all__ = ["Engine", "Finished", "Memories", "Parts", "Request", "Snapshot", "restore", "snapshot"]

"""What the keys w, s and S leave on disk: a trace, or a screen as SVG or text; nothing is written over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from textual.message import Message

from sparkit_tui.messages import Noted
from sparkit_tui.worker import Source


def save_screen(folder: Path, suffix: str, text: str) -> Noted:
    """Writes a picture of the screen and says where; a full or read-only disk is told, too."""
    path = free_path(folder, "sparkit-screen", suffix)
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        return Noted(f"not saved: {error}", is_warning=True)
    return Noted(f"saved {path}")


def save_trace(source: Source, folder: Path, post: Callable[[Message], object]) -> tuple[()]:
    """In the worker's thread, between two rounds; an error there becomes a panel."""
    path = free_path(folder, "sparkit-trace", "jsonl")
    source.save(path)
    post(Noted(f"saved {path}: replay it with `sparkit tui --replay {path}`"))
    return ()


def free_path(folder: Path, stem: str, suffix: str) -> Path:
    """STEM-1.SUFFIX, or the first number that is free."""
    return next(p for i in range(1, 10_000) if not (p := folder / f"{stem}-{i}.{suffix}").exists())

"""The keys that work on every screen, and all keys as commands of the palette."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

from sparkit_tui.screens.pages import PAGES

KEYS = (
    *(Binding(str(i), f"page('{page.mode}')", f"screen {page.title_text}") for i, page in enumerate(PAGES, start=1)),
    Binding("space", "pause", "pause or go on"),
    Binding("full_stop", "step", "one round"),
    Binding("plus,equals_sign", "speed(1)", "faster"),
    Binding("minus", "speed(-1)", "slower"),
    Binding("left_square_bracket", "move('request', -1)", "previous request"),
    Binding("right_square_bracket", "move('request', 1)", "next request"),
    Binding("question_mark", "explain", "explain every number"),
    Binding("c", "source", "source of the part"),
    Binding("r", "restart", "restart with the same seed"),
    Binding("e", "edit", "change the composition"),
    Binding("p", "prompt", "type a prompt"),
    Binding("w", "save_trace", "save a trace"),
    Binding("s", "save_screenshot", "save an SVG screenshot"),
    Binding("S", "save_text", "save a text screenshot"),
    Binding("t", "toggle_theme", "light or dark"),
    Binding("q", "quit", "quit"),
)
SIGNS = {
    "full_stop": ".", "plus,equals_sign": "+", "minus": "-", "left_square_bracket": "[", "question_mark": "?",
    "right_square_bracket": "]", "up": "↑", "down": "↓", "left": "←", "right": "→",
}  # fmt: skip


def commands(app: App[None], screen: Screen[object], bindings: Iterable[BindingType]) -> Iterable[SystemCommand]:
    """A command for each binding; a screen's own action runs there, though the palette lay over it."""
    for binding in bindings:
        if isinstance(binding, Binding):
            of_screen = binding.action.startswith("screen.")
            action = binding.action.removeprefix("screen.").removeprefix("app.")
            run = partial(app.run_action, action, default_namespace=screen if of_screen else app)
            sign = SIGNS.get(binding.key, binding.key)
            yield SystemCommand(binding.description.capitalize(), f"key {sign}", partial(app.call_after_refresh, run))

"""The controls: every part and number of the composition, typed or cycled with the arrows, applied together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Label, Static

from sparkit_tui.settings import AUTO, HOT, Settings, parse

ROWS = (
    ("target", "drafter", "head", "confidence", "calibrator", "scheduler", "verifier", "capacity"),
    ("gamma", "temperature", "domain", "batch", "seed", "max_new_tokens"),
)
CHOICES: Mapping[str, tuple[str, ...]] = {
    "domain": ("all", "math", "code", "chat"),
    "capacity": ("measured", "flat", "roofline"),
    "temperature": ("0.0", "0.5", "0.7", "1.0"),
    "batch": ("1", "2", "4", "8", "16", "32"),
}


class Controls(ModalScreen[Settings | None]):
    """Enter applies, escape leaves everything as it is."""

    DEFAULT_CSS = """
    Controls { align: center middle; background: $background 60%; }
    Controls #controls {
        width: 90%; max-width: 110; height: auto; max-height: 95%; border: round $primary;
        background: $surface; padding: 0 1;
    }
    Controls Horizontal { height: auto; }
    Controls .column { width: 1fr; height: auto; }
    Controls .row { height: 1; width: 1fr; }
    Controls Label { width: 16; color: $muted; }
    Controls Input { width: 1fr; height: 1; border: none; padding: 0 1; background: $panel; }
    Controls Input:focus { background: $primary 30%; }
    Controls #known, Controls #mistake { height: auto; max-height: 4; }
    Controls #mistake { color: $red; text-style: bold; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "leave as it is"),
        Binding("up", "cycle(-1)", "previous choice", priority=True),
        Binding("down", "cycle(1)", "next choice", priority=True),
    ]

    def __init__(self, settings: Settings, names: Mapping[str, Sequence[str]]) -> None:
        super().__init__()
        self.settings, self.names = settings, dict(names)

    def compose(self) -> ComposeResult:
        """Two columns of fields, then what is known about the one in focus."""
        with VerticalScroll(id="controls", can_focus=False):
            with Horizontal():
                for column in ROWS:
                    with Vertical(classes="column"):
                        for name in column:
                            with Horizontal(classes="row"):
                                yield Label(name)
                                yield Input(str(getattr(self.settings, name)), id=name, compact=True)
            yield Static(id="known")
            yield Static(id="mistake")

    def on_mount(self) -> None:
        """Names the frame."""
        frame = self.query_one("#controls")
        frame.border_title = "composition and texts"
        frame.border_subtitle = "enter applies  ↑↓ choices  tab next  escape leaves"
        self.query_one("#scheduler", Input).focus()

    def know(self, names: Mapping[str, Sequence[str]]) -> None:
        """The registries have been read."""
        self.names = dict(names)
        self._tell()

    @on(Input.Changed)
    def _changed(self) -> None:
        self._tell()

    def on_descendant_focus(self) -> None:
        """Another field."""
        self._tell()

    def _tell(self) -> None:
        field = self._field()
        if field is None:
            return
        when = "changes at the next round" if field in HOT else "starts the texts again"
        known = ", ".join(self._choices(field)) or "any value"
        text = Content.assemble((field, "bold $primary"), (f" {when}; ", "$muted"), known)
        self.query_one("#known", Static).update(text)
        self.query_one("#mistake", Static).update("")

    def _field(self) -> str | None:
        focused = self.focused
        return focused.id if isinstance(focused, Input) else None

    def _choices(self, field: str) -> tuple[str, ...]:
        if field in CHOICES:
            return CHOICES[field]
        first = (AUTO,) if field in ("head", "confidence", "calibrator") else ()
        return (*first, *self.names.get(field, ()))

    def action_cycle(self, by: int) -> None:
        """The next known value of the field; numbers go up and down by one."""
        field, focused = self._field(), self.focused
        if field is None or not isinstance(focused, Input):
            return
        choices = self._choices(field)
        if choices:
            index = choices.index(focused.value) if focused.value in choices else -1 if by > 0 else 0
            focused.value = choices[(index + by) % len(choices)]
        elif focused.value.strip().isdigit():
            focused.value = str(max(int(focused.value) - by, 0))
        focused.cursor_position = len(focused.value)

    @on(Input.Submitted)
    def _apply(self) -> None:
        try:
            chosen = self._read()
        except ValueError as error:
            self.query_one("#mistake", Static).update(Content(str(error)))
            return
        self.dismiss(chosen)

    def _read(self) -> Settings:
        values = {
            f.name: parse(self.query_one(f"#{f.name}", Input).value, f.name, getattr(self.settings, f.name))
            for f in fields(Settings)
            if any(f.name in column for column in ROWS)
        }
        return self.settings.changed(**values)


class PromptBox(ModalScreen[str | None]):
    """One line of the user's own."""

    DEFAULT_CSS = """
    PromptBox { align: center middle; background: $background 60%; }
    PromptBox #prompt { width: 90%; max-width: 110; height: 3; border: round $primary; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "leave as it is")]

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def compose(self) -> ComposeResult:
        """One field."""
        box = Input(self.text, id="prompt", placeholder="a prompt; empty takes the held-out prompts of the domain")
        box.border_title = "prompt"
        box.border_subtitle = "enter starts the text, escape leaves it"
        yield box

    @on(Input.Submitted)
    def _done(self, event: Input.Submitted) -> None:
        self.dismiss(event.value)

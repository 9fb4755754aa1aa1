"""One colour for each thing a reader must tell apart, in a dark and a light set.

Every pair of a set keeps CIEDE2000 >= 15 for normal, protan, deutan and tritan vision (tests/tui/test_palette.py holds
it); colour is never alone: each origin has a glyph and a text style too, so NO_COLOR stays readable.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import cycle
from typing import NamedTuple

from textual.theme import Theme


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours by meaning; field names are the `$variables` of the stylesheets."""

    draft: str
    correction: str
    bonus: str
    plain: str
    rejected: str
    cut: str
    red: str
    amber: str
    green: str

    @property
    def origins(self) -> tuple[str, ...]:
        """The colours that stand beside each other in a text."""
        return (self.draft, self.correction, self.bonus, self.plain, self.rejected, self.cut)

    @property
    def alarms(self) -> tuple[str, ...]:
        """The colours of the losslessness light."""
        return (self.red, self.amber, self.green)


DARK = Palette(
    draft="#5fb3e6",
    correction="#ea7c29",
    bonus="#ffde20",
    plain="#fbffff",
    rejected="#ac499e",
    cut="#6b736e",
    red="#ff5956",
    amber="#ffc731",
    green="#5fd3a8",
)
LIGHT = Palette(
    draft="#0855bc",
    correction="#b3270f",
    bonus="#b28c01",
    plain="#252923",
    rejected="#811762",
    cut="#7a9498",
    red="#9b1811",
    amber="#b07a00",
    green="#00785a",
)


class Mark(NamedTuple):
    """How one thing looks: a glyph that stands alone, and a style for text."""

    glyph: str
    style: str

    @property
    def ink(self) -> str:
        """The style of the glyph: the colour without what is drawn through or under a text."""
        return " ".join(word for word in self.style.split() if word not in ("strike", "underline", "italic"))


MARKS = {
    "draft": Mark("●", "$draft"),
    "correction": Mark("▲", "bold underline $correction"),
    "bonus": Mark("◆", "underline $bonus"),
    "plain": Mark("○", "italic $plain"),
    "prompt": Mark("»", "$muted"),
    "accepted": Mark("✓", "$draft"),
    "rejected": Mark("✗", "strike $rejected"),
    "after": Mark("·", "strike $cut"),
    "cut": Mark("┄", "strike $cut"),
    "unsaid": Mark("■", "strike $cut"),
}
SERIES = (  # for curves side by side
    Mark("●", "$draft"),
    Mark("▲", "$correction"),
    Mark("◆", "$bonus"),
    Mark("■", "$rejected"),
    Mark("○", "$plain"),
    Mark("×", "$cut"),
)


def series(names: Iterable[str]) -> dict[str, Mark]:
    """A mark for each name, in order; they come round again after six."""
    return dict(zip(names, cycle(SERIES), strict=False))


@dataclass(frozen=True, slots=True)
class Ground:
    """What the colours stand on, and the greys between."""

    foreground: str
    background: str
    surface: str
    panel: str
    secondary: str
    accent: str
    rule: str
    muted: str


NIGHT = Ground(
    foreground="#d7dce2",
    background="#11141a",
    surface="#161a21",
    panel="#1f2530",
    secondary="#8aa0b8",
    accent="#9fc7e8",
    rule="#2c3441",
    muted="#8d97a5",
)
PAPER = Ground(
    foreground="#2b3036",
    background="#fbfaf7",
    surface="#f4f2ec",
    panel="#e8e5dc",
    secondary="#51606f",
    accent="#2d6aa8",
    rule="#cfcabd",
    muted="#6a6f77",
)


def theme_of(name: str, palette: Palette, ground: Ground, *, is_dark: bool) -> Theme:
    """A theme of Textual's; stylesheets and inks name our colours as `$variables`."""
    own = {**asdict(palette), "rule": ground.rule, "muted": ground.muted, "border": ground.rule}
    return Theme(
        name=name,
        primary=palette.draft,
        secondary=ground.secondary,
        accent=ground.accent,
        warning=palette.amber,
        error=palette.red,
        success=palette.green,
        foreground=ground.foreground,
        background=ground.background,
        surface=ground.surface,
        panel=ground.panel,
        dark=is_dark,
        variables={**own, "footer-key-foreground": palette.draft},
    )


DARK_THEME = theme_of("sparkit-dark", DARK, NIGHT, is_dark=True)
LIGHT_THEME = theme_of("sparkit-light", LIGHT, PAPER, is_dark=False)
THEMES = (DARK_THEME, LIGHT_THEME)

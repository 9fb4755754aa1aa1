"""One colour for each thing a reader must tell apart, in a dark and a light set.

Every pair of a set keeps CIEDE2000 >= 15 for normal, protan, deutan and tritan vision (tests/tui/test_palette.py holds
it); colour is never alone: each origin has a glyph and a text style too, so NO_COLOR stays readable.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
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
SERIES = (  # for curves side by side: glyph and colour
    Mark("●", "$draft"),
    Mark("▲", "$correction"),
    Mark("◆", "$bonus"),
    Mark("■", "$rejected"),
    Mark("○", "$plain"),
    Mark("×", "$cut"),
)

THEMES = (
    Theme(
        name="sparkit-dark",
        primary=DARK.draft,
        secondary="#8aa0b8",
        accent="#9fc7e8",
        warning=DARK.amber,
        error=DARK.red,
        success=DARK.green,
        foreground="#d7dce2",
        background="#11141a",
        surface="#161a21",
        panel="#1f2530",
        dark=True,
        variables={
            **asdict(DARK),
            "footer-key-foreground": DARK.draft,
            "border": "#2c3441",
            "rule": "#2c3441",
            "muted": "#8d97a5",
        },
    ),
    Theme(
        name="sparkit-light",
        primary=LIGHT.draft,
        secondary="#51606f",
        accent="#2d6aa8",
        warning=LIGHT.amber,
        error=LIGHT.red,
        success=LIGHT.green,
        foreground="#2b3036",
        background="#fbfaf7",
        surface="#f4f2ec",
        panel="#e8e5dc",
        dark=False,
        variables={
            **asdict(LIGHT),
            "footer-key-foreground": LIGHT.draft,
            "border": "#cfcabd",
            "rule": "#cfcabd",
            "muted": "#6a6f77",
        },
    ),
)

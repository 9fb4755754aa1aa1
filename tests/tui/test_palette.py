"""Colours stay apart for every kind of colour vision, and readable on their ground."""

import itertools
import math

import numpy as np
import pytest
from sparkit_tui.palette import DARK, LIGHT, MARKS, THEMES, Palette

VISIONS = {  # Machado, Oliveira, Fernandes 2009, severity 1.0, on linear RGB
    "normal": np.eye(3),
    "protan": np.array([0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998]),
    "deutan": np.array([0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.011820, 0.042940, 0.968881]),
    "tritan": np.array([1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.303900]),
}
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
WHITE = np.array([0.95047, 1.0, 1.08883])


def linear(colour: str) -> np.ndarray:
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(colour: str, vision: str = "normal") -> tuple[float, float, float]:
    xyz = TO_XYZ @ np.clip(VISIONS[vision].reshape(3, 3) @ linear(colour), 0, 1) / WHITE
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return 116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])


def ciede2000(one: tuple[float, float, float], two: tuple[float, float, float]) -> float:
    """Sharma, Wu, Dalal 2005."""
    (l1, a1, b1), (l2, a2, b2) = one, two
    mean = (math.hypot(a1, b1) + math.hypot(a2, b2)) / 2
    g = 0.5 * (1 - math.sqrt(mean**7 / (mean**7 + 25**7)))
    a1, a2 = (1 + g) * a1, (1 + g) * a2
    c1, c2 = math.hypot(a1, b1), math.hypot(a2, b2)
    h1, h2 = (math.degrees(math.atan2(b, a)) % 360 for a, b in ((a1, b1), (a2, b2)))
    turn = 0.0 if c1 * c2 == 0 else (h2 - h1 + 180) % 360 - 180
    hue = h1 + h2 if c1 * c2 == 0 else (h1 + turn / 2) % 360
    lightness, chroma = (l1 + l2) / 2, (c1 + c2) / 2
    t = 1 - 0.17 * math.cos(math.radians(hue - 30)) + 0.24 * math.cos(math.radians(2 * hue))
    t += 0.32 * math.cos(math.radians(3 * hue + 6)) - 0.2 * math.cos(math.radians(4 * hue - 63))
    sl = 1 + 0.015 * (lightness - 50) ** 2 / math.sqrt(20 + (lightness - 50) ** 2)
    sc, sh = 1 + 0.045 * chroma, 1 + 0.015 * chroma * t
    rotation = -math.sin(math.radians(60 * math.exp(-(((hue - 275) / 25) ** 2))))
    rotation *= 2 * math.sqrt(chroma**7 / (chroma**7 + 25**7))
    dl, dc = (l2 - l1) / sl, (c2 - c1) / sc
    dh = 2 * math.sqrt(c1 * c2) * math.sin(math.radians(turn / 2)) / sh
    return math.sqrt(dl**2 + dc**2 + dh**2 + rotation * dc * dh)


def contrast(one: str, two: str) -> float:
    """WCAG contrast ratio."""
    dark, light = sorted(float(TO_XYZ[1] @ linear(c)) for c in (one, two))
    return (light + 0.05) / (dark + 0.05)


def test_the_measure_is_ciede2000() -> None:
    """Kills: a wrong formula that calls everything far apart (three pairs of Sharma, Wu, Dalal 2005, table 1)."""
    pairs = [
        ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
        ((50.0, 2.5, 0.0), (73.0, 25.0, -18.0), 27.1492),
        ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082),
    ]
    for one, two, expected in pairs:
        assert ciede2000(one, two) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("palette", [DARK, LIGHT], ids=["dark", "light"])
@pytest.mark.parametrize("vision", VISIONS)
def test_pairs_stay_apart(palette: Palette, vision: str) -> None:
    """Kills: an origin's colour moved next to another's (bonus #f0883e beside correction falls to 4)."""
    for group in (palette.origins, palette.alarms):
        for one, two in itertools.combinations(group, 2):
            assert ciede2000(lab(one, vision), lab(two, vision)) >= 15, (one, two)


@pytest.mark.parametrize("theme", THEMES, ids=lambda t: t.name)
def test_colours_are_readable_on_their_ground(theme) -> None:
    """Kills: a light theme that keeps the dark theme's yellow (contrast 1.3)."""
    palette = DARK if theme.dark else LIGHT
    for colour in (*palette.origins, *palette.alarms):
        assert contrast(colour, theme.background) >= 3.0, colour
    assert contrast(theme.foreground, theme.background) >= 7
    assert contrast(theme.variables["muted"], theme.background) >= 4.5


def test_origin_is_told_without_colour() -> None:
    """Kills: two origins with the same glyph, or with the same text style once colour is gone."""
    origins = ("draft", "correction", "bonus", "plain", "rejected")
    glyphs = {MARKS[name].glyph for name in origins}
    styles = {frozenset(w for w in MARKS[name].style.split() if not w.startswith("$")) for name in origins}
    assert len(glyphs) == len(styles) == len(origins)

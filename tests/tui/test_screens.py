"""Every screen at three sizes against its golden text, and every number on it explained."""

import os
from pathlib import Path

import pytest
from sparkit_tui.messages import MAIN, Compared, LawKnown, Over, Stepped
from sparkit_tui.screens.chrome import Status, keys, tabs, top_line
from sparkit_tui.screens.page import ALWAYS, COMMON, Page
from sparkit_tui.screens.pages import PAGES

from tests.tui.fakes import header_of, opening, played
from tests.tui.stage import SIZES, feed, stage
from tests.tui.synthetic import Synthetic

GOLDEN = Path(__file__).parent / "golden"


def race_items() -> list:
    lanes = ("plain", "mtp", "dflash", "eagle3", "dspark")
    items = []
    for i, name in enumerate(lanes):
        items += played(12 + 6 * i, name, Synthetic(num_requests=1, seed=i), drafter=name, head="none")
        items += [Over(name)] if i < 3 else []
    return items


async def fill(app, pilot) -> None:
    """One state for all pictures."""
    await feed(app, pilot, played(120))
    for users in (1, 2, 8):
        await feed(app, pilot, played(12, generator=Synthetic(num_requests=users)))
    await feed(app, pilot, played(2, scheduler="lookahead"))
    await feed(app, pilot, played(90))
    await feed(app, pilot, race_items(), "race")
    toy = Synthetic(num_requests=1, gamma=2, seed=4)
    law = LawKnown("table:appendix-a · lookahead · rejection", ("A", "B"), (0.7, 0.3), (0.85, 0.15), is_equal=False)
    steps = [Stepped(rounds) for rounds in toy.steps(60)]
    await feed(app, pilot, [*opening(toy, scheduler="lookahead"), law, *steps], "lossless")
    pairs = [
        (name, Synthetic(num_requests=1, gamma=2, seed=i)) for i, name in enumerate(("parallel", "semi-autoregressive"))
    ]
    for name, generator in pairs:
        lane = played(40, name, generator, drafter=name, head="none")
        await feed(app, pilot, lane, "collision")


def compare(name: str, text: str) -> None:
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("SPARKIT_UPDATE_GOLDEN") == "1":
        path.write_text(text, "utf-8")
    assert path.exists(), f"no golden {path.name}: look at the screen, then run with SPARKIT_UPDATE_GOLDEN=1"
    assert text == path.read_text("utf-8")


@pytest.mark.parametrize("size", SIZES, ids=lambda s: f"{s[0]}x{s[1]}")
async def test_snapshots(size: tuple[int, int]) -> None:
    """Kills: any change of a screen that nobody looked at."""
    async with stage(size=size) as (app, pilot):
        await fill(app, pilot)
        texts = {}
        for i, page in enumerate(PAGES, start=1):
            await pilot.press(str(i))
            await pilot.pause()
            texts[page.mode] = app.screen_text()
        for mode, text in texts.items():
            lines = text.splitlines()
            assert len(lines) == size[1]
            compare(f"{mode}-{size[0]}x{size[1]}", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.mode)
def test_screens_explain_themselves(page: type[Page]) -> None:
    """Kills: a screen added without its words, or an idea too long for 80 columns."""
    assert len(page.explained) >= 5
    assert len(page.idea) <= 78
    assert page.kind
    assert all(sentence[-1] in ".?" and len(sentence) <= 118 for _, sentence in page.explained)


@pytest.mark.parametrize("width", range(80, 131))
def test_no_line_around_a_screen_is_cut_in_a_word(width: int) -> None:
    """Kills: tabs that count their blanks wrong (100 columns showed "Collis…"); a header cut in a part's name."""
    pages = tuple((page.mode, page.title_text, page.short_title) for page in PAGES)
    header = header_of(Synthetic())
    lines = [tabs(pages, "round", width), *(keys((*p.hints, *COMMON), ALWAYS, width) for p in PAGES)]
    lines += [top_line(header, Status(True, True, False, 4.0, "collision"), width)]
    for one in lines:
        assert one.cell_length == width
        assert "…" not in one.plain


async def test_wide_blocks_scroll() -> None:
    """Kills: gamma wider than the screen that hides its last cells for ever."""
    async with stage(size=(80, 24)) as (app, pilot):
        await feed(app, pilot, played(20, generator=Synthetic(gamma=20)))
        assert "›" in app.screen_text()
        for _ in range(19):
            await pilot.press("right")
        text = app.screen_text()
        row = next(line for line in text.splitlines() if "position" in line)
        assert row.split()[-3:-1][-1] != "›"
        assert "20" in row.split()
        assert "‹" in text


async def test_calibration_position_of_a_longer_block() -> None:
    """Kills: a position chosen at gamma 7 that is looked up in a run of gamma 4 (found by the mashing machine)."""
    async with stage() as (app, pilot):
        await feed(app, pilot, played(9))
        await pilot.press("3", "left")
        assert app.session.selection.position == 7
        await feed(app, pilot, played(9, generator=Synthetic(gamma=4)))
        assert "position 4" in app.screen_text()


async def test_lossy_composition_is_named_in_the_header() -> None:
    """Kills: the warning cut off in a narrow terminal, or without the part's name."""
    for size in SIZES:
        async with stage(size=size) as (app, pilot):
            await feed(app, pilot, played(3, scheduler="lookahead"))
            assert "LOSSY: scheduler lookahead" in app.screen_text().splitlines()[0]


async def test_collision_screen_follows_its_table() -> None:
    """Kills: canned numbers: another table must give another screen."""
    async with stage(table={("of", "course"): 0.5, ("no", "problem"): 0.5}) as (app, pilot):
        await pilot.press("8")
        assert "50% of the parallel drafts" in app.screen_text()
        app.table = {("of", "course"): 0.9, ("no", "problem"): 0.1}
        app.paint()
        await pilot.pause()
        assert "18% of the parallel drafts" in app.screen_text()
        app.table = {("of", "course"): 0.5, ("of", "problem"): 0.25, ("no", "problem"): 0.25}
        app.paint()
        await pilot.pause()
        assert "12% of the parallel drafts" in app.screen_text()
        before = app.screen_text()
        await pilot.press("right")
        assert app.screen_text() != before


async def test_coupled_light_waits_for_its_text() -> None:
    """Kills: green before anything was compared."""
    async with stage() as (app, pilot):
        await feed(app, pilot, played(9, verifier="coupled", scheduler="lookahead"))
        await pilot.press("7")
        assert "GREY" in app.screen_text()
        await feed(app, pilot, [Compared(40, None)], MAIN)
        assert "GREEN" in app.screen_text()
        assert "40 tokens equal" in app.screen_text()


async def test_first_screen_needs_no_round() -> None:
    """Kills: a screen that fails while the models load."""
    async with stage() as (app, pilot):
        for i in range(1, 9):
            await pilot.press(str(i))
            assert "starting" in app.screen_text().splitlines()[0]

"""Every key does what the screens say it does, by keyboard and by mouse."""

from pathlib import Path

import pytest
from sparkit_tui.keys import KEYS
from sparkit_tui.messages import MAIN
from sparkit_tui.screens.controls import Controls, PromptBox
from sparkit_tui.screens.overlays import Inspector, Panel

from sparkit.traces import read_trace
from tests.tui.fakes import SyntheticSource, played
from tests.tui.stage import feed, stage, until


async def test_pages_by_digit_and_by_mouse() -> None:
    """Kills: a page that no key reaches; tabs that do not answer the mouse."""
    async with stage() as (app, pilot):
        await feed(app, pilot, played(9))
        for i, (mode, title, _) in enumerate(app.pages, start=1):
            await pilot.press(str(i))
            assert app.screen.mode == mode
            column = app.screen_text().splitlines()[1].index(f"{i} {title}")
            await pilot.press("1" if i != 1 else "2")
            await pilot.click(offset=(column + 1, 1))
            await pilot.pause()
            assert app.screen.mode == mode


async def test_pause_step_and_speed() -> None:
    """Kills: a step that runs on; a pause that lets a round slip."""
    source = SyntheticSource()
    async with stage(source, is_paused=True, speed=float("inf")) as (app, pilot):
        await until(pilot, lambda: app.session.run() is not None)
        assert app.session.run().num_steps == 0
        for expected in (1, 2, 3):
            await pilot.press("full_stop")
            await until(pilot, lambda n=expected: app.session.run().num_steps == n)
        assert "paused" in app.screen_text()
        await pilot.press("space")
        await until(pilot, lambda: app.session.run().num_steps > 20)
        await pilot.press("space")
        await pilot.pause(0.05)
        held = source.num_steps
        await pilot.pause(0.1)
        assert source.num_steps == held
        for _ in range(12):
            await pilot.press("minus")
        assert app.driver.speed == 0.5
        await pilot.press("plus")
        assert app.driver.speed == 1.0


async def test_requests_rounds_cells_and_inspection() -> None:
    """Kills: arrows that leave the block; an inspector that shows another round than the one selected."""
    async with stage() as (app, pilot):
        await feed(app, pilot, played(30))
        await pilot.press("right_square_bracket")
        assert "request 1 (2 of 4)" in app.screen_text()
        await pilot.press("left_square_bracket", "left_square_bracket")
        assert "request 3 (4 of 4)" in app.screen_text()
        await pilot.press("up", "up", "left", "right", "right")
        assert app.session.selection.cell == 2
        assert "past round" in app.screen_text()
        round_ = app.session.shown_round()
        await pilot.press("enter")
        assert isinstance(app.screen, Inspector)
        text = app.screen_text()
        assert f"step {round_.step}  request 3  position 3 of 7" in text
        assert text.count(f"{round_.top[2].draft[0][1]:.3f}") >= 1
        await pilot.press("right", "escape", "end")
        assert app.session.selection.pinned is None
        for _ in range(20):
            await pilot.press("right")
        assert app.session.selection.cell == 6


async def test_cells_answer_the_mouse() -> None:
    """Kills: clicks that hit the wrong cell; a wheel that does not scroll the rounds."""
    async with stage() as (app, pilot):
        await feed(app, pilot, played(30))
        lines = app.screen_text().splitlines()
        row = next(i for i, text in enumerate(lines) if text.lstrip().startswith("position"))
        await pilot.click(offset=(lines[row].index("4"), row))
        assert app.session.selection.cell == 3
        await pilot.click(offset=(lines[row].index("4"), row))
        assert isinstance(app.screen, Inspector)
        await pilot.press("escape")
        await pilot.pause()
        app.page.on_mouse_scroll_up()
        assert app.session.selection.pinned is not None


async def test_explain_and_source() -> None:
    """Kills: panels that do not close; a missing source that ends the app."""
    async with stage() as (app, pilot):
        await feed(app, pilot, played(9))
        await pilot.press("question_mark")
        assert isinstance(app.screen, Panel)
        assert "min(1, p_target / p_draft)" in app.screen_text()
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.page)
        await pilot.press("c")
        await until(pilot, lambda: isinstance(app.screen, Panel))
        assert "lossless = True" in app.screen_text()
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.page)
        await pilot.press("5")
        await until(pilot, lambda: app.page.mode == "serving")
        await pilot.press("c")
        await until(pilot, lambda: "no source for capacity" in app.screen_text())


async def test_edit_changes_the_composition() -> None:
    """Kills: a change that never reaches the source; a typing error that closes the panel."""
    source = SyntheticSource()
    async with stage(source, speed=float("inf"), is_paused=True) as (app, pilot):
        await until(pilot, lambda: app.session.run() is not None)
        await pilot.press("e")
        await until(pilot, lambda: isinstance(app.screen, Controls) and app.screen.names)
        await until(pilot, lambda: "changes at the next round; fixed, greedy, lookahead" in app.screen_text())
        await pilot.press("down", "enter")
        await until(pilot, lambda: source.reconfigured)
        assert source.reconfigured[0].scheduler == "lookahead"
        await until(pilot, lambda: "LOSSY: scheduler lookahead" in app.screen_text())
        await pilot.press("e")
        await pilot.pause()
        field = app.screen.query_one("#gamma")
        field.focus()
        field.value = "seven"
        await pilot.press("enter")
        assert isinstance(app.screen, Controls)
        assert "expected a whole number" in app.screen_text()
        field.value = "0"
        await pilot.press("enter")
        assert "expected 1 or more" in app.screen_text()
        await pilot.press("escape")
        assert app.settings.gamma == 7


async def test_a_prompt_of_ones_own() -> None:
    """Kills: a prompt that is typed and forgotten."""
    source = SyntheticSource()
    async with stage(source, is_paused=True) as (app, pilot):
        await until(pilot, lambda: app.session.run() is not None)
        await pilot.press("p")
        assert isinstance(app.screen, PromptBox)
        await pilot.press(*"2+2", "enter")
        await until(pilot, lambda: source.reconfigured)
        assert source.reconfigured[0].prompt == "2+2"


async def test_restart_plays_the_same_text() -> None:
    """Kills: a restart that keeps old tokens."""
    source = SyntheticSource()
    async with stage(source, is_paused=True, speed=float("inf")) as (app, pilot):
        await until(pilot, lambda: app.session.run() is not None)

        async def first_steps() -> list:
            for n in (1, 2, 3):
                await pilot.press("full_stop")
                await until(pilot, lambda n=n: app.session.run().num_steps == n)
            return [p.tokens[:] for p in app.session.run().passages.values()]

        before = await first_steps()
        await pilot.press("r")
        await until(pilot, lambda: app.session.run().num_steps == 0)
        assert await first_steps() == before


async def test_saving(tmp_path: Path) -> None:
    """Kills: a trace that cannot be read back; a second save over the first."""
    source = SyntheticSource()
    async with stage(source, folder=tmp_path, is_paused=True) as (app, pilot):
        await until(pilot, lambda: app.session.run() is not None)
        await pilot.press("full_stop", "w")
        await until(pilot, lambda: (tmp_path / "sparkit-trace-1.jsonl").exists())
        assert read_trace(tmp_path / "sparkit-trace-1.jsonl").rounds
        await pilot.press("s", "s", "S")
        await pilot.pause()
        assert (tmp_path / "sparkit-screen-2.svg").read_text().startswith("<svg")
        assert "sparkit" in (tmp_path / "sparkit-screen-1.txt").read_text()


async def test_themes() -> None:
    """Kills: a theme key that does nothing."""
    async with stage() as (app, pilot):
        await feed(app, pilot, played(9))
        for name in ("sparkit-light", "sparkit-dark"):
            await pilot.press("t")
            assert app.theme == name


async def test_every_key_is_a_command() -> None:
    """Kills: a palette without our commands; a screen's own action run on the palette's screen."""
    async with stage() as (app, pilot):
        await feed(app, pilot, played(30))
        known = {command.title.lower() for command in app.get_system_commands(app.screen)}
        assert {binding.description.lower() for binding in KEYS} <= known
        wanted = {
            "race": lambda: app.page.mode == "race",
            "screen round": lambda: app.page.mode == "round",
            "inspect": lambda: isinstance(app.screen, Inspector),
        }
        for typed, reached in wanted.items():
            await pilot.press("ctrl+p")
            await until(pilot, lambda: app.screen.query("CommandList"))  # its search looks for the list it fills
            await pilot.press(*(letter if letter != " " else "space" for letter in typed))
            await until(pilot, lambda: app.screen.query_one("CommandList").option_count)
            await pilot.press("enter")
            await until(pilot, reached)


async def test_a_click_in_the_history_opens_that_round() -> None:
    """Kills: a history that only the keyboard opens; a click beside a panel that does not close it."""
    async with stage() as (app, pilot):
        await feed(app, pilot, played(30))
        lines = app.screen_text().splitlines()
        row = next(i for i, text in enumerate(lines) if text.split()[:1] == ["27"])
        await pilot.click(offset=(lines[row].index("27"), row))
        assert app.session.shown_round().step == 27
        await pilot.press("enter")
        assert isinstance(app.screen, Inspector)
        await pilot.click(offset=(1, 1))
        assert app.screen is app.page


async def test_a_disk_that_takes_nothing(tmp_path: Path) -> None:
    """Kills: a screenshot into a folder that is not there, which ended the app."""
    async with stage(folder=tmp_path / "nowhere") as (app, pilot):
        await pilot.press("s")
        await until(pilot, lambda: "not saved" in app.screen_text())


async def test_users_slider() -> None:
    """Kills: a slider that does not reach the engine."""
    source = SyntheticSource()
    async with stage(source, is_paused=True) as (app, pilot):
        await until(pilot, lambda: app.session.run() is not None)
        await pilot.press("5", "right")
        await until(pilot, lambda: source.reconfigured)
        assert source.reconfigured[-1].batch == 8
        await until(pilot, lambda: app.session.run().header.batch == 8)


async def test_race_holds_the_text_while_it_runs() -> None:
    """Kills: a race whose clocks share the engine with the text."""
    source = SyntheticSource()
    async with stage(source, speed=float("inf")) as (app, pilot):
        await until(pilot, lambda: source.num_steps > 3)
        await pilot.press("6", "enter")
        await until(pilot, lambda: app.session.channel("race").lanes)
        await until(pilot, lambda: app.crew.drivers["race"].is_exhausted)
        assert all(run.is_over for run in app.session.channel("race").lanes.values())
        assert "1st" in app.screen_text()
        resumed = source.num_steps
        await until(pilot, lambda: source.num_steps > resumed)


@pytest.mark.parametrize(("key", "light"), [("a", "AMBER"), ("g", "GREEN")])
async def test_the_toy_of_appendix_a(key: str, light: str) -> None:
    """Kills: the law shown for another composition than the one that runs."""
    async with stage(SyntheticSource(), is_paused=True) as (app, pilot):
        await until(pilot, lambda: app.session.run() is not None)
        await pilot.press("7", key)
        await until(pilot, lambda: light in app.screen_text() or "RED" in app.screen_text())
        assert ("0.8500" in app.screen_text()) == (key == "a")
        await pilot.press("1")
        assert app.driver.channel == MAIN


async def test_quit_in_the_middle_of_a_round() -> None:
    """Kills: a worker thread that outlives the app."""
    async with stage(SyntheticSource(), speed=float("inf")) as (app, pilot):
        await until(pilot, lambda: app.session.run() is not None)
        await pilot.press("q")
        await until(pilot, lambda: not app.is_running or app._exit)
    assert app.return_code == 0

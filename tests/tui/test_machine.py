"""Keys mashed and terminals resized at random: nothing raises, and the screen always says something."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings, strategies
from sparkit_tui.messages import Began, Stepped

from tests.tui.fakes import SyntheticSource, opening
from tests.tui.stage import stage
from tests.tui.synthetic import Synthetic

KEYS = (
    *"12345678", "space", "full_stop", "plus", "minus", "left_square_bracket", "right_square_bracket", "question_mark",
    "c", "r", "e", "p", "t", "a", "g", "enter", "escape", "up", "down", "left", "right", "home", "end", "pageup",
    "pagedown", "tab", "x", "ctrl+p",
)  # fmt: skip
SIZES = ((80, 24), (120, 40), (200, 60), (79, 24), (10, 3), (300, 20), (1, 1), (80, 100))
CI_STEPS, DEEP_STEPS, RUN = 300, 5000, 60
ACTION = strategies.one_of(
    strategies.sampled_from(KEYS).map(lambda key: ("key", key)),
    strategies.sampled_from(SIZES).map(lambda size: ("size", size)),
    strategies.integers(0, 3).map(lambda seed: ("round", seed)),
)


async def play(actions: list[tuple[str, object]]) -> None:
    """One run of the app; every action is taken before the next comes."""
    async with stage(SyntheticSource(gamma=9, limit=40), is_paused=True) as (app, pilot):
        generators: dict[int, Synthetic] = {}
        for kind, value in actions:
            if kind == "key":
                await pilot.press(str(value))
            elif kind == "size":
                await pilot.resize_terminal(*value)
            else:
                generator = generators.setdefault(
                    value, Synthetic(seed=value, num_requests=1 + value, gamma=1 + 6 * value)
                )
                app.session.apply("main", [*opening(generator), Stepped(generator.step()), Began(0, "again\n" * value)])
                app.paint()
            assert app.is_running
        await pilot.resize_terminal(120, 40)
        await pilot.pause()
        assert "sparkit" in app.screen_text()


def some_actions(num: int) -> strategies.SearchStrategy[list[tuple[str, object]]]:
    return strategies.lists(ACTION, min_size=num, max_size=num)


@settings(max_examples=CI_STEPS // RUN, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(some_actions(RUN))
def test_mashed_keys_and_sizes(actions: list[tuple[str, object]]) -> None:
    """Kills: a key that assumes a round, a panel or a size (300 steps in five runs)."""
    asyncio.run(play(actions))


@pytest.mark.deep
@settings(max_examples=DEEP_STEPS // RUN, deadline=None, suppress_health_check=list(HealthCheck))
@given(some_actions(RUN))
def test_mashed_keys_and_sizes_for_long(actions: list[tuple[str, object]]) -> None:
    """Kills: what three hundred steps do not reach (5,000 steps)."""
    asyncio.run(play(actions))


async def test_too_small_says_what_it_needs() -> None:
    """Kills: a crash or an empty screen below 80x24; a screen that does not come back."""
    async with stage(size=(60, 20)) as (app, pilot):
        app.session.apply("main", opening(Synthetic()))
        text = " ".join(app.screen_text().split())
        assert "needs 80x24 cells; this terminal has 60x20" in text
        await pilot.resize_terminal(100, 30)
        await pilot.pause()
        assert "needs 80x24" not in app.screen_text()
        assert "Round" in app.screen_text()

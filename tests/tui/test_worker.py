"""A driver alone: paced, paused, ordered about, broken and stopped; then the same behind the app."""

import threading
import time
from pathlib import Path

import pytest
from sparkit_tui.feed import Feed
from sparkit_tui.messages import Failed, FeedAdvanced, Over
from sparkit_tui.screens.overlays import advice
from sparkit_tui.sources.replay import ReplaySource
from sparkit_tui.worker import Driver

from sparkit.traces import write_trace
from tests.tui.fakes import SyntheticSource
from tests.tui.stage import flat, stage, until
from tests.tui.synthetic import Synthetic, rounds_of, trace_header


def saved(path: Path, num: int = 20, **recipe: object) -> Path:
    generator = Synthetic()
    write_trace(path, trace_header(generator, **recipe), rounds_of(list(generator.steps(num))))
    return path


def test_feed_announces_once_until_drained() -> None:
    """Kills: one message a round, which would drown the screens."""
    feed = Feed()
    assert feed.put([Over()])
    assert not feed.put([Over(), Over()])
    assert len(feed.drain(2)) == 2
    assert feed.has_more
    assert not feed.put([Over()])
    assert len(feed.drain()) == 2
    assert feed.put([Over()])


def test_fresh_messages_replace_stale_ones() -> None:
    """Kills: a message of one channel that swallows another's."""
    assert FeedAdvanced("main").can_replace(FeedAdvanced("main"))
    assert not FeedAdvanced("main").can_replace(FeedAdvanced("race"))


def test_driver_stops_and_tells_nothing_afterwards() -> None:
    """Kills: a thread that cannot be joined."""
    told: list[object] = []
    driver = Driver("main", SyntheticSource(), told.append)
    driver.speed = float("inf")
    thread = threading.Thread(target=driver.run)
    thread.start()
    while not told:
        time.sleep(0.001)
    driver.stop()
    thread.join(5)
    assert not thread.is_alive()


def test_speed_paces_the_rounds() -> None:
    """Kills: a speed that is only a label."""
    source = SyntheticSource()
    driver = Driver("main", source, lambda message: None)
    driver.speed = 20.0
    thread = threading.Thread(target=driver.run)
    thread.start()
    time.sleep(0.5)
    driver.stop()
    thread.join(5)
    assert 1 <= source.num_steps <= 11


def test_a_broken_source_is_reported_and_can_start_again() -> None:
    """Kills: a failure that ends the thread; a failure told twice."""
    told: list[object] = []
    source = SyntheticSource(fails_at=3)
    driver = Driver("main", source, told.append)
    driver.speed = float("inf")
    thread = threading.Thread(target=driver.run)
    thread.start()
    while not any(isinstance(m, Failed) for m in told):
        time.sleep(0.001)
    time.sleep(0.05)
    assert sum(isinstance(m, Failed) for m in told) == 1
    driver.order("starting again", lambda s: s.restart())
    while source.num_steps < 10:
        time.sleep(0.001)
    driver.stop()
    thread.join(5)
    assert not thread.is_alive()


async def test_a_failure_is_a_panel_with_advice() -> None:
    """Kills: an engine's error that ends the app, or shows a traceback."""
    async with stage(SyntheticSource(fails_at=4), speed=float("inf")) as (app, pilot):
        await until(pilot, lambda: "While decoding a round" in app.screen_text())
        text = app.screen_text()
        assert "While decoding a round" in text
        assert "logits at row 3 of 8 are nan" in text
        assert "Traceback" not in text
        await pilot.press("escape", "r")
        await until(pilot, lambda: app.session.run().num_steps > 5)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not JSON"),
        (b"not json\n", "not JSON"),
        (b'{"schema": "sparkit.trace/9"}\n', "sparkit.trace/1"),
        (b'{"schema": "sparkit.trace/1", "recipe": {}, "gamma": "x"}\n', "is missing"),
        (b"[" * 100_000 + b"\n", "nested"),
    ],
    ids=["empty", "text", "schema", "field", "deep"],
)
async def test_a_broken_trace_is_told(tmp_path: Path, content: bytes, said: str) -> None:
    """Kills: a broken file that ends the app."""
    path = tmp_path / "broken.jsonl"
    path.write_bytes(content)
    async with stage(ReplaySource(path), size=(160, 40)) as (app, pilot):
        await until(pilot, lambda: said in flat(app))
        await pilot.press("escape")
        assert "sparkit" in app.screen_text()


async def test_a_cut_trace_plays_and_says_so(tmp_path: Path) -> None:
    """Kills: a run that was killed and cannot be replayed."""
    path = saved(tmp_path / "cut.jsonl")
    path.write_bytes(path.read_bytes()[:-40])
    async with stage(ReplaySource(path), speed=float("inf")) as (app, pilot):
        await until(pilot, lambda: app.driver.is_exhausted)
        await until(pilot, lambda: "the trace ends in the middle" in flat(app))
        assert app.session.run().num_steps == 20


async def test_a_trace_cannot_be_edited(tmp_path: Path) -> None:
    """Kills: a replay that pretends to obey."""
    async with stage(ReplaySource(saved(tmp_path / "t.jsonl")), is_paused=True) as (app, pilot):
        await until(pilot, lambda: app.session.run() is not None)
        app.change(app.settings.changed(gamma=3))
        await until(pilot, lambda: "without --replay" in flat(app))


async def test_replay_shows_what_was_recorded(tmp_path: Path) -> None:
    """Kills: rounds lost between file and screen."""
    path = saved(tmp_path / "t.jsonl", 30)
    async with stage(ReplaySource(path), speed=float("inf")) as (app, pilot):
        await until(pilot, lambda: app.driver.is_exhausted and not app.driver.feed.has_more)
        await pilot.pause()
        expected = rounds_of(list(Synthetic().steps(30)))
        shown = [r for step in app.session.run().steps for r in step.rounds]
        assert [r.tokens for r in shown] == [r.tokens for r in expected]
        assert app.session.run().header.is_live is False
        assert "complete" in app.screen_text()


def test_advice_fits_the_error() -> None:
    """Kills: the same sentence for missing weights and for a missing package."""
    kinds = [FileNotFoundError("x"), ImportError("x"), MemoryError("x"), ValueError("x"), RuntimeError("x")]
    assert len({advice(error) for error in kinds}) == len(kinds)

"""The real engines behind the screens: toys that turn red or stay green, parts swapped while a text runs, bad input."""

from pathlib import Path

import pytest
from sparkit_tui.messages import MAIN, Failed, Opened
from sparkit_tui.model.session import Session
from sparkit_tui.screens.overlays import Panel, failure
from sparkit_tui.settings import Settings
from sparkit_tui.sources.laboratory import LiveLab
from sparkit_tui.sources.live import LiveSource
from sparkit_tui.sources.replay import ReplaySource
from sparkit_tui.worker import Driver, Source

from tests.tui.stage import flat, stage, until

TABLE = Settings(target="table:appendix-a", drafter="table", capacity="flat", gamma=2, batch=2, max_new_tokens=12)
BUNDLED = Settings(batch=2, max_new_tokens=24, capacity="flat", gamma=5)


def play(source: Source, num: int, channel: str = MAIN, session: Session | None = None) -> Session:
    """A source opened and stepped into a session."""
    if session is None:
        session = Session()
        session.apply(channel, source.open())
    for _ in range(num):
        session.apply(channel, source.step())
    return session


def told(source: Source) -> str:
    """What the panel says when the source fails."""
    posted: list[object] = []
    driver = Driver(MAIN, source, posted.append)
    driver._guarded("starting", source.open)
    driver._guarded("decoding a round", source.step)
    failed = next(message for message in posted if isinstance(message, Failed))
    return failure(failed.doing, failed.error).plain


def test_appendix_a_turns_red_and_its_law_is_the_papers() -> None:
    """Kills: an audit that no cheat ever moves; a law of another composition (method section 8: 17/20, 3/20)."""
    source = LiveLab().appendix_a("rejection")
    session = play(source, 0, "lossless")
    assert session.channel("lossless").laws[0].output == pytest.approx((0.85, 0.15))
    for _ in range(60):
        play(source, 25, "lossless", session)
        if session.run("lossless").audit.light == "red":
            break
    assert session.run("lossless").audit.light == "red"


def test_appendix_a_under_coupled_noise_is_green() -> None:
    """Kills: a coupled text that is compared with nothing, or with another seed's plain text."""
    session = play(LiveLab().appendix_a("coupled"), 50, "lossless")
    run = session.run("lossless")
    assert run.audit.light == "green"
    assert run.audit.num_equal > 20
    assert session.channel("lossless").laws[0].is_equal


def test_collision_is_decoded_as_it_is_computed() -> None:
    """Kills: a parallel drafter that reads the first word; numbers computed for one table and decoded from another."""
    session = play(LiveLab().collision({("of", "course"): 0.5, ("no", "problem"): 0.5}), 200, "collision")
    lanes = session.channel("collision").lanes
    parallel, semi = (lanes[name].tally.conditional_acceptance() for name in ("parallel", "semi-autoregressive"))
    assert semi == [1.0, 1.0]
    assert parallel[0] == 1.0
    assert parallel[1] == pytest.approx(0.5, abs=0.2)
    texts = [
        "".join(lanes[name].header.pieces[t] for t, _ in p.tokens)
        for name in lanes
        for p in lanes[name].passages.values()
    ]
    assert not any("ofproblem" in text or "nocourse" in text for text in texts)


def test_parts_are_swapped_between_two_rounds() -> None:
    """Kills: a scheduler's change that starts the texts again, or leaves the old audit running."""
    source = LiveSource(TABLE)
    session = play(source, 4)
    before = {r: p.tokens[:] for r, p in session.run().passages.items()}
    items = source.reconfigure(TABLE.changed(scheduler="lookahead", verifier="lenient", temperature=0.5))
    session.apply(MAIN, items)
    opened = items[0]
    assert isinstance(opened, Opened)
    assert opened.keeps_text
    assert opened.header.lossy_parts == ("scheduler lookahead", "verifier lenient")
    assert len(session.channel(MAIN).old_audits) == 1
    play(source, 2, session=session)
    for request, tokens in before.items():
        assert session.run().passages[request].tokens[: len(tokens)] == tokens
        assert len(session.run().passages[request].tokens) > len(tokens)


def test_a_seed_starts_the_texts_again() -> None:
    """Kills: a new seed that only changes what comes next; the same seed that gives another text."""

    def first(settings: Settings) -> list:
        return [p.tokens for p in play(LiveSource(settings), 6).run().passages.values()]

    source = LiveSource(TABLE)
    play(source, 3)
    again = source.reconfigure(TABLE.changed(seed=3))
    assert isinstance(again[0], Opened)
    assert not again[0].keeps_text
    assert first(TABLE) == first(TABLE)
    assert first(TABLE) != first(TABLE.changed(seed=3))


def test_a_failed_change_leaves_what_runs() -> None:
    """Kills: a misspelt part that ends the text which was running."""
    source = LiveSource(TABLE)
    session = play(source, 2)
    with pytest.raises(LookupError, match="greedy"):
        source.reconfigure(TABLE.changed(scheduler="greddy"))
    assert source.settings == TABLE
    before = session.run().num_steps
    play(source, 2, session=session)
    assert session.run().num_steps == before + 2


def test_a_saved_trace_of_a_live_run_replays(tmp_path: Path) -> None:
    """Kills: rounds, prompts or words lost on the way to the disk; a path in the header line."""
    source = LiveSource(BUNDLED)
    live = play(source, 5)
    source.save(tmp_path / "t.jsonl")
    replayed = play(ReplaySource(tmp_path / "t.jsonl"), 5)
    for request, passage in live.run().passages.items():
        twin = replayed.run().passages[request]
        assert (twin.prompt, twin.label, twin.tokens) == (passage.prompt, passage.label, passage.tokens)
        words = [header.pieces[t] for header in (live.run().header, replayed.run().header) for t, _ in passage.tokens]
        assert words[: len(words) // 2] == words[len(words) // 2 :]
    assert replayed.run().header.label == live.run().header.label
    assert "/" not in replayed.run().header.label


def test_bundled_models_play_at_once_and_take_ones_own_prompt() -> None:
    """Kills: a start that waits for a measurement; a prompt that is cut or said twice."""
    session = play(LiveSource(BUNDLED.changed(prompt="half a dozen eggs", capacity="measured")), 2)
    assert session.run().num_tokens >= 2
    assert {p.prompt for p in session.run().passages.values()} == {"half a dozen eggs"}
    assert session.run().header.is_lossless


def test_no_weights() -> None:
    """Kills: a traceback, or a sentence that does not say what to do."""
    text = told(LiveSource(Settings(target="/nowhere/weights")))
    assert "/nowhere/weights" in text
    assert "sparkit" in text


async def test_a_prompt_that_is_too_long(tmp_path: Path) -> None:
    """Kills: a prompt past the context that ends the app, or is cut in silence; an app that takes no other prompt."""
    settings = BUNDLED.changed(prompt="half a dozen eggs and " * 600)
    async with stage(LiveSource(settings), settings=settings, speed=float("inf")) as (app, pilot):
        await until(pilot, lambda: isinstance(app.screen, Panel) and "p (the prompt)" in flat(app))
        assert "context" in flat(app)
        await pilot.press("escape")
        app.change(settings.changed(prompt="half a dozen"))
        await until(pilot, lambda: app.session.run() is not None and app.session.run().num_tokens > 3)


@pytest.mark.slow
def test_the_race_of_the_bundled_drafters() -> None:
    """Kills: lanes that share a clock or a prompt's end; a drafter that is silently left out."""
    source = LiveLab().race(BUNDLED.changed(max_new_tokens=8))
    session = play(source, 60, "race")
    lanes = session.channel("race").lanes
    assert tuple(lanes) == ("plain", "mtp", "dflash", "eagle3", "dspark")
    assert all(run.is_over and 0 < run.num_tokens <= 8 and run.engine_seconds > 0 for run in lanes.values())
    assert len({next(iter(run.passages.values())).prompt for run in lanes.values()}) == 1

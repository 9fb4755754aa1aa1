"""The real thing: a real terminal by tmux, real time, colours or none, and what a start costs."""

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sparkit_tui.command import web_command

from sparkit.traces import write_trace
from tests.tui.fakes import SyntheticSource
from tests.tui.stage import stage, until
from tests.tui.synthetic import Synthetic, rounds_of, trace_header

ROOT = Path(__file__).parents[2]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    generator = Synthetic()
    path = tmp_path / "run.jsonl"
    write_trace(path, trace_header(generator), rounds_of(list(generator.steps(400))))
    return path


class Terminal:
    """One tmux session of its own server."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket

    def __call__(self, *args: str) -> str:
        done = subprocess.run(["tmux", "-S", str(self.socket), *args], capture_output=True, text=True, timeout=20)
        return done.stdout

    def start(self, command: str) -> None:
        line = f"cd {ROOT} && env -u COLUMNS -u LINES {command}; echo EXIT-$?; stty -a; sleep 60"
        self(*["new-session", "-d", "-x", "140", "-y", "40"], line)

    def until(self, condition: Callable[[str], object], seconds: float = 150.0) -> str:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            text = self("capture-pane", "-p")
            if condition(text):
                return text
            time.sleep(0.1)
        raise AssertionError(f"the terminal shows:\n{text}")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    made = Terminal(tmp_path / "tmux")
    yield made
    made("kill-server")


def test_a_replay_in_a_real_terminal(terminal: Terminal, trace: Path) -> None:
    """Kills: an app that only runs headless; a terminal left raw after q."""
    terminal.start(f"{sys.executable} -m sparkit tui --replay {trace} --speed 50")
    terminal.until(lambda text: "accepted" in text and "replay" in text)
    terminal("send-keys", "4")
    terminal.until(lambda text: "Theta" in text)
    terminal("resize-window", "-x", "60", "-y", "20")
    terminal.until(lambda text: "needs" in text)
    terminal("resize-window", "-x", "140", "-y", "40")
    terminal.until(lambda text: "steps a second" in text)
    terminal("send-keys", "q")
    text = terminal.until(lambda text: "EXIT-0" in text and "icanon" in text)
    assert " -icanon" not in text
    assert " -echo " not in text


def test_a_missing_trace_is_one_sentence(sparkit_cli: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """Kills: a screen opened for nothing, a traceback."""
    done = sparkit_cli("tui", "--replay", "/nowhere/run.jsonl")
    assert done.returncode == 2
    assert done.stderr.startswith("error: /nowhere/run.jsonl: no such trace")


def test_nothing_heavy_before_the_first_screen(plain_python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """Kills: an import of torch on the way to the first screen."""
    code = (
        "import sys\n"
        "from sparkit_tui.app import SparkitApp\n"
        "from sparkit_tui.sources.laboratory import LiveLab\n"
        "from sparkit_tui.sources.live import LiveSource\n"
        "from sparkit_tui.settings import Settings\n"
        "SparkitApp(LiveSource(Settings()), LiveLab())\n"
        "print({'torch', 'numpy', 'transformers', 'matplotlib'} & set(sys.modules))"
    )
    done = plain_python(code)
    assert done.stdout.strip() == "set()", done.stderr


def test_a_start_imports_no_compiler(plain_python: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """Kills: embeddings drawn on the meta device, which imports torch's compiler: 2 s of the first token's 5."""
    code = (
        "import sys\n"
        "from sparkit_tui.sources.live import LiveSource\n"
        "from sparkit_tui.settings import Settings\n"
        "source = LiveSource(Settings(capacity='flat'))\n"
        "assert source.open() and source.step()\n"
        "print({'torch._dynamo', 'sympy', 'transformers', 'matplotlib'} & set(sys.modules))"
    )
    done = plain_python(code)
    assert done.stdout.strip() == "set()", done.stderr


async def test_without_colours_styles_remain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: NO_COLOR ignored, or origins that only colour told apart."""
    monkeypatch.setenv("NO_COLOR", "1")
    async with stage(SyntheticSource(), speed=float("inf")) as (app, pilot):
        await until(pilot, lambda: app.session.run() is not None and app.session.run().num_steps > 5)
        assert app.no_color
        await pilot.press("space")
        styles = re.findall(r"\.[\w-]+-r\d+ \{ ([^}]*) \}", app.export_screenshot())
        colours = {c for style in styles for c in re.findall(r"fill: #(\w{6})", style)}
        channels = [[int(c[i : i + 2], 16) for i in (0, 2, 4)] for c in colours]
        assert all(max(c) - min(c) <= 4 for c in channels), colours  # greys, but for the SVG template's own
        assert any("underline" in style for style in styles)
        assert any("line-through" in style for style in styles)


FRAMES = """
import asyncio, sys, time
from pathlib import Path
from sparkit_tui.sources.replay import ReplaySource
from tests.tui.stage import stage, until

async def main():
    async with stage(ReplaySource(Path(sys.argv[1])), speed=100.0) as (app, pilot):
        await until(pilot, lambda: app.session.run() is not None and app.session.run().num_steps >= 1)
        frames = set()
        canvas = app.page.query_one("#figure")
        draw = canvas._draw
        canvas._draw = lambda width, height: (frames.add(app.session.run().num_steps), draw(width, height))[1]
        end = time.monotonic() + 5
        while time.monotonic() < end:
            await asyncio.sleep(0.05)
        print(len(frames))

asyncio.run(main())
"""


def test_frames_at_a_hundred_rounds_a_second(
    tmp_path: Path, plain_python: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """Kills: a screen that paints so slowly that rounds pile up (100 distinct frames in 5 s, the best of four:
    the other test worker shares the two cores)."""
    generator = Synthetic(num_requests=1)
    path = tmp_path / "run.jsonl"
    write_trace(path, trace_header(generator), rounds_of(list(generator.steps(700))))
    counts: list[int] = []
    while len(counts) < 4 and max(counts, default=0) < 100:
        done = plain_python(FRAMES, str(path))
        assert done.returncode == 0, done.stderr[-2000:]
        counts.append(int(done.stdout))
    assert max(counts) >= 100, f"{counts} distinct frames"


def test_web_passes_the_other_options_on() -> None:
    """Kills: a browser tab that starts another server, or forgets the prompt."""
    line = web_command(["sparkit", "tui", "--web", "--port", "9000", "--host=0.0.0.0", "--prompt", "half a dozen"])
    assert line.endswith("-m sparkit tui --prompt 'half a dozen'")

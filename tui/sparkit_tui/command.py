"""`sparkit tui`: the screens as a command of sparkit, hooked in by the entry point `sparkit.commands`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from socket import gethostname
from typing import Annotated

import typer

EVERYWHERE = ("0.0.0.0", "::")  # --host for every address of this machine; a browser elsewhere needs its name


def command(
    replay: Annotated[Path | None, typer.Option(help="Play a trace saved by `sparkit compose --trace`.")] = None,
    web: Annotated[
        bool, typer.Option(help="Serve the screens to a browser (Tab there gives it the keys; needs textual-serve).")
    ] = False,
    host: Annotated[str, typer.Option(help="Address for --web.")] = "localhost",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port for --web.")] = 8000,
    target: Annotated[str, typer.Option(help="As in `sparkit compose`.")] = "bundled",
    drafter: Annotated[str, typer.Option(help="NAME or NAME:key=value,...")] = "dspark",
    head: Annotated[str, typer.Option(help="Serial head; auto is the drafter's own.")] = "auto",
    confidence: Annotated[str, typer.Option(help="auto: the trained head, else by position.")] = "auto",
    calibrator: Annotated[str, typer.Option(help="auto: the fitted one of this drafter, else identity.")] = "auto",
    scheduler: Annotated[str, typer.Option(help="NAME or NAME:key=value,...")] = "greedy",
    verifier: Annotated[str, typer.Option(help="rejection, block, coupled, ...")] = "rejection",
    capacity: Annotated[str, typer.Option(help="measured, flat, roofline or a path.")] = "measured",
    gamma: Annotated[int, typer.Option(min=1, help="Draft tokens per round.")] = 7,
    temperature: Annotated[float, typer.Option(min=0.0, help="0 is greedy decoding.")] = 1.0,
    domain: Annotated[str, typer.Option(help="all, math, code or chat.")] = "all",
    prompt: Annotated[str, typer.Option(help="Your own prompt instead of the held-out ones.")] = "",
    batch: Annotated[int, typer.Option(min=1, help="Concurrent requests.")] = 4,
    seed: Annotated[int, typer.Option(help="Same seed, same text.")] = 0,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Tokens a text.")] = 160,
    speed: Annotated[float, typer.Option(min=0.1, help="Rounds a second at the start.")] = 4.0,
    paused: Annotated[bool, typer.Option(help="Start paused; `.` plays one round.")] = False,
    light: Annotated[bool, typer.Option(help="Start with the light theme.")] = False,
) -> None:
    """Watch blocks being drafted, cut, accepted and rejected, live.

    Examples: `sparkit tui` · `sparkit tui --domain code --scheduler threshold:value=0.6` ·
    `sparkit tui --replay run.jsonl` · `sparkit tui --web`
    """
    if web:
        _serve(host, port)
        return
    if replay is not None and not replay.is_file():
        raise FileNotFoundError(2, "no such trace; record one with `sparkit compose --trace FILE`", str(replay))
    from sparkit_tui.app import SparkitApp
    from sparkit_tui.palette import LIGHT_THEME
    from sparkit_tui.settings import Settings
    from sparkit_tui.sources.laboratory import LiveLab
    from sparkit_tui.sources.live import LiveSource
    from sparkit_tui.sources.replay import ReplaySource

    settings = Settings(
        target, drafter, head, confidence, calibrator, scheduler, verifier, capacity, gamma, temperature, domain,
        prompt, batch, seed, max_new_tokens,
    )  # fmt: skip
    source = LiveSource(settings) if replay is None else ReplaySource(replay)
    app = SparkitApp(source, LiveLab(), settings, speed=speed, is_paused=paused)
    if light:
        app.theme = LIGHT_THEME.name
    app.run()


def _serve(host: str, port: int) -> None:
    """One app process a browser tab; the arguments other than --web go on to it."""
    try:
        from textual_serve.server import Server
    except ImportError as error:
        raise LookupError("--web needs the package textual-serve: pip install textual-serve") from error
    url = f"http://{gethostname()}:{port}" if host in EVERYWHERE else None  # the page tells it to the browser
    Server(web_command(sys.argv), host=host, port=port, title="sparkit", public_url=url).serve()


def web_command(argv: list[str]) -> str:
    """The command line of one tab: the same, without what concerns the server."""
    rest, skip = [], False
    for argument in argv[1:]:
        if skip:
            skip = False
        elif argument in ("--host", "--port"):
            skip = True
        elif argument != "--web" and not argument.startswith(("--host=", "--port=")):
            rest.append(argument)
    return shlex.join([sys.executable, "-m", "sparkit", *rest])

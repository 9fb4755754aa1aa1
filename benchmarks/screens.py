"""Pictures of the TUI for README and site: the shipping app on the bundled models, played to a round worth seeing.

python benchmarks/screens.py            # writes tutorials/images/round.svg and scheduler.svg
"""

import argparse
import asyncio
import re
from pathlib import Path
from typing import Any

from sparkit_tui.app import SparkitApp
from sparkit_tui.settings import Settings
from sparkit_tui.sources.laboratory import LiveLab
from sparkit_tui.sources.live import LiveSource

SIZE = (124, 37)
SCENES = {
    "round": (16, Settings(batch=4, confidence="recurrent", capacity="roofline")),
    "scheduler": (22, Settings(batch=8, confidence="recurrent", capacity="staircase:tile=16,per_tile=0.6")),
}
"""Page, rounds played before its picture is taken, and what is composed: a load that fits, and one that must be cut."""
FONT = re.compile(r"@font-face\s*\{.*?\}", re.DOTALL)  # pages fetch nothing from elsewhere


async def picture(page: str, rounds: int, settings: Settings) -> str:
    """One page as SVG."""
    app = SparkitApp(LiveSource(settings), LiveLab(), settings, is_paused=True)
    app.animation_level = "none"
    async with app.run_test(size=SIZE) as pilot:
        for _ in range(rounds):
            await _play_one(app, pilot)
        await app.run_action(f"page('{page}')")
        await pilot.pause(1.0)
        return FONT.sub("", app.export_screenshot(title="sparkit tui"))


async def _play_one(app: SparkitApp, pilot: Any, seconds: float = 60.0) -> None:
    before = app.screen_text()
    await pilot.press("full_stop")
    for _ in range(int(seconds / 0.05)):
        await pilot.pause(0.05)
        if app.screen_text() != before:
            return
    raise TimeoutError(f"no round after {seconds:.0f} s; the screen says:\n{app.screen_text()}")


def main() -> None:
    """Reads the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("tutorials/images"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for page, (rounds, settings) in SCENES.items():
        path = given.out / f"{page}.svg"
        path.write_text(asyncio.run(picture(page, rounds, settings)), "utf-8")
        print(f"wrote {path}")


if __name__ == "__main__":
    main()

"""What the training commands share: their options, the plan that options make, folders, processes, the progress bar."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparkit.cli.documents import console

if TYPE_CHECKING:
    from sparkit.training.presets import Preset

PresetOption = Annotated[str, typer.Option(help="Sizes and budgets.")]
WorkOption = Annotated[Path, typer.Option(help="Folder of checkpoints, logs and generated data.")]
OutOption = Annotated[Path | None, typer.Option(help="Where finished folders go; the bundled assets if not given.")]
MinutesOption = Annotated[float | None, typer.Option(min=0.01, help="Train the target for so long instead.")]
StepsOption = Annotated[int | None, typer.Option(min=1, help="Train for so many steps instead.")]


def preset_named(name: str) -> "Preset":
    """The preset, or an error that names those there are."""
    from sparkit.training.presets import PRESETS

    if name not in PRESETS:
        raise LookupError(f"preset {name!r}: expected one of {', '.join(PRESETS)}")
    return PRESETS[name]


def budget(plan: Any, minutes: float | None, steps: int | None) -> Any:
    """The plan with another budget, if one was given."""
    if minutes is not None and steps is not None:
        raise ValueError(f"--minutes {minutes} and --steps {steps}: give one of the two")
    if minutes is None and steps is None:
        return plan
    return replace(plan, minutes=minutes, steps=steps)


def assets() -> Path:
    """The folder of the bundled lane in this checkout."""
    return Path(__file__).parents[1] / "assets" / "bundled"


def bundled_target() -> Path:
    """The bundled target's folder."""
    return assets() / "target"


@contextmanager
def everyone() -> Iterator[Any]:
    """All processes of `torchrun`, together from start to end."""
    from sparkit.training.distributed import join, leave

    world = join()
    try:
        yield world
    except BaseException:
        leave()
        raise
    leave(waits=True)


@contextmanager
def progress(title: str, total: int, json: str | None) -> Iterator[Callable[[int], None]]:
    """A progress bar on the console."""
    from rich.progress import Progress

    with Progress(console=console(json)) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.update(task, completed=done)

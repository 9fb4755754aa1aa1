"""The table of commands: `sparkit --help` reads it and imports none of them.

A command is one file of this package whose `command` is a function with typer annotations (or a `typer.Typer` with
sub-commands). Its line below shows as soon as the file exists. Third parties add commands by the entry-point group
`sparkit.commands`; the TUI comes in that way.
"""

import importlib
import importlib.metadata
import importlib.util
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from sparkit import __version__
from sparkit.cli import errors

COMMANDS: dict[str, tuple[str, str]] = {  # name -> (module of this package, one line of help), in the order of --help
    "compose": ("compose", "Decode prompts with chosen parts and measure them against plain decoding."),
    "list": ("list", "List every part by kind, with a line each and its lossless flag."),
    "doctor": ("doctor", "Show device, versions, what is installed and what would run."),
    "prove": ("prove", "Compute the exact output law of a composition; exit 1 when it is lossy."),
    "check": ("check", "Hold one part to the laws of its kind."),
    "profile": ("profile", "Measure the capacity curve of this device."),
    "calibrate": ("calibrate", "Fit a calibrator on recorded rounds."),
    "train": ("train", "Train a target, a drafter, or everything bundled."),
    "data": ("data", "Generate the training corpus."),
    "simulate": ("simulate", "Simulate serving under load."),
    "replay": ("replay", "Replay a trace under another policy."),
    "reproduce": ("reproduce", "Reproduce a figure of the paper."),
    "bench": ("bench", "Run the measured comparisons."),
    "report": ("report", "Turn saved results into a report."),
    "inspect": ("inspect", "Show what a checkpoint holds."),
    "import": ("import_", "Import a published drafter checkpoint."),
    "export": ("export", "Export a trained drafter for a serving engine."),
}
GROUP = "sparkit.commands"
HELP = {"tui": "Watch rounds live in the terminal."}  # entry points carry no help text of their own


class LazyCommand(TyperCommand):
    """A line of `--help` that becomes the real command when somebody calls it."""

    def __init__(self, name: str, source: str, help: str) -> None:
        super().__init__(name, help=help)
        self.source = source  # "module:attribute"

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Import the command's module and let the real command read the arguments."""
        with errors.spoken():
            real = load(str(self.name), self.source)
        return real.make_context(info_name, args, parent=parent, **extra)


class LazyGroup(TyperGroup):
    """Commands by name from the table and the entry points; a user's mistake ends in one line and exit code 2."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands.update({name: LazyCommand(name, *found) for name, found in available().items()})

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with errors.spoken():
            return super().invoke(ctx)


def available() -> dict[str, tuple[str, str]]:
    """Name -> (source, help) of every command whose module exists; ours first."""
    own = {
        name: (f"sparkit.cli.{module}:command", line)
        for name, (module, line) in COMMANDS.items()
        if is_importable(f"sparkit.cli.{module}")
    }
    return own | {name: found for name, found in _third_party().items() if name not in own}


def _third_party() -> dict[str, tuple[str, str]]:
    found = [entry for entry in importlib.metadata.entry_points(group=GROUP) if is_importable(entry.module)]
    return {entry.name: (entry.value, HELP.get(entry.name, _origin(entry))) for entry in found}


def _origin(entry: importlib.metadata.EntryPoint) -> str:
    return f"A command of {entry.dist.name if entry.dist is not None else entry.module}."


def is_importable(module: str) -> bool:
    """Whether `module` can be found; it is not imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its parent package is not there
        return False


def load(name: str, source: str) -> Any:
    """Import "module:attribute" and make a command of it."""
    module, _, attribute = source.partition(":")
    command = getattr(importlib.import_module(module), attribute or "command")
    if isinstance(command, typer.Typer):
        return typer.main.get_command(command)
    wrapper = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown")
    wrapper.command(name)(command)
    return typer.main.get_command(wrapper)


def _show_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"sparkit {__version__}")
        raise typer.Exit
    return wanted


# plain help at the top: importing rich would double the time of `sparkit --help`
app = typer.Typer(
    cls=LazyGroup, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
)


def _load_plugins(paths: list[Path] | None) -> list[Path] | None:
    if paths:
        with errors.spoken():
            from sparkit.cli import plugins

            for path in paths:
                plugins.load_file(path)
    return paths


@app.callback()
def _sparkit(
    plugin: Annotated[
        list[Path] | None,
        typer.Option(callback=_load_plugins, help="A Python file that registers parts of your own (several)."),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    """Speculative decoding with DSpark: decode, measure, prove. `sparkit COMMAND --help` shows examples.

    A part of your own in one file: `sparkit --plugin mine.py check scheduler mine`.
    """


def main() -> None:
    """Run the command line.

    Exit code 0 done, 1 the answer is no, 2 a mistake in what was asked, 3 a process of a sweep died, 130 interrupted.
    """
    app(prog_name="sparkit")

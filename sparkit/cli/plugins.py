"""A part of one's own in a single file, without a package: `sparkit --plugin mine.py check scheduler mine`.

Only the command line loads such a file, and only one that the user names there: recipes and traces cannot.
"""

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType


def load_file(path: Path) -> ModuleType:
    """Runs a Python file, so that its decorators register what it holds.

    Raises:
        FileNotFoundError: if there is none.
        ValueError: if it is no Python file, or raises while it is read; the message names the line.
    """
    if not path.is_file():
        raise FileNotFoundError(f"--plugin {path}: there is no such file")
    name = f"sparkit_plugin_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"--plugin {path}: expected a Python file, NAME.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickling look a class's module up by name
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ValueError(f"--plugin {path}{_line(error, path)}: {type(error).__name__}: {error}") from error
    return module


def _line(error: Exception, path: Path) -> str:
    if isinstance(error, SyntaxError):
        return f", line {error.lineno}"
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
    return f", line {own[-1].lineno}" if own else ""

"""What the README shows, runs."""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
COMMANDS = re.findall(r"^\.venv/bin/(sparkit [^#\n]*)", README, re.MULTILINE)
SLOW = "compose"  # decodes for tens of seconds


def marked(line: str) -> object:
    return pytest.param(line.strip(), marks=[pytest.mark.slow] if SLOW in line else [], id=line.strip()[:40])


@pytest.mark.docs
@pytest.mark.parametrize("code", PYTHON, ids=range(len(PYTHON)))
def test_python_blocks_run(code: str, plain_python: Callable[..., CompletedProcess[str]]) -> None:
    """Kills: an example that names what the library no longer has."""
    done = plain_python(code)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.docs
@pytest.mark.parametrize("line", [marked(line) for line in COMMANDS])
def test_commands_run(line: str, tmp_path: Path) -> None:
    """Kills: an option in the README that the command line does not take."""
    (tmp_path / "half.py").write_text(PYTHON[0], encoding="utf-8")
    command = [sys.executable, "-m", *shlex.split(line)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.docs
def test_something_is_collected() -> None:
    """Kills: patterns that match nothing."""
    assert len(PYTHON) >= 1
    assert len(COMMANDS) >= 4

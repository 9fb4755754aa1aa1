"""A part of one's own in a single file: found, checked, and its mistakes named by line."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sparkit.cli.app import app
from sparkit.cli.plugins import load_file
from sparkit.protocols import SCHEDULERS

ROOT = Path(__file__).parents[2]
runner = CliRunner()


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """The README's scheduler, out of the registry again afterwards."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"```python\n(.*?)```", readme, re.DOTALL)
    assert block is not None
    path = tmp_path / "half.py"
    path.write_text(block.group(1), encoding="utf-8")
    yield path
    SCHEDULERS._parts.pop("half", None)


def test_the_readme_s_scheduler_keeps_every_law(half: Path) -> None:
    """Kills: a README that does not run; a plug-in that the other commands do not see."""
    done = runner.invoke(app, ["--plugin", str(half), "check", "scheduler", "half"])
    assert done.exit_code == 0, done.output
    assert "broken" not in done.output


def test_a_scheduler_that_forgets_the_budget_is_told_so(half: Path) -> None:
    """Kills: a check that lets any plan within the ceilings pass."""
    text = half.read_text(encoding="utf-8").replace("spend_wishes(", "careless(")
    half.write_text(
        "from sparkit.rounds import Plan\n"
        "def careless(wanted, limits):\n"
        "    return Plan(wanted.long().cumprod(-1).sum(-1).clamp(limits.floor, limits.ceiling))\n" + text,
        encoding="utf-8",
    )
    done = runner.invoke(app, ["--plugin", str(half), "check", "scheduler", "half"])
    assert done.exit_code == 1
    assert "token budget" in done.output


@pytest.mark.parametrize(
    ("text", "message"),
    [("x = (", "line 1: SyntaxError"), ("import torch\n1 / 0\n", "line 2: ZeroDivisionError")],
)
def test_a_broken_file_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    """Kills: a traceback of ours for a mistake of theirs."""
    path = tmp_path / "broken.py"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        load_file(path)


def test_a_file_that_is_not_there_is_named() -> None:
    """Kills: a traceback for a mistyped path."""
    with pytest.raises(FileNotFoundError, match=r"/nowhere\.py"):
        load_file(Path("/nowhere.py"))

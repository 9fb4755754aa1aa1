"""Every Python block of every page runs, in order, in one namespace; so do the library's own examples."""

import contextlib
import io
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python exec=[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = sorted(page for page in (ROOT / "tutorials").rglob("*.md") if BLOCK.search(page.read_text(encoding="utf-8")))


def run_page(text: str, name: str) -> str:
    namespace: dict[str, object] = {"__name__": "tutorial"}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for block in BLOCK.finditer(text):
            first_line = text[: block.start(1)].count("\n")
            exec(compile("\n" * first_line + block[1], name, "exec"), namespace)
    return printed.getvalue()


@pytest.mark.docs
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks_of_a_page_run(page: Path) -> None:
    """Kills: prose that no longer matches the library; a claim whose assert fails on this machine."""
    assert run_page(page.read_text(encoding="utf-8"), str(page)).strip()


@pytest.mark.docs
def test_a_failing_block_is_seen() -> None:
    """Kills: a runner that collects no block, or swallows what a block raises."""
    blocks = ("value = 1", 'assert value == 2, "seen"')
    text = "# x\n\n" + "\n".join(f'```python exec="on" session="x"\n{block}\n```\n' for block in blocks)
    with pytest.raises(AssertionError, match="seen"):
        run_page(text, "page")
    assert len(PAGES) >= 1


EXAMPLES = """
import doctest, importlib, pkgutil, torch, sparkit
names = [module.name for module in pkgutil.walk_packages(sparkit.__path__, "sparkit.")]
modules = [importlib.import_module(name) for name in names if not name.endswith("__main__")]
outcomes = [doctest.testmod(module, extraglobs={"torch": torch}) for module in modules]
assert sum(outcome.attempted for outcome in outcomes) > 10
assert not sum(outcome.failed for outcome in outcomes)
"""


@pytest.mark.docs
def test_examples_in_docstrings_run(plain_python: Callable[..., CompletedProcess[str]]) -> None:
    """Kills: a docstring's example that says something else than the code does (apart: examples register parts)."""
    done = plain_python(EXAMPLES)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]

"""Every Python block of every page runs, in order, in one namespace; so do the library's own examples."""

import contextlib
import doctest
import importlib
import io
import pkgutil
import re
from pathlib import Path

import pytest
import torch

import sparkit

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python exec=[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = sorted(page for page in (ROOT / "tutorials").rglob("*.md") if BLOCK.search(page.read_text(encoding="utf-8")))
MODULES = sorted(module.name for module in pkgutil.walk_packages(sparkit.__path__, "sparkit."))


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


@pytest.mark.docs
@pytest.mark.parametrize("name", [name for name in MODULES if not name.endswith("__main__")])
def test_examples_in_docstrings_run(name: str) -> None:
    """Kills: an example in a docstring that says something else than the code does."""
    module = importlib.import_module(name)
    outcome = doctest.testmod(module, extraglobs={"torch": torch}, optionflags=doctest.ELLIPSIS)
    assert outcome.failed == 0, f"{outcome.failed} of {outcome.attempted} examples in {name}"

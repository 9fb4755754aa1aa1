"""What every test gets: hypothesis profiles, the gpu rule, one thread for torch, and a Python without type checks.

Nothing of sparkit may be imported here at module level: jaxtyping's import hook (see addopts) comes after this file.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest
import torch

from tests import typecheck
from tests.starter import Starter

typecheck.install()  # before the first import of sparkit
ROOT = Path(__file__).parents[1]
PLAIN = {"COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb"}

hypothesis.settings.register_profile("dev", max_examples=25, deadline=None)
hypothesis.settings.register_profile("ci", max_examples=200, deadline=None, derandomize=True, database=None)
hypothesis.settings.register_profile("deep", max_examples=5000, deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--require-gpu", action="store_true", help="a test marked gpu fails, not skips, without CUDA")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") is None or torch.cuda.is_available():
        return
    if item.config.getoption("--require-gpu"):
        pytest.fail("this test needs CUDA, which torch does not see, and --require-gpu was given")
    pytest.skip("needs CUDA")


@pytest.fixture(autouse=True)
def _few_threads() -> None:
    """Two xdist workers on two cores: more threads only wait for each other."""
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))


@pytest.fixture
def plain_python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run Python code in a fresh process: no beartype, so timing bars and import bars are the shipped code's."""

    def run(code: str, *args: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        return _run([sys.executable, "-c", code, *args], timeout)

    return run


@pytest.fixture(scope="session")
def _starter() -> Iterator[Starter]:
    started = Starter()
    yield started
    started.close()


@pytest.fixture
def sparkit_cli(_starter: Starter) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the `sparkit` command in a process of its own, as a person would; really started when `env` is given."""

    def run(*args: str, timeout: float = 300, **env: str) -> subprocess.CompletedProcess[str]:
        if not env:
            return _starter.run(args, timeout, {**os.environ, **PLAIN})
        return _run([sys.executable, "-m", "sparkit", *args], timeout, env)

    return run


def _run(command: list[str], timeout: float, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **PLAIN, **(env or {})}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, check=False, env=environment, cwd=ROOT
    )

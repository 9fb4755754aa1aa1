"""Test files of thousands of engine steps run in a process of their own, without beartype: five times faster there.

The files are not called test_*.py, so that pytest collects them only when they are named. Types are checked on the
same code by every other test.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
OPTIONS = "addopts=--import-mode=importlib --strict-markers --strict-config"


def assert_passes(file: str, *, marks: str = "not deep", at_least: int, timeout: float = 590) -> None:
    """Runs the tests of a file; what failed is shown as pytest shows it.

    Args:
        file: from the repository's root.
        marks: as pytest's -m.
        at_least: tests that must have passed: a file that collects nothing is no success.
        timeout: seconds.
    """
    command = [sys.executable, "-m", "pytest", file, "-q", "-x", "-m", marks, "-p", "no:cacheprovider", "-o", OPTIONS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-1000:]
    num = int(done.stdout.rsplit(" passed", 1)[0].rsplit(maxsplit=1)[-1])
    assert num >= at_least, done.stdout[-500:]

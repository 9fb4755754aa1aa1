"""kill -9 while writing leaves the old file or the new one, and the next run removes what was left and says so.

The process dies before a chosen line of sparkit (seeded choice over all lines that a whole write runs, and over those
that make the file), or after a
chosen time, in the middle of a library's call.
"""

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.robustness.writers import WRITERS
from tests.robustness.zygote import Ended, Zygote


def _write(forks: Zygote, writer: str, folder: Path, version: int, **end: float) -> dict[str, Any] | None:
    """What the process said, or None when it was killed."""
    job = forks.job(job="write", writer=writer, folder=str(folder), version=version, **end)
    try:
        said: dict[str, Any] = job.hear()
    except Ended as ended:
        assert str(ended) in ("killed by SIGKILL", "killed by SIGALRM"), ended  # noqa: PT017
        return None
    finally:
        job.close()
    return said


def _leftovers(folder: Path) -> list[Path]:
    return sorted(folder.rglob(".*.part"))


def _die_once(forks: Zygote, writer: str, old: Path, folder: Path, **end: float) -> tuple[int | None, bool]:
    """Which version a killed write left, and whether it left scratch; the next write must mend and say both."""
    shutil.copytree(old, folder)
    is_done = _write(forks, writer, folder, 2, **end) is not None
    found, left = WRITERS[writer].version(folder), _leftovers(folder)
    assert found in (1, 2)
    assert found == 2 or not is_done
    after = _write(forks, writer, folder, 2)
    assert after is not None
    assert WRITERS[writer].version(folder) == 2
    if found == 1 and left:  # the next write came to the same place
        assert any("a run that was killed left behind" in text for text in after["said"]), (left, after["said"])
        assert _leftovers(folder) == []
    if writer == "training":
        assert any(f"going on from step {found}" in text for text in after["said"])
    return found, bool(left)


def _die_often(forks: Zygote, writer: str, tmp_path: Path, num: int) -> None:
    generator, old = random.Random(writer), tmp_path / "old"
    old.mkdir()
    assert _write(forks, writer, old, 1) is not None
    assert WRITERS[writer].version(old) == 1
    shutil.copytree(old, tmp_path / "whole")
    whole = _write(forks, writer, tmp_path / "whole", 2)
    assert whole is not None
    anywhere = generator.sample(range(1, whole["lines"] + 1), min(num, whole["lines"]))
    doors = generator.sample(whole["doors"], min(num, len(whole["doors"])))
    lines = sorted({*anywhere, *doors, whole["lines"]})
    found = [_die_once(forks, writer, old, tmp_path / f"line-{line}", line=line) for line in lines]
    for i in range(num // 2):
        _die_once(forks, writer, old, tmp_path / f"time-{i}", seconds=generator.uniform(1e-4, 2e-2))
    assert {version for version, _ in found} == {1, 2}
    assert any(left for _, left in found)


@pytest.mark.parametrize("writer", WRITERS)
def test_a_killed_write_leaves_the_old_or_the_new(forks: Zygote, tmp_path: Path, writer: str) -> None:
    """Kills: writing in place; scratch that nobody removes; a run that resumes without a word."""
    _die_often(forks, writer, tmp_path, 10)


@pytest.mark.slow
@pytest.mark.parametrize("writer", WRITERS)
def test_many_killed_writes(forks: Zygote, tmp_path: Path, writer: str) -> None:
    """Kills: the same, at two hundred places."""
    _die_often(forks, writer, tmp_path, 200)

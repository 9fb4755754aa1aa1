"""Bent files of every kind: each ends in success or in one line that names the file, under 2 s of CPU and 512 MB.

Each example is read in a child process (`tests.robustness.zygote`) with the code as shipped; a worker that dies, hangs,
runs out of memory, panics or opens something outside the folder is the failure, and hypothesis prints the bytes.
"""

import base64
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.robustness.damage import damaged
from tests.robustness.readers import READERS, Reader
from tests.robustness.zygote import Ended, Job, Zygote

CI_EXAMPLES, DEEP_EXAMPLES = 500, 5000


class Nursery:
    """One worker for a reader; a new one when it has died."""

    def __init__(self, forks: Zygote, name: str, folder: Path) -> None:
        self.forks, self.name, self.folder = forks, name, folder
        self.job: Job | None = None

    def read(self, reader: Reader, good: bytes, content: bytes) -> dict[str, str]:
        if self.job is None:
            (self.folder / reader.file).write_bytes(good)
            self.job = self.forks.job(job="fuzz", reader=self.name, folder=str(self.folder))
        (self.folder / reader.file).write_bytes(content)
        try:
            return self.job.ask(None)
        except Ended as end:
            self.close()
            return {"fault": f"the process is gone: {end}"}

    def close(self) -> None:
        if self.job is not None:
            self.job.close()
        self.job = None


def _hold(forks: Zygote, name: str, folder: Path, num_examples: int) -> dict[str, int]:
    """Reads so many bent files; returns how they ended."""
    reader, endings = READERS[name], {"ok": 0, "error": 0}
    reader.make(folder)
    good = (folder / reader.file).read_bytes()
    nursery = Nursery(forks, name, folder)
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]

    @settings(max_examples=num_examples, deadline=None, derandomize=True, database=None, suppress_health_check=checks)
    @given(st.just(good) | damaged(reader, good))
    def check(content: bytes) -> None:
        ending = nursery.read(reader, good, content)
        shown = base64.b64encode(content[:3000]).decode()
        assert "fault" not in ending, f"{name}: {ending['fault']}\nbase64 of {reader.file} ({len(content)}): {shown}"
        endings[next(iter(ending))] += 1

    try:
        check()
    finally:
        nursery.close()
    return endings


@pytest.mark.parametrize("name", READERS)
def test_bent_files_end_well(forks: Zygote, tmp_path: Path, name: str) -> None:
    """Kills: a size, count, offset or nesting believed; a library's panic; an exception that no user can read.

    Both endings are seen, so the bent files reach past the first check and do not all pass.
    """
    endings = _hold(forks, name, tmp_path, CI_EXAMPLES)
    assert endings["ok"] > 0
    assert endings["error"] > 20


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore:Generating overly large repr")  # an example may be a file of 150 kB
@pytest.mark.parametrize("name", READERS)
def test_ten_times_as_many_bent_files(forks: Zygote, tmp_path: Path, name: str) -> None:
    """Kills: the same, rarer."""
    _hold(forks, name, tmp_path, DEEP_EXAMPLES)

"""No space left: one line that names the file, the old file untouched, nothing half-written beside it."""

from pathlib import Path

import pytest

from sparkit.cli.documents import write_json
from sparkit.cli.errors import sentence
from tests.robustness.writers import WRITERS
from tests.robustness.zygote import Zygote


@pytest.mark.parametrize("writer", WRITERS)
def test_a_full_disk(forks: Zygote, tmp_path: Path, writer: str) -> None:
    """Every file is cut at 100 bytes. Kills: writing in place, scratch left, a library's own exception."""
    first = forks.job(job="write", writer=writer, folder=str(tmp_path), version=1)
    first.hear()
    job = forks.job(job="full", writer=writer, folder=str(tmp_path), size=100)
    answer = job.hear()
    for one in (first, job):
        one.close()
    assert str(tmp_path) in answer["error"]
    assert "large" in answer["error"]  # EFBIG here, ENOSPC on a full disk: the same way out
    assert WRITERS[writer].version(tmp_path) == 1
    assert list(tmp_path.rglob(".*.part")) == []


def test_a_document_where_nothing_can_be_written(tmp_path: Path) -> None:
    """Kills: an error that names the temporary file, or no file."""
    (tmp_path / "x").mkdir()
    with pytest.raises(OSError, match=r"cannot write .*x: Is a directory") as caught:
        write_json({"a": 1}, str(tmp_path / "x"))
    assert ".part" not in sentence(caught.value)
    assert list(tmp_path.rglob(".*.part")) == []

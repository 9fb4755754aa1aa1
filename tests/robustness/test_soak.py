"""benchmarks/soak.py: a short run in the test suite's night part, and a clean stop on SIGINT and SIGTERM."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def _command(out: Path, minutes: float, requests: int) -> list[str]:
    options = ["--minutes", str(minutes), "--requests", str(requests), "--solo", "4", "--out", str(out)]
    return [sys.executable, str(ROOT / "benchmarks" / "soak.py"), *options]


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_256_requests_for_ten_minutes(tmp_path: Path) -> None:
    """Nothing lost, nothing mixed, all slots free, memory within 5%. Kills: a slot, feature or cache that is kept."""
    done = subprocess.run(_command(tmp_path / "soak.json", 10, 256), cwd=ROOT, capture_output=True, check=False)
    result = json.loads((tmp_path / "soak.json").read_text())
    assert done.returncode == 0, result
    assert (result["lost"], result["num_mixed"], result["is_drained"]) == (0, 0, True)
    assert result["memory_growth"] < 1.05


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_partial_numbers(tmp_path: Path, number: signal.Signals) -> None:
    """Kills: a traceback, no document, a document that looks whole."""
    process = subprocess.Popen(_command(tmp_path / "soak.json", 10, 8), cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    process.stderr.readline()  # the first line of progress: it runs
    time.sleep(2)
    process.send_signal(number)
    rest = process.communicate(timeout=120)[1]
    assert process.returncode == 128 + number, rest
    assert "Traceback" not in rest
    result = json.loads((tmp_path / "soak.json").read_text())
    assert result["is_complete"] is False
    assert result["is_good"] is True

"""Commands forked from a waiting Python answer as commands that are really started."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Cli = Callable[..., CompletedProcess[str]]
REPORT = "import os, sys; print(sys.argv, os.environ['LAMP'], os.getcwd(), __import__('sparkit').__file__)"
CASES = {
    "a mistake": ("prove", "--scheduler", "gredy"),
    "a document": ("list", "verifier", "--json", "-"),
    "a plugin that reports": ("--plugin", "report.py", "list", "verifier"),
    "a plugin that raises": ("--plugin", "raise.py", "list"),
    "a plugin that ends": ("--plugin", "end.py", "list"),
    "a plugin that is killed": ("--plugin", "kill.py", "list"),
}
PLUGINS = {
    "report.py": REPORT,
    "raise.py": "raise BaseException('lamp')",
    "end.py": "import atexit; atexit.register(print, 'at the end'); raise SystemExit(7)",
    "kill.py": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
}


@pytest.mark.parametrize("case", CASES)
def test_both_say_the_same(case: str, sparkit_cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: exit codes, outputs, an environment or a folder of the waiting process instead of the command's own."""
    monkeypatch.setenv("LAMP", "lit")
    for name, code in PLUGINS.items():
        (tmp_path / name).write_text(code)
    args = [str(tmp_path / word) if word in PLUGINS else word for word in CASES[case]]
    forked, started = sparkit_cli(*args), sparkit_cli(*args, LAMP="lit")
    assert (forked.returncode, forked.stdout) == (started.returncode, started.stdout)
    assert forked.stderr.splitlines()[-1:] == started.stderr.splitlines()[-1:]
    assert ("Traceback" in forked.stderr) == ("Traceback" in started.stderr)


def test_a_command_that_hangs_is_ended(sparkit_cli: Cli, tmp_path: Path) -> None:
    """Kills: a test that waits for ever; a waiting process that is lost with the command."""
    (tmp_path / "hang.py").write_text("import time; time.sleep(60)")
    with pytest.raises(subprocess.TimeoutExpired):
        sparkit_cli("--plugin", str(tmp_path / "hang.py"), "list", timeout=3)
    assert sparkit_cli("--version").returncode == 0

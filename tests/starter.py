"""A Python that has imported torch and waits: it forks for each `sparkit` command, so that no command pays for torch.

    connect -> fork -> `python -m sparkit ARGS` in the child, from its first import of sparkit to the end of Python

The child is a process of its own with the environment, the folder and the outputs it would have been started with.
sparkit itself is never imported here: a command sees only what it imports, and no type checks. What a start costs, and
what it must not import, are asked of real starts (the fixture `plain_python`, `tests/docs/test_readme.py`).
"""

import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


class Starter:
    """The test's end of the line."""

    def __init__(self) -> None:
        self.socket, other = socket.socketpair()
        command = [sys.executable, "-m", "tests.starter", str(other.fileno())]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, pass_fds=[other.fileno()])
        other.close()
        self.answers = self.socket.makefile("r", encoding="utf-8")

    def run(self, args: tuple[str, ...], timeout: float, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """As `subprocess.run([sys.executable, "-m", "sparkit", *args])` with its output captured."""
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / name for name in ("stdout", "stderr")]
            order = {"args": args, "outputs": list(map(str, paths)), "environ": environ, "timeout": timeout}
            self.socket.sendall(json.dumps(order).encode() + b"\n")
            code = json.loads(self.answers.readline())
            said = [path.read_text(encoding="utf-8") for path in paths]
        if code is None:
            raise subprocess.TimeoutExpired(args, timeout, *said)
        return subprocess.CompletedProcess(args, code, *said)

    def close(self) -> None:
        self.answers.close()
        self.socket.close()
        assert self.process.wait(60) == 0


# ---------------------------------------------------------------------------------------------- the process itself


def serve(number: int) -> dict[str, Any] | None:
    """The order, in the child that is to follow it; None in the parent, when the line is closed."""
    with socket.socket(fileno=number) as line, line.makefile("r", encoding="utf-8") as orders:
        for text in orders:
            order = json.loads(text)
            timeout, child = order.pop("timeout"), os.fork()
            if child == 0:
                return order  # type: ignore[no-any-return]
            line.sendall(json.dumps(waited(child, timeout)).encode() + b"\n")
    return None


def waited(child: int, timeout: float) -> int | None:
    """The exit code as `subprocess` gives it; None: it was killed when its time was up."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def become(args: list[str], outputs: list[str], environ: dict[str, str]) -> None:
    """Runs the command here; what it raises, and its exit code, are this process's own."""
    assert "sparkit" not in sys.modules, "a command would find what another one imports"
    for number, path in enumerate(outputs, start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    os.environ.clear()
    os.environ.update(environ)
    sys.argv[1:] = args
    runpy.run_module("sparkit", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    import torch  # noqa: F401 - what every command would wait for

    wanted = serve(int(sys.argv[1]))
    if wanted is not None:
        become(**wanted)

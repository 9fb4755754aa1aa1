"""One process imports everything and forks a worker for each job: cheap to start, limited, safe to lose.

    connect -> fork a keeper -> fork the worker;  the worker answers in JSON lines, the keeper's last line says how it
    ended: {"end": wait status}

`python -m tests.robustness.zygote SOCKET` serves; `Zygote` is the other side. The worker runs the code as shipped, not
under the type checks of the tests.
"""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SINGLE = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS", "MALLOC_ARENA_MAX")
WALL_SECONDS = 60.0  # of one answer, before the worker counts as hanging


class Ended(Exception):  # noqa: N818 - it is not always an error
    """The worker is gone; the text says by what."""


class Job:
    """The test's end of a worker."""

    def __init__(self, address: Path, order: dict[str, Any]) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(WALL_SECONDS)
        self.socket.connect(str(address))
        self.lines = self.socket.makefile("r", encoding="utf-8")
        self.tell(order)

    def tell(self, message: Any) -> None:
        try:
            self.socket.sendall(json.dumps(message).encode() + b"\n")
        except BrokenPipeError:
            self.hear()

    def hear(self) -> Any:
        """The next answer.

        Raises:
            Ended: when the worker has ended or does not answer.
        """
        try:
            line = self.lines.readline()
        except TimeoutError as error:
            raise Ended(f"no answer in {WALL_SECONDS} s") from error
        answer = json.loads(line) if line else {"end": None}
        if isinstance(answer, dict) and "end" in answer:
            raise Ended(_told(answer["end"]))
        return answer

    def ask(self, message: Any) -> Any:
        self.tell(message)
        return self.hear()

    def close(self) -> None:
        self.lines.close()
        self.socket.close()


def _told(status: int | None) -> str:
    if status is None:
        return "connection lost"
    if os.WIFSIGNALED(status):
        return f"killed by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"exit code {os.WEXITSTATUS(status)}"


class Zygote:
    """The process that forks."""

    def __init__(self, folder: Path) -> None:
        self.address = folder / "zygote"
        environment = os.environ | dict.fromkeys(SINGLE, "1") | {"TOKENIZERS_PARALLELISM": "false"}
        command = [sys.executable, "-W", "ignore", "-m", "tests.robustness.zygote", str(self.address)]
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def job(self, **order: Any) -> Job:
        return Job(self.address, order)

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def zygote(folder: Path) -> Iterator[Zygote]:
    made = Zygote(folder)
    try:
        yield made
    finally:
        made.close()


# ---------------------------------------------------------------------------------------------- the process itself


def limit(megabytes: int) -> None:
    """Caps the address space at so much above what it is now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + megabytes * 1024 * 1024
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def serve(address: str, jobs: dict[str, Callable[..., None]]) -> None:
    """Forks a keeper for each connection."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print("ready", flush=True)
        while True:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _keep(connection, jobs)
            connection.close()


def _keep(connection: socket.socket, jobs: dict[str, Callable[..., None]]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        _work(connection, jobs)
    status = os.waitpid(child, 0)[1]
    try:
        connection.sendall(json.dumps({"end": status}).encode() + b"\n")
    finally:
        os._exit(0)


def _work(connection: socket.socket, jobs: dict[str, Callable[..., None]]) -> None:
    code = 70
    try:
        with connection.makefile("r", encoding="utf-8") as lines:
            order = json.loads(next(lines))

            def answer(message: Any) -> None:
                connection.sendall(json.dumps(message).encode() + b"\n")

            jobs[order.pop("job")](lines, answer, **order)
        code = 0
    finally:
        os._exit(code)


if __name__ == "__main__":
    from tests.robustness.jobs import JOBS, warm_up

    warm_up()
    serve(sys.argv[1], JOBS)

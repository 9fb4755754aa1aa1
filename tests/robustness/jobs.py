"""What a worker can be asked to do, and which endings of a reader are right ones.

Right: no error; or a `ValueError`, `LookupError` or `FileNotFoundError` whose text is one printable line that names the
file, with no failed allocation behind it. Wrong: every other exception, a text that floods or bends a terminal, a file
or a program opened outside the folder.
"""

import logging
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sparkit.cli.errors import sentence

CPU_SECONDS = 2.0
MEGABYTES = 512
MAX_MESSAGE = 600
CLEAN = (ValueError, LookupError, FileNotFoundError)
READABLE = tuple(map(os.path.realpath, (sys.prefix, sys.base_prefix, Path(__file__).parents[2], "/proc", "/sys")))
FORBIDDEN = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "socket.connect", "pickle.find_class")

DOORS = ("writing", "write_tensors", "write_folder", "new_folder")  # where sparkit makes a file

trespasses: list[str] = []


def warm_up() -> None:
    """Reads and writes everything once, so that no worker imports anything."""
    import tempfile

    from tests.robustness.readers import READERS
    from tests.robustness.writers import WRITERS

    with tempfile.TemporaryDirectory() as scratch:
        for i, part in enumerate((*READERS.values(), *WRITERS.values())):
            folder = Path(scratch) / str(i)
            folder.mkdir()
            if isinstance(part, type(next(iter(READERS.values())))):
                part.make(folder)
                part.read(folder)
            else:
                part.write(folder, 1)
                part.write(folder, 2)
                part.version(folder)


def fuzz(lines: Iterator[str], answer: Callable[[Any], None], reader: str, folder: str) -> None:
    """Reads the files of `folder` each time a line comes."""
    from tests.robustness.readers import READERS
    from tests.robustness.zygote import limit

    read = READERS[reader].read
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # panics of libraries write there
    read(Path(folder))  # imports and first allocations are not the example's
    _watch(folder)
    limit(MEGABYTES)
    for _ in lines:
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        fault = outcome(read, Path(folder))
        signal.setitimer(signal.ITIMER_PROF, 0)
        answer(fault)


def outcome(read: Callable[[Path], Any], folder: Path) -> dict[str, str]:
    """How reading ended: {"ok": ...}, {"error": text} or {"fault": why it is wrong}."""
    trespasses.clear()
    try:
        read(folder)
    except BaseException as error:
        found = _judged(error, folder)
    else:
        found = {"ok": ""}
    return {"fault": f"reached outside its folder: {trespasses[0]}"} if trespasses else found


def _judged(error: BaseException, folder: Path) -> dict[str, str]:
    text = f"{type(error).__name__}: {error}"
    line = " ".join(str(error).split())
    if isinstance(error, FileNotFoundError) and error.strerror:
        line = f"{error.filename}: {error.strerror}"
    if type(error) not in CLEAN:
        return {"fault": f"{_place(error)} {text[:300]}"}
    if _ran_out(error):
        return {"fault": f"{_place(error)} a huge allocation behind {text[:300]}"}
    if str(folder) not in line:
        return {"fault": f"{_place(error)} does not name the file: {text[:300]}"}
    if not line.isprintable():
        return {"fault": f"{_place(error)} unprintable characters in {line[:300]!r}"}
    if len(line) > MAX_MESSAGE:
        return {"fault": f"{_place(error)} a message of {len(line)} characters: {line[:300]}"}
    return {"error": line}


def _place(error: BaseException) -> str:
    trace, place = error.__traceback__, ""
    while trace is not None:
        if "/sparkit/" in trace.tb_frame.f_code.co_filename:
            place = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}:"
        trace = trace.tb_next
    return place


def _ran_out(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, MemoryError) or "allocate" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _watch(folder: str) -> None:
    inside = os.path.realpath(folder)

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event in FORBIDDEN:
            trespasses.append(f"{event} {args[:1]}")
        if event == "open" and isinstance(args[0], str | bytes):
            path = os.path.realpath(os.fsdecode(args[0]))
            writes = isinstance(args[1], str) and bool(set(args[1]) & set("wax+"))
            if not path.startswith(inside) and (writes or not path.startswith((*READABLE, "/dev/null"))):
                trespasses.append(f"open {path}")

    sys.addaudithook(hook)


def write(
    lines: Iterator[str], answer: Callable[[Any], None], writer: str, folder: str, version: int, **end: float
) -> None:
    """Writes a version of a file, and is killed on the way.

    Args:
        lines: not read.
        answer: told how many lines of sparkit ran, which of them were of `DOORS`, and what was logged.
        writer: a key of `tests.robustness.writers.WRITERS`.
        folder: where it writes.
        version: what it writes.
        end: `line`, the number of the line of sparkit before which SIGKILL comes; or `seconds` after which the process
            is gone without another instruction (the default action of SIGALRM).
    """
    from tests.robustness.writers import WRITERS

    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("sparkit").addHandler(handler)
    ran, doors = 0, list[int]()

    def trace(frame: Any, event: str, arg: Any) -> Any:
        nonlocal ran
        if "/sparkit/" not in frame.f_code.co_filename:
            return None
        ran += 1
        if frame.f_code.co_name in DOORS:
            doors.append(ran)
        if ran == end.get("line"):
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    if "seconds" in end:
        signal.setitimer(signal.ITIMER_REAL, end["seconds"])
    else:
        sys.settrace(trace)
    WRITERS[writer].write(Path(folder), version)
    sys.settrace(None)
    signal.setitimer(signal.ITIMER_REAL, 0)
    answer({"lines": ran, "doors": doors, "said": said})


def full(lines: Iterator[str], answer: Callable[[Any], None], writer: str, folder: str, size: int) -> None:
    """Writes version 2 where no file can grow past `size` bytes, and tells how that ended."""
    from tests.robustness.writers import WRITERS

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # then the write fails as on a full disk
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    try:
        WRITERS[writer].write(Path(folder), 2)
    except OSError as error:
        answer({"error": sentence(error)})
    else:
        answer({"ok": ""})


JOBS = {"fuzz": fuzz, "write": write, "full": full}

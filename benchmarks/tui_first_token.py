"""Seconds from the start of `sparkit tui` to the first committed token on the screen; the bar is 5 (median of 5).

Each start is a process of its own on a pseudo-terminal of 120x40, as a person's is; the screen is read from what the
process writes. Beside the wall time stands the processor time of the process: on a busy machine only that one tells.

    python benchmarks/tui_first_token.py [STARTS]      # ends with one JSON line
"""

import json
import os
import pty
import re
import resource
import select
import statistics
import struct
import sys
import termios
import time
from fcntl import ioctl
from pathlib import Path

NUM, BAR_SECONDS, LIMIT_SECONDS = 5, 5.0, 300.0
COMMAND = (sys.executable, "-m", "sparkit", "tui", "--speed", "100")
SIGN = re.compile(rb"step \d")  # the title of the round's cells: its tokens stand above it
WARM_UP = 1  # the first start reads the files from the disk


def one_start() -> tuple[float, float]:
    """(wall, processor) seconds until the first token is on the screen."""
    began, before = time.perf_counter(), _children_seconds()
    child, terminal = pty.fork()
    if child == 0:
        os.execvp(COMMAND[0], COMMAND)
    ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    seen = b""
    while SIGN.search(seen) is None:
        if time.perf_counter() - began > LIMIT_SECONDS:
            raise TimeoutError(f"no token after {LIMIT_SECONDS:.0f} s; the last output was {seen[-300:]!r}")
        if select.select([terminal], [], [], 0.1)[0]:
            seen += os.read(terminal, 1 << 16)
    wall, used = time.perf_counter() - began, _process_seconds(child)
    os.write(terminal, b"q")
    _drain(terminal)
    os.waitpid(child, 0)
    return wall, used if used is not None else _children_seconds() - before


def _process_seconds(process: int) -> float | None:
    """User and system time of a running process, where the system shows it."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text("ascii").rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _drain(terminal: int) -> None:
    """Reads until the process has closed its side: a full pipe would keep it from ending."""
    try:
        while os.read(terminal, 1 << 16):
            pass
    except OSError:
        os.close(terminal)


def main() -> None:
    """Prints each start, then the medians."""
    num = int(sys.argv[1]) if len(sys.argv) > 1 else NUM
    starts = [one_start() for _ in range(WARM_UP + num)][WARM_UP:]
    for wall, used in starts:
        print(f"{wall:6.2f} s wall   {used:6.2f} s processor")
    wall, used = (statistics.median(column) for column in zip(*starts, strict=True))
    load = os.getloadavg()[0]
    print(f"median {wall:.2f} s, bar {BAR_SECONDS} s; load average {load:.1f}")
    print(json.dumps({"median_seconds": wall, "median_processor_seconds": used, "bar_seconds": BAR_SECONDS,
                      "starts": len(starts), "load_average": load, "cpus": os.cpu_count()}))  # fmt: skip


if __name__ == "__main__":
    main()

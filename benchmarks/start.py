"""How soon the command line answers and how much memory it takes: `--help`, the first token, a run at batch 1.

Each is a process of its own, imports included, run several times; the capacity curve is measured once before. The time
of a first token is that of a whole command that generates one, its table included: an upper bound.

    python benchmarks/start.py --out benchmarks/results/start-DEVICE-DATE.json
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from sparkit.cli.environment import environment
from sparkit.files import write_json

PROMPT = ("--prompt", "What is 12 times 7?", "--drafter", "dspark", "--scheduler", "greedy")
COMMANDS = {
    "help": ("--help",),
    "first_token": ("compose", *PROMPT, "--max-new-tokens", "1"),
    "batch_1": ("compose", "--drafter", "dspark", "--scheduler", "greedy", "--num-prompts", "2"),
}


def run(arguments: tuple[str, ...]) -> tuple[float, float]:
    """Wall seconds and peak megabytes of one command."""
    begun = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "sparkit", *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    took = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"sparkit {' '.join(arguments)}: exit code {process.returncode}")
    return took, usage.ru_maxrss / 1024  # kilobytes on Linux


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    run(COMMANDS["first_token"])  # the capacity curve, and the file cache
    found = {}
    for name, arguments in COMMANDS.items():
        seen = [run(arguments) for _ in range(options.repeats if name != "batch_1" else 1)]
        seconds, megabytes = ([one[i] for one in seen] for i in (0, 1))
        found[name] = {"seconds": seconds, "median_seconds": median(seconds), "peak_megabytes": max(megabytes)}
    print(json.dumps(found, indent=1))
    if options.out:
        write_json(options.out, {"schema": "sparkit.start/1", "environment": environment("cpu"), "commands": found})

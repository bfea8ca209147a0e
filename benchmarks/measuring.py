"""What a command of meta-eval costs, for the benchmarks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import NamedTuple


class Cost(NamedTuple):
    """Wall seconds, seconds of CPU with those of children, peak resident GB of the process, what it said, exit code."""

    seconds: float
    cpu: float
    memory: float
    said: str
    code: int = 0


# A process is counted the memory of the one that started it, up to its exec: this one is small.
_START = """
import json, os, subprocess, sys, time
started = time.perf_counter()
process = subprocess.Popen(sys.argv[2:])
_, status, usage = os.wait4(process.pid, 0)
seconds = time.perf_counter() - started
cpu, code = usage.ru_utime + usage.ru_stime, os.waitstatus_to_exitcode(status)
with open(sys.argv[1], "w") as file:
    json.dump([seconds, cpu, usage.ru_maxrss, code], file)
"""


def measured(*command: str, codes: tuple[int, ...] = (0, 1)) -> Cost:
    """Run a program to its end; another exit code than ``codes`` ends the benchmark."""
    with tempfile.NamedTemporaryFile() as file:
        start = [sys.executable, "-I", "-S", "-c", _START, file.name, *command]
        # An installed package has its bytecode: a checkout gets it at the first start, unless the environment forbids.
        compiled = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        said = subprocess.run(
            start, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True, env=compiled
        ).stdout
        seconds, cpu, memory, code = json.load(file)
    if code not in codes:
        sys.exit(said)
    return Cost(seconds, cpu, memory * (1 if sys.platform == "darwin" else 1024) / 1e9, said, code)


def meta_eval(*arguments: str, codes: tuple[int, ...] = (0, 1)) -> Cost:
    """What a command of meta-eval costs."""
    return measured(sys.executable, "-m", "meta_eval", *arguments, codes=codes)

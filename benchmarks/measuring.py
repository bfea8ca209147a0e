"""What a command of meta-eval costs, for the benchmarks."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import NamedTuple


class Cost(NamedTuple):
    """Wall seconds, seconds of CPU with those of children, peak resident GB of the process alone, and its stderr."""

    seconds: float
    cpu: float
    memory: float
    said: str


def measured(*command: str, codes: tuple[int, ...] = (0, 1)) -> Cost:
    """Run a program to its end; another exit code than ``codes`` ends the benchmark."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    if os.waitstatus_to_exitcode(status) not in codes:
        sys.exit(said)
    memory = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e9
    return Cost(seconds, usage.ru_utime + usage.ru_stime, memory, said)


def adopt_orphans() -> None:
    """Let processes whose parents end before them become children of this one (Linux), so that they are counted."""
    import ctypes

    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def used_by_all() -> float:
    """Seconds of CPU of all processes that were started and have ended; it waits for those that are about to."""
    import resource

    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def meta_eval(*arguments: str) -> Cost:
    """What a command of meta-eval costs."""
    return measured(sys.executable, "-m", "meta_eval", *arguments)

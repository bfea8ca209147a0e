"""Runs a command in a process group of its own, and ends it and all that it started when standard input ends.

Started as a script, with nothing of meta-eval: ``python watchdog.py COMMAND…``. Whoever started it holds the other end
of its standard input; however that one ends, kill -9 included, the system closes it. An engine is not left alone on the
GPUs then. Its exit status is the command's.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

# Signals in the order of their urgency, and the seconds that each is given.
_STEPS = ((signal.SIGINT, 20.0), (signal.SIGTERM, 10.0), (signal.SIGKILL, 5.0))
_TICK = 0.2

# Seconds of each step for what outlives the command itself: it has no work left to end in order.
_REST = 2.0

# Signals that came.
_told: list[bool] = []

# Of prctl(2).
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def main(command: list[str]) -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: _told.append(True))
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)  # what the command leaves behind becomes our child, and is found
    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, process_group=0,
        preexec_fn=lambda: _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM),  # noqa: PLW1509 (there are no threads)
    )  # fmt: skip
    while child.poll() is None and not _over():
        pass
    status = child.poll()
    for number, seconds in _STEPS:
        if not _signalled(child, number):
            break
        began, alone = time.monotonic(), None if child.returncode is None else time.monotonic()
        while _alive(child):
            now = time.monotonic()
            alone = now if alone is None and child.returncode is not None else alone
            if now - began > seconds or (alone is not None and now - alone > _REST):
                break
            time.sleep(_TICK)
    status = child.poll() if status is None else status
    return 1 if status is None else status if status >= 0 else 128 - status


def _over() -> bool:
    """Whether standard input ended, or a signal came; waits a moment for it."""
    ready, _, _ = select.select([0], [], [], _TICK)
    return bool(_told) or (bool(ready) and not os.read(0, 1024))


def _signalled(child: subprocess.Popen[bytes], number: int) -> bool:
    """Whether there was somebody left to be told."""
    if not _alive(child):
        return False
    with contextlib.suppress(OSError):
        os.killpg(child.pid, number)
    for pid in _descendants():
        with contextlib.suppress(OSError):
            if number == signal.SIGKILL or os.getpgid(pid) != child.pid:
                os.kill(pid, number)
    return True


def _alive(child: subprocess.Popen[bytes]) -> bool:
    """Whether the command, its group or anything that it started still runs; the dead are buried."""
    child.poll()
    left = list(_descendants())
    for pid in left:
        if pid != child.pid:
            with contextlib.suppress(OSError):
                os.waitpid(pid, os.WNOHANG)
    if child.returncode is None or any(_runs(pid) for pid in left):
        return True
    try:
        os.killpg(child.pid, 0)
    except OSError:
        return False
    return sys.platform != "linux"  # there the list above is the better witness: a zombie of the group is no work


def _runs(pid: int) -> bool:
    return _stat(pid)[0] not in ("", "Z", "X")


def _descendants() -> Iterator[int]:
    """Our children and theirs, where /proc tells."""
    parents: dict[int, int] = {}
    if sys.platform == "linux":
        for name in (path.name for path in Path("/proc").iterdir()):
            if name.isdigit():
                parents[int(name)] = int(_stat(int(name))[1] or 0)
    wanted, is_growing = {os.getpid()}, True
    while is_growing:
        more = {pid for pid, parent in parents.items() if parent in wanted} - wanted
        wanted |= more
        is_growing = bool(more)
    yield from wanted - {os.getpid()}


def _stat(pid: int) -> tuple[str, str]:
    """State and parent of a process; empty where it is gone. Its name, in brackets, may hold anything."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        return words[0], words[1]
    except (OSError, IndexError):
        return "", ""


def _prctl(option: int, value: int) -> None:
    """Of Linux; elsewhere, and where it is refused, the group alone is ended."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Runs a command in a new process group, and stops it with all its children when standard input closes.

It runs as a script, without meta-eval: ``python watchdog.py COMMAND…``. The parent holds the other end of standard
input. However the parent ends, even by kill -9, the system closes it, so no engine stays on the GPUs. Its exit status
is the command's.
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

# Signals in order of urgency, and seconds to wait after each.
_STEPS = ((signal.SIGINT, 20.0), (signal.SIGTERM, 10.0), (signal.SIGKILL, 5.0))
_TICK = 0.2

# Seconds per step for processes that outlive the command.
_REST = 2.0

# Signals received.
_stops: list[bool] = []

# Of prctl(2).
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def main(command: list[str]) -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: _stops.append(True))
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)  # orphans of the command become our children, and are found
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
        began, ended_at = time.monotonic(), None if child.returncode is None else time.monotonic()
        while _alive(child):
            now = time.monotonic()
            ended_at = now if ended_at is None and child.returncode is not None else ended_at
            if now - began > seconds or (ended_at is not None and now - ended_at > _REST):
                break
            time.sleep(_TICK)
    status = child.poll() if status is None else status
    return 1 if status is None else status if status >= 0 else 128 - status


def _over() -> bool:
    """Whether standard input closed, or a signal came; waits a moment."""
    ready, _, _ = select.select([0], [], [], _TICK)
    return bool(_stops) or (bool(ready) and not os.read(0, 1024))


def _signalled(child: subprocess.Popen[bytes], number: int) -> bool:
    """Send a signal; return whether a process was left."""
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
    """Whether the command, its group or its descendants still run; reaps ended processes."""
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
    return sys.platform != "linux"  # on Linux the list above is more reliable: zombies of the group do not count


def _runs(pid: int) -> bool:
    return _stat(pid)[0] not in ("", "Z", "X")


def _descendants() -> Iterator[int]:
    """Our descendants, as far as /proc shows them."""
    parents: dict[int, int] = {}
    if sys.platform == "linux":
        for name in (path.name for path in Path("/proc").iterdir()):
            if name.isdigit():
                parents[int(name)] = int(_stat(int(name))[1] or 0)
    family, is_growing = {os.getpid()}, True
    while is_growing:
        more = {pid for pid, parent in parents.items() if parent in family} - family
        family |= more
        is_growing = bool(more)
    yield from family - {os.getpid()}


def _stat(pid: int) -> tuple[str, str]:
    """State and parent of a process; empty if it is gone. Its name, in brackets, may contain anything."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        return words[0], words[1]
    except (OSError, IndexError):
        return "", ""


def _prctl(option: int, value: int) -> None:
    """Call prctl (Linux). Elsewhere, or if refused, only the group is stopped."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

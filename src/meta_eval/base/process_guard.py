"""Ends a process of the command line, even if code of a template or pack is still running.

Python waits without limit for threads, exit hooks and some child programs. Here they get a few seconds, and are then
named and stopped. A faulty template cannot hang a batch job. Programs that call the API are not affected.
"""

from __future__ import annotations

import atexit
import functools
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

from meta_eval.base.display import one_line

_masks = threading.local()


@contextmanager
def interrupt_on_sigterm() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGTERM, with which clusters end jobs. Engines then stop in order.

    Works only in the main thread. Other threads change nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _reset_in_children()
    original = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, original)


def is_interrupted() -> bool:
    """Whether SIGTERM arrived in the current block of `interrupt_on_sigterm`."""
    return signal.getsignal(signal.SIGTERM) is _pass_over


def _interrupt(*_: object) -> None:
    signal.signal(signal.SIGTERM, _pass_over)  # a second SIGTERM would interrupt the cleanup
    raise KeyboardInterrupt


def _pass_over(*_: object) -> None:
    """Ignore the signal. SIG_IGN would be inherited by child programs."""


@functools.cache
def _reset_in_children() -> None:
    """Let SIGTERM end a forked process at once.

    Python runs handlers only between its own instructions. A worker of ``multiprocessing.Pool`` that waits for a lock
    never gets there, and ``Pool.terminate`` would wait for it forever.
    """
    os.register_at_fork(before=_hold, after_in_parent=_release, after_in_child=_reset)


def _hold() -> None:
    """Block the signal between the fork and `_reset`."""
    _masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _release() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _masks.before)


def _reset() -> None:
    if signal.getsignal(signal.SIGTERM) in (_interrupt, _pass_over):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _release()


# Grace period in seconds: for a template's code, and for anything that may be an engine.
GRACE = 5.0
GRACE_OF_OTHERS = 60.0

_leave = os._exit  # saved early, because code of templates may replace it
_folders: set[str] = set()
_threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
_code = 0
_began: float | None = None


def register_last_exit() -> None:
    """Register the last exit hook. Call it at the start of a process that is ours."""
    atexit.register(_last)


@contextmanager
def track_threads(folder: Path) -> Iterator[None]:
    """Remember the folder of threads that start in this block. Processes that are forked in it end here."""
    process, old_threads = os.getpid(), set(threading.enumerate())
    _folders.add(str(folder.resolve()))
    try:
        yield
    finally:
        if os.getpid() != process:
            _leave(0)
        _threads.update(thread for thread in threading.enumerate() if thread not in old_threads and not thread.daemon)


def begin_exit(code: object) -> None:
    """Start to end the process with ``code``. From now on, leftover work has a deadline."""
    global _code, _began
    if not _folders:
        return
    _code, _began = code if isinstance(code, int) else int(code is not None), time.monotonic()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _interrupted)
    threading.Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    """Stop what does not end."""
    began = _began or 0.0
    while True:
        time.sleep(0.1)
        waited = time.monotonic() - began
        work = _at_work() if waited > GRACE else None
        if work is None and waited <= GRACE_OF_OTHERS:
            continue
        place, what = work or ("", "work of a template, a pack or an engine")
        _tell(
            f"error: {place}{what} was still running {waited:.0f} s after the end, and was stopped. lm_eval would wait "
            f"for it too. Let it end by itself, or make it a daemon thread (the exit code would have been {_code})."
        )
        _end_programs()
        _leave(2)


def _at_work() -> tuple[str, str] | None:
    """The folder of code that still runs, and what runs."""
    frames = sys._current_frames()
    for thread in threading.enumerate():
        main = thread is threading.main_thread()
        if thread.daemon or thread.ident not in frames:
            continue
        what = "an exit hook" if main else f"a thread ({thread.name})"
        frame: FrameType | None = frames[thread.ident]
        while frame is not None:
            code = frame.f_code
            if any(Path(folder) in Path(code.co_filename).parents for folder in _folders):
                return f"{code.co_filename}, line {frame.f_lineno}, in {code.co_name}: ", what
            frame = frame.f_back
        if thread in _threads:
            # A folder that is gone was a temporary copy.
            folders = ", ".join(sorted(folder for folder in _folders if Path(folder).exists()))
            return f"{folders or 'a template'}: ", what
    return None


def _last() -> None:
    """Run after all threads and other hooks. Do not wait for the teardown of modules."""
    if _began is None:
        return
    while _programs() and time.monotonic() - _began < GRACE:
        time.sleep(0.05)
    if ended := _end_programs():
        _tell(f"note: stopped programs that the code of a template or a pack left running: {'; '.join(ended)}")
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    with suppress(OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).fflush(None)
    _leave(_code)


def _programs() -> dict[int, str]:
    """Running child processes: id and command. Works only on Linux.

    Helpers of multiprocessing do not count, because they end with this process.
    """
    commands: dict[int, str] = {}
    for file in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            for number in map(int, file.read_text().split()):
                with suppress(OSError):
                    command = Path(f"/proc/{number}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    if command.strip() and "resource_tracker" not in command and "forkserver" not in command:
                        commands[number] = command.strip()  # empty: it ended, but nobody waited for it
    return commands


def _end_programs() -> list[str]:
    programs = _programs()
    for number in programs:
        with suppress(OSError):
            os.kill(number, signal.SIGTERM)
    return [f"{command:.80} (process {number})" for number, command in programs.items()]


def _interrupted(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001 (what a handler is called with)
    _tell("interrupted: the command was done; only code of a template or a pack was still running")
    _leave(130)


def _tell(text: str) -> None:
    """Write to stderr without taking any lock."""
    with suppress(OSError):
        os.write(2, (one_line(text) + "\n").encode())

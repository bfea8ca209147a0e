"""Runs a command, or a call of the API, in a process of its own: a worker.

Templates, packs and plug-ins bring code of others. The user chose it, so it is not hostile. But its mistakes must not
look like ours: stdout is for machines (``sh -c "$(meta-eval prepare)"`` would execute printed text), and exit code 0
means that all is done. So a worker does all of it, and the first process only watches.

- stdout of a worker is stderr. Only meta-eval itself has the real one (`own_stdout`).
- A worker reports its exit code. One that ends without a report was ended by the code of others or by the system: that
  is an error, never a success.
- A signal ends it. It says that it is ending, and then takes its time. One that is too busy to say so is killed.
- What is left of that code after the report has some seconds. Then it is named and stopped, so that a faulty template
  cannot hang a batch job.

The command line forks its worker before it imports anything (`watch`), which costs two milliseconds. A program that
calls the API may have threads, so its calls start another Python (`meta_eval.base.apart`).
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from meta_eval.base.errors import UserError

# Grace period in seconds after the end: for code of others, and for anything that may be an engine.
GRACE = 5.0
GRACE_OF_OTHERS = 60.0

# Seconds in which a worker says after a signal that it is ending.
TO_SAY = 10.0

_WATCHED = {signal.SIGINT, signal.SIGTERM, signal.SIGCHLD}
_INTERRUPTED = 130

# What ends a process that gets no memory: the system, or itself in a library that does not expect it.
_LACKS_MEMORY = (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS)
# The exit code of glibc's dynamic loader, where it gets no memory for a thread.
_LOADER = 127

# How libraries say that there is no memory to load them, or for a thread of theirs.
_NO_MEMORY = (
    "annot allocate memory",
    "failed to map segment",
    "can't start new thread",
    "Failed to launch worker thread",
)
NO_MEMORY = "memory ran out. Free some or allow more (ulimit -v), and run the same command again"

_kept: IO[str] | None = None
_report: int | None = None
_reporter: int | None = None
_told: set[str] = set()
_tell_place: Callable[[str], None] | None = None
_code = 0


def own_stdout() -> Any:
    """The stream for meta-eval's own output on stdout, or None if the program has none."""
    return _kept or sys.stdout


def is_worker() -> bool:
    """Whether code of others may run in this process: it is a worker, or META_EVAL_WORKER=0 asks for it.

    The latter is for debuggers. Then one call at a time is safe.
    """
    return _kept is not None or os.environ.get("META_EVAL_WORKER") == "0"


def tell_place(place: str) -> None:
    """Say that code of this folder or package runs from now on."""
    if place not in _told:
        _told.add(place)
        (_tell_place or _report_place)(place)


def tell_with(tell: Callable[[str], None]) -> None:
    """Call this with each such place, instead of a report to the process that watches."""
    global _tell_place  # noqa: PLW0603 (a process has one)
    _tell_place = tell


def report_end(code: object) -> None:
    """Report the exit code. From now on, what is left has a deadline.

    Args:
        code: As of SystemExit.
    """
    global _code  # noqa: PLW0603 (a process has one)
    _code = code if isinstance(code, int) else int(code is not None)
    if _report is None:
        return
    while signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # that is the watching process's from now on
        with contextlib.suppress(KeyboardInterrupt):  # it came at this moment, and the work is done
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    waited_for = []
    if _told:
        import faulthandler
        import threading

        faulthandler.register(signal.SIGUSR1, file=_report, all_threads=True)
        waited_for = [thread.ident for thread in threading.enumerate() if not thread.daemon]
    _tell(code=_code, threads=waited_for)
    os.kill(os.getppid(), signal.SIGCHLD)  # wakes it


def ran_out_of_memory(error: BaseException | None) -> bool:
    """Whether an exception, or one behind it, says that memory ran out. Then whoever it blames is innocent."""
    from meta_eval.base.display import name_error

    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, MemoryError) or any(words in name_error(error) for words in _NO_MEMORY):
            return True
        error = error.__cause__ or error.__context__
    return False


def report_ending() -> None:
    """Report that a signal came, which ends the command. From now on its order takes what it takes."""
    if os.getpid() == _reporter:  # not in a fork
        _tell(ending=True)


def _report_place(place: str) -> None:
    _tell(place=place)


def _tell(**what: object) -> None:
    import json

    if _report is not None:
        with contextlib.suppress(OSError):
            os.write(_report, json.dumps(what).encode() + b"\n")


def keep_stdout() -> None:
    """Keep stdout away from the code of others, from the start of a process that is ours."""
    global _kept  # noqa: PLW0603 (a process has one stdout)
    encoding, errors = getattr(sys.stdout, "encoding", "utf-8"), getattr(sys.stdout, "errors", None)
    _kept = os.fdopen(os.dup(1), "w", encoding=encoding, errors=errors)
    os.dup2(2, 1)
    os.register_at_fork(after_in_child=_lose_stdout)
    atexit.register(_last)


def _lose_stdout() -> None:
    """Detach a forked process from stdout, so that it neither writes there nor keeps a reader waiting."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, _kept.fileno(), inheritable=False)  # type: ignore[union-attr]
    os.close(nowhere)


def _last() -> None:
    """Run after all threads and other hooks. Do not wait for the teardown of modules."""
    began = time.monotonic()
    while _told and _programs() and time.monotonic() - began < GRACE:
        time.sleep(0.05)
    if _told and (ended := _end_programs()):
        _write(f"note: stopped programs that the code of a template or a pack left running: {'; '.join(ended)}")
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    if _told:
        with contextlib.suppress(OSError, AttributeError):
            import ctypes

            ctypes.CDLL(None).fflush(None)
    os._exit(_code)


def _programs(process: int | str = "self") -> dict[int, str]:
    """Running child processes: id and command. Works only on Linux.

    Helpers of multiprocessing do not count, because they end with their process.
    """
    from pathlib import Path

    commands: dict[int, str] = {}
    with contextlib.suppress(OSError):  # where memory ran out
        for file in Path(f"/proc/{process}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                for number in map(int, file.read_text().split()):
                    with contextlib.suppress(OSError):
                        command = (
                            Path(f"/proc/{number}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                        )
                        if command.strip() and "resource_tracker" not in command and "forkserver" not in command:
                            commands[number] = command.strip()  # empty: it ended, but nobody waited for it
    return commands


def _end_programs(process: int | str = "self") -> list[str]:
    programs = _programs(process)
    for number in programs:
        with contextlib.suppress(OSError):
            os.kill(number, signal.SIGTERM)
    return [f"{command:.80} (process {number})" for number, command in programs.items()]


def _write(text: str) -> None:
    """Write a line to stderr without taking any lock."""
    from meta_eval.base.display import one_line

    with contextlib.suppress(OSError):
        os.write(2, (one_line(text) + "\n").encode())


# In the process that watches


def watch() -> None:
    """Return in a worker. The process that called waits for it, and ends as it does."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:  # closed: the next opened file would get this descriptor, and others would write into it
            os.open(os.devnull, os.O_RDWR)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    reports, report = os.pipe()
    watcher, held = os.pipe()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    worker = os.fork()
    if worker:
        os.close(report)
        os.close(watcher)
        os._exit(_Watch(worker, reports).wait())
    os.close(reports)
    os.close(held)
    end_with(watcher)
    global _report, _reporter
    _report, _reporter = report, os.getpid()
    keep_stdout()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_with(watcher: int) -> None:
    """Get SIGTERM when the other end of a pipe closes: the process that watches was killed. Works only on Linux."""
    import fcntl

    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(watcher, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(watcher, fcntl.F_SETSIG, signal.SIGTERM)
        fcntl.fcntl(watcher, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)


class _Watch:
    """Waits for a worker.

    Attributes:
        code: The exit code that it reported; None before its end.
        places: The folders and packages whose code it ran.
    """

    def __init__(self, worker: int, reports: int) -> None:
        self._worker, self._reports = worker, reports
        os.set_blocking(reports, False)
        self._unread = b""
        self.code: int | None = None
        self.places: list[str] = []
        self._threads: list[int] = []
        self._is_ending = False
        self._must_say: float | None = None  # by when it must have said that it is ending

    def wait(self) -> int:
        """Wait for its end, and return the exit code."""
        deadline: float | None = None
        while True:
            reported = self.code
            ends = [end for end in (deadline, self._must_say) if end is not None]
            got = _next_signal(max(0.0, min(ends) - time.monotonic()) if ends else None)
            status = self._poll()
            self._read()
            if status is not None:
                return self._describe_end(status)
            if got and got[0] != signal.SIGCHLD:
                if reported is not None:
                    self._kill()
                    done = "at its end" if self.code == _INTERRUPTED else "done"
                    _write(f"interrupted: the command was {done}; what was still running was stopped")
                    return _INTERRUPTED
                # Ctrl-C in a terminal reaches the worker itself, which may have reported its end before this one wakes.
                if got[1] and self.code is None:
                    os.kill(self._worker, got[0])
                if self._must_say is None and signal.getsignal(got[0]) is not signal.SIG_IGN:
                    self._must_say = time.monotonic() + TO_SAY
            now = time.monotonic()
            if self._is_ending or self.code is not None:
                self._must_say = None
            elif self._must_say is not None and now >= self._must_say:
                self._kill()
                _write(f"interrupted: the command was too busy to end within {TO_SAY:.0f} s, and was stopped")
                return _INTERRUPTED
            if self.code is None:
                continue
            if deadline is None:
                deadline = now + (GRACE if self.places else GRACE_OF_OTHERS)
            elif now >= deadline:
                found = self._find_work()
                if found or not self.places:
                    self._stop(found, GRACE if found else GRACE_OF_OTHERS)
                    return 2
                self.places, deadline = [], now + GRACE_OF_OTHERS - GRACE

    def _stop(self, found: str | None, waited: float) -> None:
        what = f"{found}: code of a template or a pack" if found else "work of a template, a pack or an engine"
        _write(
            f"error: {what} was still running {waited:.0f} s after the end, and was stopped. lm_eval would wait for it "
            f"too. Let it end by itself, or make it a daemon thread (the exit code would have been {self.code})."
        )
        self._kill()

    def _kill(self) -> None:
        _end_programs(self._worker)
        os.kill(self._worker, signal.SIGKILL)
        os.waitpid(self._worker, 0)

    def _poll(self) -> int | None:
        ended, status = os.waitpid(self._worker, os.WNOHANG)
        return status if ended else None

    def _read(self) -> None:
        """Read what it reported."""
        import json

        lines = (self._unread + self._read_raw()).split(b"\n")
        self._unread = lines.pop()
        for line in lines:
            with contextlib.suppress(ValueError):  # code of others may write there, too
                what = json.loads(line)
                self.code, self._threads = what.get("code", self.code), what.get("threads", self._threads)
                self._is_ending = self._is_ending or "ending" in what
                self.places += [what["place"]] if "place" in what else []

    def _read_raw(self) -> bytes:
        read = b""
        with contextlib.suppress(BlockingIOError):
            while part := os.read(self._reports, 1 << 16):
                read += part
        return read

    def _find_work(self) -> str | None:
        """Where code of others still runs: file, line and function. None if nowhere."""
        import re

        from meta_eval.base.display import name_path

        if not self.places:
            return None
        self._read_raw()
        os.kill(self._worker, signal.SIGUSR1)
        time.sleep(0.2)
        for thread, stack in re.findall(r"hread (0x[0-9a-f]+) .*\n((?:  .*\n)*)", self._read_raw().decode()):
            for file, line, function in re.findall(r'File "(.+)", line (\d+) in (.+)', stack):
                if int(thread, 16) in self._threads and any(
                    file.startswith(f"{os.path.realpath(place)}{os.sep}") for place in self.places
                ):
                    return f"{name_path(file)}, line {line}, in {function}"
        return None

    def _describe_end(self, status: int) -> int:
        """The exit code for the end of the worker. An end without a report is an error."""
        if self.code is not None:
            return self.code
        number = os.waitstatus_to_exitcode(status)
        if number in (-signal.SIGINT, _INTERRUPTED):
            return _INTERRUPTED
        if number == -signal.SIGTERM:
            _write("interrupted: SIGTERM ended the command; no file is half-written")
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
            os.kill(os.getpid(), signal.SIGTERM)
        _write(f"error: {describe_lost_end(self.places, number)}")
        return 2


def describe_lost_end(places: Sequence[str], code: int) -> UserError:
    """The error for a worker that ended without a report.

    Args:
        places: The folders and packages whose code it ran.
        code: Its exit code, or minus the signal that ended it.
    """
    from meta_eval.base.display import name_path
    from meta_eval.base.errors import TemplateError, UserError

    if code < 0 or code == _LOADER:
        by = signal.Signals(-code).name if code < 0 else f"the system's loader (exit code {code})"
        often = "often" if code == -signal.SIGKILL else "perhaps"
        why = f", {often} because memory ran out" if code == _LOADER or -code in _LACKS_MEMORY else ""
        ran = f"; code of {name_path(places[-1])} ran in it" if places else ""
        return UserError(
            f"the process was ended by {by}{why}{ran}",
            hint="The same command goes on from what was saved",
        )
    if not places:
        return UserError(f"a library ended the program (exit code {code})", hint="Above stands why, if it said so")
    return TemplateError(
        f"its code ended the program (exit code {code})",
        where=name_path(places[-1]),
        hint="Raise a ValueError that says what is wrong instead",
    )


def _next_signal(timeout: float | None) -> tuple[int, bool] | None:
    """The next signal that arrives, and whether a process sent it, not the terminal; None after the time in seconds."""
    if hasattr(signal, "sigtimedwait"):
        info = signal.sigwaitinfo(_WATCHED) if timeout is None else signal.sigtimedwait(_WATCHED, timeout)
        return None if info is None else (info.si_signo, info.si_code <= 0)
    end = None if timeout is None else time.monotonic() + timeout  # macOS
    while not (pending := signal.sigpending() & _WATCHED):
        if end is not None and time.monotonic() >= end:
            return None
        time.sleep(0.05)
    return signal.sigwait(pending), not _has_terminal()


def _has_terminal() -> bool:
    """Whether this process is in the foreground of a terminal."""
    with contextlib.suppress(OSError):
        return os.tcgetpgrp(2) == os.getpgrp()
    return False

"""Code of templates and packs at work: what it prints, ends or interrupts is held in.

It is code that the user chose, and no enemy; but its mistakes must not pass for ours. stdout is for machines: a text of
a dataset that is printed there would be executed by ``sh -c "$(meta-eval prepare)"``. An exit code of 0 means that all
is proven.

A thread, a program or an exit hook that such code starts outlives its call. So a process of the command line keeps its
stdout for itself (`keep_stdout`) and, once such code has run, gives nothing back until it ends, which `process_guard`
sees to. The process of a program that calls the API is not ours: there only the thread that runs such code has another
``sys.stdout`` and another ``os._exit``, and file descriptors stay what they are.

A child process would hold such code in without these guards, and is slower. Isolation costs 0.05 ms a call. A started
child costs 0.9 s of CPU until it has imported datasets, and 1.1 s until lm_eval's tasks, beside the 1.5 s that prepare
takes for all of the embedded sample. A forked child costs 0.15 s for 12,000 docs that take 0.02 s, verify would copy
57 MB of samples from it for as many (0.2 s), and a program with threads cannot be forked. What `staging` guards, two
commands that write into one folder, a child process does not.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO, Any, NoReturn

from meta_eval.boundary import process_guard
from meta_eval.boundary.code_lock import has_turn, redirect_streams, take_turn
from meta_eval.boundary.sigterm import is_interrupted
from meta_eval.messages.errors import TemplateError, UserError

_kept: IO[str] | None = None
_leave = os._exit
_process = 0


def keep_stdout() -> None:
    """At the start of a process that is ours: make stdout one that code of templates never gets hold of."""
    global _kept  # noqa: PLW0603 (a process has one stdout)
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:  # closed: the next file that is opened, a pack's own, would be what others write to
            os.open(os.devnull, os.O_RDWR)
    encoding, errors = getattr(sys.stdout, "encoding", "utf-8"), getattr(sys.stdout, "errors", None)
    _kept = os.fdopen(os.dup(1), "w", encoding=encoding, errors=errors)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_lose_stdout)
    process_guard.register_last_exit()


def _lose_stdout() -> None:
    """A process that is forked neither writes there nor keeps who reads it waiting."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, _kept.fileno(), inheritable=False)  # type: ignore[union-attr]
    os.close(nowhere)


def own_stdout() -> Any:
    """The stream for what meta-eval itself says on stdout; None where a program has none."""
    return _kept or sys.stdout


@contextmanager
def isolate_code(folder: Path) -> Iterator[None]:
    """Run code of a folder, one thread at a time.

    What it prints goes to stderr; in a process of the command line also what C code and programs print that it starts.
    SystemExit, KeyboardInterrupt and ``os._exit`` that the code itself brings about are its errors; Ctrl-C and SIGTERM
    are the user's, also where the code swallows them. A process that the code forks ends with the block. All other
    exceptions pass.

    Args:
        folder: Where the code lies, to name the place in it.

    Raises:
        TemplateError: The code ends or interrupts the program.
    """
    with (
        take_turn(),
        process_guard.track_threads(folder),
        _interrupts() as pressed,
        _no_exit(),
        _no_stdout(),
        _no_bytecode(),
    ):
        try:
            yield
        except UserError:
            raise
        except BaseException as error:
            if pressed():
                raise KeyboardInterrupt from None
            if isinstance(error, Exception):
                raise
            raise _ended(error, folder) from None
        if pressed():
            raise KeyboardInterrupt


def _ended(error: BaseException, folder: Path) -> TemplateError:
    frames = traceback.extract_tb(error.__traceback__)
    root = folder.resolve()
    inside = [frame for frame in frames if Path(frame.filename).resolve().is_relative_to(root)]
    last = (inside or frames)[-1]
    what = "ends" if isinstance(error, SystemExit) else "interrupts"
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return TemplateError(
        f"{what} the program ({said})",
        where=f"{last.filename}, line {last.lineno}, in {last.name}",
        hint="Raise a ValueError that says what is wrong instead",
    )


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Whether somebody pressed Ctrl-C, or SIGTERM interrupted the block; only the main thread can tell."""
    pressed, ending_before = threading.Event(), is_interrupted()
    before: Any = None
    if threading.current_thread() is threading.main_thread():
        before = signal.getsignal(signal.SIGINT)

    def press(number: int, frame: FrameType | None) -> None:
        pressed.set()
        before(number, frame)

    if callable(before):
        signal.signal(signal.SIGINT, press)
    try:
        yield lambda: pressed.is_set() or (is_interrupted() and not ending_before)
    finally:
        if callable(before):
            signal.signal(signal.SIGINT, before)


@contextmanager
def _no_exit() -> Iterator[None]:
    """``os._exit`` is SystemExit; that of a child which the code forked stays what it is."""
    global _process
    _process, before = os.getpid(), os._exit
    os._exit = _refuse_exit
    try:
        yield
    finally:
        if _kept is None and os._exit is _refuse_exit:
            os._exit = before


def _refuse_exit(status: int) -> NoReturn:
    if os.getpid() != _process or not (_kept or has_turn()):
        _leave(status)
    raise SystemExit(status)


@contextmanager
def _no_stdout() -> Iterator[None]:
    if _kept is not None:
        _give_up_stdout()
    with redirect_streams(stdout=sys.stderr):
        yield


def _give_up_stdout() -> None:
    """From here on what anybody but us writes to stdout is on stderr."""
    _flush()
    try:
        os.dup2(2, 1)
    except OSError:  # stderr is closed
        nowhere = os.open(os.devnull, os.O_WRONLY)
        if nowhere != 1:
            os.dup2(nowhere, 1)
            os.close(nowhere)


@contextmanager
def _no_bytecode() -> Iterator[None]:
    """A folder stays as its user left it."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


def _flush() -> None:
    """What is written so far goes where it was meant to go, that of C code included."""
    for stream in (sys.stdout, sys.__stdout__):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()  # type: ignore[union-attr]
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).fflush(None)

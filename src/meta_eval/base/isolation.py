"""Runs code of templates and packs without letting it print, exit or interrupt for us.

The user chose this code, so it is not hostile. But its mistakes must not look like ours. stdout is for machines: ``sh
-c "$(meta-eval prepare)"`` would execute printed text. Exit code 0 means that all is verified.

Threads, programs and exit hooks of such code outlive the call. So the command line keeps its stdout for itself
(`keep_stdout`) and never gives it back. `process_guard` ends what is left. A program that calls the API owns its
process. There only the thread that runs such code gets another ``sys.stdout`` and another ``os._exit``. File
descriptors stay unchanged.

A child process would need none of these guards, but it is slower. Isolation costs 0.05 ms per call. A new process costs
0.9 s of CPU to import datasets and 1.1 s to import lm_eval's tasks. `prepare` takes 1.5 s for the whole embedded
sample. A forked process costs 0.15 s for 12,000 docs, which take 0.02 s here. `verify` would copy 57 MB of samples from
it (0.2 s), and a program with threads cannot fork. A child process also does not prevent two commands from writing into
the same folder; `ownership` does.

lm-eval and the code of templates and packs change state of the whole process: registries, caches, log levels. Only one
thread at a time runs them (`take_turn`). Other threads keep their own standard streams meanwhile.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from types import FrameType
from typing import IO, Any, NoReturn

from meta_eval.base import process_guard
from meta_eval.base.errors import TemplateError, UserError
from meta_eval.base.process_guard import is_interrupted

_lock = threading.RLock()
_inside: ContextVar[bool] = ContextVar("inside", default=False)


def _renew_lock() -> None:
    """Replace the lock in a forked process, where its owner may not exist."""
    global _lock  # noqa: PLW0603 (a process has one)
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)


@contextmanager
def take_turn() -> Iterator[None]:
    """Hold the lock for this block. Blocks may be nested."""
    with _lock:
        token = _inside.set(True)
        try:
            yield
        finally:
            _inside.reset(token)


def has_turn() -> bool:
    """Whether this thread holds the lock."""
    return _inside.get()


def call_outside(call: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of the program, such as a progress display, with the program's own streams and logs."""
    token = _inside.set(False)
    try:
        return call(*arguments)
    finally:
        _inside.reset(token)


def divide_by_thread(inside: Callable[..., Any], others: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls ``inside`` in the thread that holds the lock, and ``others`` elsewhere."""

    def call(*arguments: Any, **keywords: Any) -> Any:
        return (inside if _inside.get() else others)(*arguments, **keywords)

    return call


@contextmanager
def redirect_streams(**streams: Any) -> Iterator[None]:
    """Replace standard streams for this thread, inside a `take_turn` block.

    Args:
        streams: By name (``stdout``, ``stderr``). None discards the output.
    """
    with ExitStack() as stack:
        for name, stream in streams.items():
            stack.enter_context(_DIVIDED[name].giving(stream))
        yield


class _Void(io.TextIOBase):
    """A text stream that discards what is written."""

    def write(self, text: str) -> int:
        return len(text)


_NOWHERE = _Void()


class _Divided:
    """A stream of `sys` that differs for the thread that holds the lock.

    It is never closed: ``print`` in another thread may still use it.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._given: ContextVar[Any] = ContextVar(name, default=None)
        self._others: Any = None

    def __getattr__(self, name: str) -> Any:
        stream = self._given.get() if _inside.get() else None
        if stream is None:
            stream = _NOWHERE if self._others is None else self._others
        return getattr(stream, name)

    @contextmanager
    def giving(self, stream: Any) -> Iterator[None]:
        original = getattr(sys, self._name)
        if original is not self and self._given.get() is None:
            self._others = original
        token = self._given.set(_NOWHERE if stream is None else stream)
        setattr(sys, self._name, self)
        try:
            yield
        finally:
            self._given.reset(token)
            if getattr(sys, self._name) is self:  # unless another thread redirected it meanwhile
                setattr(sys, self._name, original)


_DIVIDED = {name: _Divided(name) for name in ("stdout", "stderr")}


_kept: IO[str] | None = None
_leave = os._exit
_process = 0


def keep_stdout() -> None:
    """Keep stdout away from the code of templates. Call it at the start of a process that is ours."""
    global _kept  # noqa: PLW0603 (a process has one stdout)
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:  # closed: the next opened file would get this descriptor, and others would write into it
            os.open(os.devnull, os.O_RDWR)
    encoding, errors = getattr(sys.stdout, "encoding", "utf-8"), getattr(sys.stdout, "errors", None)
    _kept = os.fdopen(os.dup(1), "w", encoding=encoding, errors=errors)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_lose_stdout)
    process_guard.register_last_exit()


def _lose_stdout() -> None:
    """Detach a forked process from stdout, so that it neither writes there nor keeps a reader waiting."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, _kept.fileno(), inheritable=False)  # type: ignore[union-attr]
    os.close(nowhere)


def own_stdout() -> Any:
    """The stream for meta-eval's own output on stdout, or None if the program has none."""
    return _kept or sys.stdout


@contextmanager
def isolate_code(folder: Path) -> Iterator[None]:
    """Run code of a folder, one thread at a time.

    Its output goes to stderr. In a process of the command line this includes C code and child programs. SystemExit,
    KeyboardInterrupt and ``os._exit`` in that code become errors. Ctrl-C and SIGTERM still interrupt us, even if the
    code catches them. A process that the code forks ends with the block. All other exceptions pass.

    Args:
        folder: Where the code is, for the error message.

    Raises:
        TemplateError: The code exits or interrupts the program.
    """
    with take_turn(), process_guard.track_threads(folder), _no_bytecode(), _guard(partial(_ended, folder=folder)):
        yield


@contextmanager
def isolate_import(make_error: Callable[[BaseException], UserError]) -> Iterator[None]:
    """Run code of an installed package that extends us, as `isolate_code` does.

    In a process of the command line its output goes to stderr from now on, and ``os._exit`` stays an exception: what it
    does later is no other.

    Args:
        make_error: The error to raise where the code exits or interrupts the program.
    """
    with take_turn(), _guard(make_error):
        yield


@contextmanager
def _guard(make_error: Callable[[BaseException], UserError]) -> Iterator[None]:
    with _interrupts() as pressed, _no_exit(), _no_stdout():
        try:
            yield
        except UserError:
            raise
        except BaseException as error:
            if pressed():
                raise KeyboardInterrupt from None
            if isinstance(error, Exception):
                raise
            raise make_error(error) from None
        if pressed():
            raise KeyboardInterrupt


def _ended(error: BaseException, folder: Path) -> TemplateError:
    frames = traceback.extract_tb(error.__traceback__)
    root = folder.resolve()
    inside = [frame for frame in frames if Path(frame.filename).resolve().is_relative_to(root)]
    last = (inside or frames)[-1]
    what = "ends" if isinstance(error, SystemExit) else "interrupts"
    message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return TemplateError(
        f"{what} the program ({message})",
        where=f"{last.filename}, line {last.lineno}, in {last.name}",
        hint="Raise a ValueError that says what is wrong instead",
    )


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether Ctrl-C or SIGTERM interrupted the block. Works only in the main thread."""
    pressed, ending_before = threading.Event(), is_interrupted()
    original: Any = None
    if threading.current_thread() is threading.main_thread():
        original = signal.getsignal(signal.SIGINT)

    def press(number: int, frame: FrameType | None) -> None:
        pressed.set()
        original(number, frame)

    if callable(original):
        signal.signal(signal.SIGINT, press)
    try:
        yield lambda: pressed.is_set() or (is_interrupted() and not ending_before)
    finally:
        if callable(original):
            signal.signal(signal.SIGINT, original)


@contextmanager
def _no_exit() -> Iterator[None]:
    """Turn ``os._exit`` into SystemExit, except in a child that the code forked."""
    global _process
    _process, original = os.getpid(), os._exit
    os._exit = _refuse_exit
    try:
        yield
    finally:
        if _kept is None and os._exit is _refuse_exit:
            os._exit = original


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
    """From now on, send to stderr what others write to stdout."""
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
    """Write no bytecode into the user's folder."""
    original, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = original


def _flush() -> None:
    """Flush all buffers, including those of C code."""
    for stream in (sys.stdout, sys.__stdout__):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()  # type: ignore[union-attr]
    with suppress(OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).fflush(None)

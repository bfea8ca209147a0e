"""Runs code of templates, packs and plug-ins in a worker: what it ends, interrupts or prints is told from what we do.

`meta_eval.base.worker` has the rest: such code cannot reach stdout, and an end without a report is an error.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import FrameType
from typing import Any

from meta_eval.base.display import name_error, name_path
from meta_eval.base.errors import TemplateError, UserError
from meta_eval.base.sigterm import is_interrupted
from meta_eval.base.worker import tell_place

_stderr: Any = None


def own_stderr() -> Any:
    """The stream for meta-eval's own words on stderr, also while others are silent."""
    return _stderr or sys.stderr


@contextmanager
def silence_output() -> Iterator[None]:
    """Discard what code in this block prints."""
    global _stderr  # noqa: PLW0603 (a process has one)
    outer, _stderr = _stderr, own_stderr()
    try:
        with redirect_stdout(_NOWHERE), redirect_stderr(_NOWHERE):
            yield
    finally:
        _stderr = outer


@contextmanager
def isolate_code(folder: Path, named: Path | None = None) -> Iterator[None]:
    """Run code of a folder.

    Its output goes to stderr. SystemExit and other exceptions that are no `Exception` become errors. Ctrl-C and SIGTERM
    still interrupt us, even if the code catches them. A process that the code forks ends with the block. All other
    exceptions pass. Its modules are compiled from their sources.

    Args:
        folder: Where the code is.
        named: Its name for the error message, where ``folder`` is a copy.

    Raises:
        TemplateError: The code exits or interrupts the program.
    """
    process = os.getpid()
    for place in (folder.resolve(), named or folder):
        tell_place(str(place))
    try:
        with _ignore_bytecode(folder), _guard(partial(_ended, folder=folder, named=named or folder)):
            yield
    finally:
        if os.getpid() != process:
            os._exit(0)


@contextmanager
def _ignore_bytecode(folder: Path) -> Iterator[None]:
    """Neither read nor write bytecode of a folder: what lies in a ``__pycache__`` there may be of anyone.

    `sys.pycache_prefix` would do the same for every library that is imported meanwhile, and cost seconds.
    """
    root = f"{folder.resolve()}{os.sep}"
    loading: Any = SourceFileLoader
    stat = loading.path_stats

    def path_stats(loader: SourceFileLoader, path: str) -> Any:
        if os.path.realpath(path).startswith(root):
            raise OSError  # with which a loader says that it knows no time of the source
        return stat(loader, path)

    loading.path_stats = path_stats
    try:
        yield
    finally:
        loading.path_stats = stat


@contextmanager
def isolate_import(name: str, make_error: Callable[[BaseException], UserError]) -> Iterator[None]:
    """Run code of an installed package that extends us, as `isolate_code` does.

    Args:
        name: The package, for messages.
        make_error: The error to raise where the code exits or interrupts the program.
    """
    tell_place(name)
    with _guard(make_error):
        yield


@contextmanager
def _guard(make_error: Callable[[BaseException], UserError]) -> Iterator[None]:
    with ExitStack() as stack:
        pressed = stack.enter_context(_interrupts())
        if not isinstance(sys.stdout, _Void):
            stack.enter_context(redirect_stdout(sys.stderr))
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


def _ended(error: BaseException, folder: Path, named: Path) -> TemplateError:
    frames = traceback.extract_tb(error.__traceback__)
    root = folder.resolve()
    inside = [frame for frame in frames if Path(frame.filename).resolve().is_relative_to(root)]
    last = (inside or frames)[-1]
    file = named / Path(last.filename).resolve().relative_to(root) if inside else last.filename
    what = "ends" if isinstance(error, SystemExit) else "interrupts"
    return TemplateError(
        f"{what} the program ({name_error(error)})",
        where=f"{name_path(file)}, line {last.lineno}, in {last.name}",
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


class _Void(io.TextIOBase):
    """A text stream that discards what is written."""

    def write(self, text: str) -> int:
        return len(text)


_NOWHERE = _Void()

"""The consoles for people: results on stdout, or on stderr beside ``--json``; progress and notes on stderr.

All words of the command line pass through here. Names are never read as markup, and no control character reaches the
terminal. A stream that cannot be written ends the command with a message.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from meta_eval.base.display import CAUTION, one_line
from meta_eval.base.logs import display_logs, log
from meta_eval.cli.streams import Stream, out, print_result

if TYPE_CHECKING:
    from meta_eval.cli.safe_console import SafeConsole
    from meta_eval.reports.document import Document
    from meta_eval.reports.views import View

# The descriptor of the process's own stderr.
_STDERR = 2

# The width of a result in a file.
TEXT_COLUMNS = 80


class _Err:
    """stderr. Lines of text that go to no terminal are written as they are, so that rich is imported only where it is
    needed: for colours, tables and progress."""

    def __init__(self) -> None:
        self._stream = Stream(stderr=True)

    @cached_property
    def _console(self) -> SafeConsole:
        from meta_eval.cli.safe_console import SafeConsole

        return SafeConsole(self._stream)

    def print(self, *objects: Any, **settings: Any) -> None:
        """Print as rich does."""
        if settings.get("soft_wrap") and all(isinstance(item, str) for item in objects) and not may_have_colours():
            self._stream.write(" ".join(map(one_line, objects)) + "\n")
            self._stream.flush()
        else:
            self._console.print(*objects, **settings)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._console, name)


def may_have_colours() -> bool:
    """Whether stderr is a terminal, or is to be treated as one."""
    try:
        return sys.stderr.isatty() or any(name in os.environ for name in ("FORCE_COLOR", "TTY_COMPATIBLE"))
    except (AttributeError, ValueError):  # there is none, or it is closed
        return False


err = cast("SafeConsole", _Err())

_kept_err: IO[str] | None = None


def bound_err() -> SafeConsole:
    """A console bound to the current stderr, for use while another stream replaces it, or an engine's log takes its
    descriptor."""
    from meta_eval.cli.safe_console import SafeConsole

    global _kept_err  # noqa: PLW0603 (a process has one stderr)
    stream, number = sys.stderr, -1
    with contextlib.suppress(AttributeError, OSError, ValueError):  # closed, or not a file
        number = stream.fileno()
    if number != _STDERR:
        return SafeConsole(Stream(stderr=True, bound=stream))
    if _kept_err is None:
        _kept_err = os.fdopen(os.dup(number), "w", encoding=stream.encoding, errors=stream.errors, buffering=1)
    return SafeConsole(Stream(stderr=True, bound=_kept_err))


def write_document(document: Document, views: Iterable[tuple[Path, View]]) -> None:
    """Write the views of a document, each whole or not at all, and say where they are.

    Raises:
        OutputError: A file cannot be written.
    """
    from meta_eval.reports.views import write_view

    for path, view in views:
        write_view(path, view, document)
        err.print(f"wrote {path}", soft_wrap=True)


def show_result(document: Document, *, as_json: bool) -> None:
    """Show a document to people, and print it as JSON if requested."""
    from meta_eval.reports.views import JsonView, TextView

    TextView().show(document, make_result_console(as_json=as_json))
    if as_json:
        print_result(JsonView().render(document).rstrip("\n"))


def warn(message: str, console: SafeConsole = err) -> None:
    """Show a warning."""
    console.print(f"note: {one_line(message)}", style=CAUTION, soft_wrap=True)


class _Notes(logging.Handler):
    """Show the warnings that the library logs. Templates log to their own loggers, which `verify` reads."""

    console: SafeConsole = err
    """Where to print. A progress bar sets its own console, and the notes appear above the bar."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == log.name:
            warn(record.getMessage(), self.console)


notes = _Notes(logging.WARNING)


@contextlib.contextmanager
def show_progress(first: str) -> Iterator[None]:
    """Show the current step in a line while the block runs. Only a terminal has such a line."""
    if not may_have_colours():
        with display_logs(None):
            yield
        return
    with err.status(first) as status:

        def progress(what: str, done: int = 0, total: int = 0, /) -> None:  # noqa: ARG001 (it counts nothing)
            status.update(what)

        with display_logs(progress):
            yield


def make_result_console(*, as_json: bool = False) -> SafeConsole:
    """The console for a command's result: stdout, or stderr if stdout holds the result as JSON.

    A file or a pipe has 80 columns unless COLUMNS says otherwise, whatever the width of the terminal around it.
    """
    if as_json:
        return err
    from meta_eval.cli.safe_console import SafeConsole

    console = SafeConsole(out)
    if not console.is_terminal and not os.environ.get("COLUMNS", "").isdecimal():
        console.width = TEXT_COLUMNS
    return console

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
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from rich.console import Console, ConsoleDimensions, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.status import Status
from rich.text import Text

from meta_eval.base.colours import CAUTION
from meta_eval.base.escaping import one_line, visible
from meta_eval.base.logs import display_logs, log
from meta_eval.cli.streams import Stream, out, print_result

if TYPE_CHECKING:
    from meta_eval.reports.document import Document
    from meta_eval.reports.view import View

# Limits for the width of a table. COLUMNS may hold any number.
_NARROWEST, _WIDEST = 20, 500

# The descriptor of the process's own stderr.
_STDERR = 2

# The width of a result in a file.
TEXT_COLUMNS = 80


class _Status(Status):
    """The line that shows the current step. rich would read markup in it."""

    def update(self, status: RenderableType | None = None, **settings: Any) -> None:
        super().update(Text(one_line(status)) if isinstance(status, str) else status, **settings)


class SafeConsole(Console):
    """A rich console without markup, emoji codes or control characters."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(file=cast(IO[str], stream), markup=False, emoji=False, highlight=False)

    @property
    def size(self) -> ConsoleDimensions:
        size = super().size
        return ConsoleDimensions(min(max(size.width, _NARROWEST) if size.width else 80, _WIDEST), size.height or 25)

    @size.setter
    def size(self, new_size: tuple[int, int]) -> None:
        self._width, self._height = new_size

    def print(self, *objects: Any, **settings: Any) -> None:
        super().print(*(one_line(item) if isinstance(item, str) else item for item in objects), **settings)

    def render_str(self, text: str, **settings: Any) -> Text:
        return super().render_str(visible(text), **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Make the texts of other objects (`Text`, a progress bar) safe too."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))

    def status(self, status: RenderableType, **settings: Any) -> Status:
        return _Status(Text(one_line(status)) if isinstance(status, str) else status, console=self, **settings)


err = SafeConsole(Stream(stderr=True))


_kept_err: IO[str] | None = None


def bound_err() -> SafeConsole:
    """A console bound to the current stderr, for use while another stream replaces it, or an engine's log takes its
    descriptor."""
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
    from meta_eval.reports.view import write_view

    for path, view in views:
        write_view(path, view, document)
        err.print(f"wrote {path}", soft_wrap=True)


def show_result(document: Document, *, as_json: bool) -> None:
    """Show a document to people, and print it as JSON if requested."""
    from meta_eval.reports.shipped_views import JsonView, TextView

    TextView().show(document, make_result_console(as_json=as_json))
    if as_json:
        print_result(JsonView().render(document).rstrip("\n"))


def warn(message: str, console: Console = err) -> None:
    """Show a warning."""
    console.print(f"note: {one_line(message)}", style=CAUTION, soft_wrap=True)


class _Notes(logging.Handler):
    """Show the warnings that the library logs. Templates log to their own loggers, which `verify` reads.

    Attributes:
        console: Where to print. A progress bar sets its own console, and the notes appear above the bar.
    """

    console: Console = err

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == log.name:
            warn(record.getMessage(), self.console)


notes = _Notes(logging.WARNING)


@contextlib.contextmanager
def show_progress(first: str) -> Iterator[None]:
    """Show the current step in a line while the block runs."""
    with err.status(first) as status:

        def progress(what: str, done: int = 0, total: int = 0, /) -> None:  # noqa: ARG001 (it counts nothing)
            status.update(what)

        with display_logs(progress):
            yield


def make_result_console(*, as_json: bool = False) -> Console:
    """The console for a command's result: stdout, or stderr if stdout holds the result as JSON.

    A file or a pipe has 80 columns unless COLUMNS says otherwise, whatever the width of the terminal around it.
    """
    if as_json:
        return err
    console = SafeConsole(out)
    if not console.is_terminal and not os.environ.get("COLUMNS", "").isdecimal():
        console.width = TEXT_COLUMNS
    return console

"""The console that people read: stderr, so that stdout stays a machine's.

Everything that the command line says goes through here, so that no name in it is taken for markup, no control character
reaches the terminal, and a stream that cannot be written ends in a message.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterable, Iterator
from typing import IO, Any, cast

from rich.console import Console, ConsoleDimensions, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.status import Status
from rich.text import Text

from meta_eval.boundary.isolation import own_stdout
from meta_eval.messages.errors import UserError
from meta_eval.messages.escaping import one_line, visible
from meta_eval.messages.logs import displaying, log

# Columns of a terminal that a table can be laid out for; COLUMNS says anything.
_NARROWEST, _WIDEST = 20, 500


class StreamError(UserError):
    """stdout cannot be written: the disk is full, or its reader went away."""


class _Stream:
    """A standard stream as it is now, which takes any text and whose faults are messages.

    What cannot be said on stderr is not said: its reader is gone, and the exit code still tells.
    """

    def __init__(self, *, stderr: bool, bound: Any = None) -> None:
        self._stderr, self._bound = stderr, bound

    @property
    def _file(self) -> Any:
        return self._bound or (sys.stderr if self._stderr else own_stdout())

    def write(self, text: str) -> int:
        if self._file is not None:
            try:
                self._file.write(text)
            except UnicodeEncodeError:  # a terminal of few characters
                encoding = self._file.encoding
                self._file.write(text.encode(encoding, "backslashreplace").decode(encoding))
            except (OSError, ValueError) as error:
                self._fail(error)
        return len(text)

    def flush(self) -> None:
        if self._file is not None:
            try:
                self._file.flush()
            except (OSError, ValueError) as error:
                self._fail(error)

    def _fail(self, error: OSError | ValueError) -> None:
        with contextlib.suppress(OSError):
            # Python flushes what is left when it ends, and would fail again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._file.fileno())
        if not self._stderr:
            reason = error.strerror if isinstance(error, OSError) else error
            raise StreamError(f"cannot be written: {reason}", where="stdout") from None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class _Status(Status):
    """A line of what is being done; rich would read markup in it."""

    def update(self, status: RenderableType | None = None, **settings: Any) -> None:
        super().update(Text(one_line(status)) if isinstance(status, str) else status, **settings)


class SafeConsole(Console):
    """rich's console, for which texts are texts: no markup, no emoji codes, no control characters."""

    def __init__(self, stream: _Stream) -> None:
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
        """What brings texts of its own (`Text`, a progress bar) passes here too."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))

    def status(self, status: RenderableType, **settings: Any) -> Status:
        return _Status(Text(one_line(status)) if isinstance(status, str) else status, console=self, **settings)


err = SafeConsole(_Stream(stderr=True))
_out = _Stream(stderr=False)


def bound_err() -> SafeConsole:
    """`err` on today's stderr, for where something else will stand in its place for a while."""
    return SafeConsole(_Stream(stderr=True, bound=sys.stderr))


def print_result(text: str) -> None:
    """Print for machines, on stdout.

    Raises:
        StreamError: stdout cannot be written.
    """
    _out.write(text + "\n")
    _out.flush()


def warn(message: str, console: Console = err) -> None:
    """Say something that the user must know."""
    console.print(f"note: {one_line(message)}", style="yellow", soft_wrap=True)


class _Notes(logging.Handler):
    """Shows what the library logs. What templates log while they grade is verify's: they have loggers of their own.

    Attributes:
        console: Where to; a progress bar takes its own for as long as it is shown, so that notes stand above it.
    """

    console: Console = err

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == log.name:
            warn(record.getMessage(), self.console)


notes = _Notes(logging.WARNING)


@contextlib.contextmanager
def show_progress(first: str) -> Iterator[None]:
    """Show a line with the current step while the block runs, and in it the progress of the block."""
    with err.status(first) as status:

        def progress(what: str, done: int = 0, total: int = 0, /) -> None:  # noqa: ARG001 (it counts nothing)
            status.update(what)

        with displaying(progress):
            yield


def result_console() -> Console:
    """The console for result tables: the terminal if stdout is one, else stderr."""
    out = SafeConsole(_out)
    return out if out.is_terminal else err

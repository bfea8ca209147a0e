"""The console that people read: stderr, so that stdout stays a machine's."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape

from meta_eval.notes import Progress, log

err = Console(stderr=True)


def warn(message: str, console: Console = err) -> None:
    """Say something that the user must know; data in it are never markup."""
    console.print(f"note: {message}", style="yellow", markup=False, highlight=False, soft_wrap=True)


class _Notes(logging.Handler):
    """Shows what the library logs. What templates log while they grade is verify's: they have loggers of their own.

    Attributes:
        console: Where to; a progress bar takes its own for as long as it is shown, so that notes stand above it.
    """

    console = err

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == log.name:
            warn(record.getMessage(), self.console)


notes = _Notes(logging.WARNING)


@contextmanager
def working(first: str) -> Iterator[Progress]:
    """A line that says what is being done, for as long as it is."""
    with err.status(first) as status:

        def progress(what: str, done: int = 0, total: int = 0, /) -> None:  # noqa: ARG001 (it counts nothing)
            status.update(escape(what))

        yield progress


def people() -> Console:
    """Where a table that was asked for goes: to the terminal if stdout is one, else to stderr."""
    out = Console()
    return out if out.is_terminal else err

"""How the library speaks while it works: notes through `logging`, progress through the display of the caller.

A note is a warning of the logger ``meta_eval``: something that a user must know and that stops nothing. The command
line shows it on stderr; a program may handle it as it handles any log record.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from meta_eval.messages.escaping import one_line
from meta_eval.messages.secrets import redacted

log = logging.getLogger("meta_eval")


def without_secrets(record: logging.LogRecord) -> bool:
    """A filter of loggers and handlers: addresses of hubs and settings may hold credentials."""
    record.msg, record.args = redacted(record.getMessage()), None
    return True


def _in_one_line(record: logging.LogRecord) -> bool:
    """What a note quotes of data is shown escaped, whoever handles the record."""
    record.msg, record.args = one_line(record.getMessage()), None
    return True


log.addFilter(without_secrets)
log.addFilter(_in_one_line)


class Progress(Protocol):
    """Called with what is being done and how far it is, for a display."""

    def __call__(self, what: str, done: int = 0, total: int = 0, /) -> None:
        """``total`` is 0 while nobody knows it."""


def silent(what: str, done: int = 0, total: int = 0, /) -> None:
    """Shows nothing."""


# Each thread of a program has its own.
_display: ContextVar[Progress] = ContextVar("display", default=silent)


def report_progress(what: str, done: int = 0, total: int = 0, /) -> None:
    """Say what is being done, and how far it is, to the display of `displaying`."""
    _display.get()(what, done, total)


@contextmanager
def displaying(display: Progress | None) -> Iterator[None]:
    """Show the progress of this block.

    Args:
        display: Called with each step; None for the display of the surrounding block, or none.
    """
    token = _display.set(display or _display.get())
    try:
        yield
    finally:
        _display.reset(token)

"""Notes and progress while the library works.

A note is a warning of the logger ``meta_eval``. The user must know it, but it stops nothing. The command line shows
notes on stderr. Programs can handle them like any log record. Progress goes to the caller's display.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from meta_eval.base.display import cut_words
from meta_eval.base.secrets import redact_secrets

log = logging.getLogger("meta_eval")


def without_secrets(record: logging.LogRecord) -> bool:
    """A log filter that redacts credentials, which addresses and settings may hold."""
    record.msg, record.args = redact_secrets(record.getMessage()), None
    return True


def _in_one_line(record: logging.LogRecord) -> bool:
    """A log filter that escapes what a note quotes."""
    record.msg, record.args = cut_words(record.getMessage()), None
    return True


log.addFilter(without_secrets)
log.addFilter(_in_one_line)


class Progress(Protocol):
    """A progress display. It is called with the current step and the progress."""

    def __call__(self, what: str, done: int = 0, total: int = 0, /) -> None:
        """``total`` is 0 if unknown."""


def silence_logs(what: str, done: int = 0, total: int = 0, /) -> None:
    """Show nothing."""


# Each thread has its own.
_display: ContextVar[Progress] = ContextVar("display", default=silence_logs)


def report_progress(what: str, done: int = 0, total: int = 0, /) -> None:
    """Report the current step and its progress to the display of `display_logs`."""
    _display.get()(what, done, total)


@contextmanager
def display_logs(display: Progress | None) -> Iterator[None]:
    """Show the progress of this block.

    Args:
        display: Called with each step. None means the display of the surrounding block, if any.
    """
    token = _display.set(display or _display.get())
    try:
        yield
    finally:
        _display.reset(token)

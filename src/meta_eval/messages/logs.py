"""How the library speaks while it works: notes through `logging`, progress through one kind of callback.

A note is a warning of the logger ``meta_eval``: something that a user must know and that stops nothing. The command
line shows it on stderr; a program may handle it as it handles any log record.
"""

from __future__ import annotations

import logging
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

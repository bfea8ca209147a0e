"""The library's log messages."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def noted() -> Iterator[list[str]]:
    """Yield the list of messages that are logged in the block."""
    sentences: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            sentences.append(record.getMessage())

    collector = Collector()
    logger = logging.getLogger("meta_eval")
    logger.addHandler(collector)
    try:
        yield sentences
    finally:
        logger.removeHandler(collector)

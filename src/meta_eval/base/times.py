"""Reads the times in file names and histories."""

from __future__ import annotations

import re
from datetime import UTC, datetime

# lm_eval writes hyphens for colons, lighteval also underscores.
_TIME = re.compile(
    r"([0-9]{4})[-_]([0-9]{2})[-_]([0-9]{2})T([0-9]{2})[:_-]([0-9]{2})[:_-]([0-9]{2})(?:\.([0-9]+))?(?:Z|\+00:00)?"
)


def parse_time(text: str) -> datetime | None:
    """A time in UTC to the microsecond; None if the text is no time, or there is no such day or hour."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    *numbers, fraction = match.groups()
    year, month, day, hour, minute, second = map(int, numbers)
    try:
        return datetime(year, month, day, hour, minute, second, int((fraction or "0")[:6].ljust(6, "0")), tzinfo=UTC)
    except ValueError:
        return None


def explain_wrong_time(text: str) -> str | None:
    """What is wrong with the time in a file's name, a clause; None if it exists."""
    return None if parse_time(text) else f"there is no time {text}, which stands in its name"


RESTORE_NAME = "Restore the file's original name"

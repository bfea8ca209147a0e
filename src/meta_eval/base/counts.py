"""Counts in words."""

from __future__ import annotations


def plural(number: int, singular: str, many: str | None = None) -> str:
    """``1 doc``, ``2,000 docs``."""
    return f"{number:,} {singular if number == 1 else many or singular + 's'}"

"""Shortens paths for people."""

from __future__ import annotations

from pathlib import Path


def shorten_path(path: Path) -> str:
    """A path for messages: relative to the working directory if it lies below it."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)

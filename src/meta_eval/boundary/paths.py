"""Compares paths with all links resolved, and shortens them for people."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_MOST_LINKS = 40


def is_in(path: Path, folder: Path) -> bool:
    """Whether a path, or a link on its way, is a folder or lies in it.

    Compares folders by identity in the file system. Letter case, mounts and links hide nothing. The path may be
    missing.
    """
    return any(_is_same(above, folder) for place in _places(path) for above in (place, *place.parents))


def shorten_path(path: Path) -> str:
    """A path for messages: relative to the working directory if it lies below it."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def _places(path: Path) -> Iterator[Path]:
    """The links on a path, then its end. In each, all parts but the last are resolved."""
    here, rest, links = Path(path.anchor or os.getcwd()), list(path.parts[bool(path.anchor) :]), 0  # noqa: PTH109
    while rest:
        part = rest.pop(0)
        here = here.parent if part == ".." else here / part
        if here.is_symlink() and links < _MOST_LINKS:
            yield here
            target = here.readlink()
            rest = [*target.parts[bool(target.anchor) :], *rest]
            here, links = Path(target.anchor) if target.anchor else here.parent, links + 1
    yield here


def _is_same(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except (OSError, ValueError):  # ValueError: a NUL character
        return False

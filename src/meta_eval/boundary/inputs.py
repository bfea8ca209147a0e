"""Files that are not ours, opened so that none of them can hang or flood: regular files only, with a limit."""

from __future__ import annotations

import os
import stat
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Any

from meta_eval.errors import UserError

# Levels of nesting of any tree that is read here: what walks one is recursive, and Python's stack is not deep.
MAX_DEPTH = 100

_MIB = 2**20


class InputError(UserError):
    """A file cannot be read, is none, or is too large for what it should be."""


def open_regular(path: Path, *, buffering: int = 2**17) -> BufferedReader:
    """Open a file to read; never waits, as a named pipe or a device would make it.

    Raises:
        OSError: It cannot be opened, or is no regular file.
    """
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(0, "it is no regular file", str(path))
    return BufferedReader(FileIO(number), buffering)


def read_regular(path: Path, *, limit: int) -> bytes:
    """The content of a regular file of at most ``limit`` bytes, whatever its size claims to be.

    Raises:
        OSError: It cannot be read, is no regular file (or one of the system's that has nothing to give), or is larger.
    """
    with open_regular(path) as file:
        content = file.read(limit + 1)
    if content is None:
        raise OSError(0, "it gives nothing to read", str(path))
    if len(content) > limit:
        raise OSError(0, f"it is larger than {max(limit // _MIB, 1)} MiB", str(path))
    return content


def read_text(path: Path, *, limit: int, hint: str | None = None) -> str:
    """The text of a regular file.

    Raises:
        InputError: It cannot be read, is larger than ``limit`` bytes, or is not UTF-8.
    """
    try:
        return read_regular(path, limit=limit).decode("utf-8-sig")
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or a NUL in the path
        raise InputError(f"cannot be read: {reason(error)}", where=str(path), hint=hint) from None


def reason(error: Exception) -> str:
    """What an error of the system or of a library says, in one line and without the path that is said beside it."""
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is not UTF-8"
    words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(words.split())[:300] or type(error).__name__


def expand(path: str, *, where: str | None = None) -> Path:
    """A path with ``~`` and ``~user`` as folders.

    Raises:
        InputError: There is no such user.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        user = path.partition("/")[0]
        raise InputError(
            f"{user!r} is no user of this machine", where=where, hint=f"Write ./{path} for a name"
        ) from None


def is_deep(tree: Any) -> bool:
    """Whether a tree of dicts and lists has more levels than `MAX_DEPTH`."""
    level = [tree]
    for _ in range(MAX_DEPTH):
        inner = (list(one.values()) if isinstance(one, dict) else one for one in level if isinstance(one, (dict, list)))
        level = [value for values in inner for value in values if isinstance(value, (dict, list))]
        if not level:
            return False
    return True

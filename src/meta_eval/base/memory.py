"""Returns freed memory to the system between two steps."""

from __future__ import annotations

import contextlib
import ctypes


def release_memory() -> None:
    """Return memory that glibc holds but nobody uses to the system. Other C libraries do nothing.

    Texts of a few KB are on glibc's heap, which shrinks only from its end. Without this, freed rows would still take
    memory while new ones are built.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)

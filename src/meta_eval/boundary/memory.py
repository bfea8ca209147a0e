"""Memory that a step let go, given back before the next one asks for its own."""

from __future__ import annotations

import contextlib
import ctypes


def release_memory() -> None:
    """Return to the system what glibc keeps of freed memory below memory in use; other C libraries are left alone.

    Texts of some KB lie on glibc's heap, which shrinks only from its end: without this, the memory of rows that were
    let go stays beside that of what was made of them.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)

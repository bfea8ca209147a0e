"""Returns freed memory to the system between two steps."""

from __future__ import annotations

import contextlib
import ctypes


def release_memory() -> None:
    """Return the freed memory that glibc still holds to the system. Nothing happens with other C libraries.

    Texts of some KB lie on glibc's heap, which shrinks only from its end: without this, the memory of rows that were
    let go stays beside that of what was made of them.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)

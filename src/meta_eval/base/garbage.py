"""Lets Python search for cycles of garbage more seldom, where millions of objects are made that have none."""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterator
from contextlib import contextmanager

# Objects between two searches. A search of so many takes a quarter of a second; as garbage they are some 200 MB.
_MANY = 1_000_000


@contextmanager
def collect_seldom() -> Iterator[None]:
    """Search seldom within the block: docs and samples have no cycles.

    What the block made and is still there counts as old afterwards, so that its end is no search of all of it.
    """
    before = gc.get_threshold()
    gc.set_threshold(max(_MANY, before[0]) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        if not _others_froze():
            gc.freeze()
            gc.unfreeze()
        gc.set_threshold(*before)


@functools.cache
def _others_froze() -> bool:
    """Whether the program froze objects, which then stay so. It counts them all, so that it is asked once."""
    return gc.get_freeze_count() > 0

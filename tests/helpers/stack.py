"""A block in which Python's stack has a certain room."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stack_of(frames: int) -> Iterator[None]:
    """Leave about so many frames to the block. Python 3.11 has 1,000 in all; newer ones have more for parsers in C."""
    frame, depth = sys._getframe(), 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1  # type: ignore[assignment]
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(depth + frames)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)

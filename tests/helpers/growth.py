"""How the time of some work grows with what it is given."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any


def _seconds(work: Callable[[], Any]) -> float:
    """Of CPU. What the tests before it left is not collected in it."""
    gc.collect()
    began = time.process_time()
    work()
    return time.process_time() - began


def check_growth(small: Callable[[], Any], large: Callable[[], Any], *, at_most: float, seconds: float = 0.03) -> None:
    """Fail where the large work takes more than so many times the CPU of the small one in each of three measurements.

    A shared machine spoils one measurement; work that is quadratic fails in all.

    Args:
        small: The work at the small size.
        large: The work at the large size.
        at_most: How many times as long the large one may take.
        seconds: A small work that takes less counts as this.
    """
    ratios: list[float] = []
    while len(ratios) < 3:
        least = max(_seconds(small), seconds)
        ratios.append(_seconds(large) / least)
        if ratios[-1] < at_most:
            return
    raise AssertionError(f"{', '.join(f'{ratio:.1f}' for ratio in ratios)} times as long, and {at_most} are allowed")

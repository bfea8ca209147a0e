"""Random numbers while lm-eval evaluates: graders draw the same each time."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator

# lm-eval's own for `random`. It seeds once, so that what a grader draws for a doc depends on the docs before it.
_SEED = 0


@contextlib.contextmanager
def draw_alike() -> Iterator[None]:
    """Let `random` draw the same numbers each time, then restore its state."""
    state = random.getstate()
    random.seed(_SEED)
    try:
        yield
    finally:
        random.setstate(state)


@contextlib.contextmanager
def seed_language_detection() -> Iterator[None]:
    """Let langdetect, if a grader has imported it, find the same language of a text each time.

    lm-eval's IFEval asks it for the language of an answer. Unseeded, it takes short texts for one language or another.
    """
    langdetect = sys.modules.get("langdetect")
    if langdetect is None:
        yield
        return
    factory = langdetect.DetectorFactory
    before, factory.seed = factory.seed, 0
    try:
        yield
    finally:
        factory.seed = before

"""Random numbers while lm-eval evaluates: graders draw the same each time, and the caller's state is left as it was."""

from __future__ import annotations

import contextlib
import random
import sys
import threading
from collections.abc import Iterator

# lm-eval's own for `random`. It seeds once, so that what a grader draws for a doc depends on the docs before it.
_SEED = 0

# tqdm's thread, which uses no random numbers.
_MONITOR = "tqdm_monitor"


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
def restore_random_state() -> Iterator[None]:
    """Restore the random state of `random` and numpy. lm-eval draws names of tasks from them, and graders may too.

    With other threads, which may draw too, the state is left as it is.
    """
    numpy = sys.modules.get("numpy.random")
    python_state, numpy_state = random.getstate(), numpy.get_state() if numpy else None
    try:
        yield
    finally:
        if all(thread is threading.main_thread() or thread.name == _MONITOR for thread in threading.enumerate()):
            random.setstate(python_state)
            if numpy:
                numpy.set_state(numpy_state)


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

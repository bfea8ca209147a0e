"""SIGTERM as an interruption like Ctrl-C, in the process that asks for it and in none that it forks."""

from __future__ import annotations

import functools
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_masks = threading.local()


@contextmanager
def interrupt_on_sigterm() -> Iterator[None]:
    """Raise KeyboardInterrupt where SIGTERM, with which a cluster ends a job, comes: engines are stopped in order.

    Only the main thread can: in another nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _reset_in_children()
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def is_interrupted() -> bool:
    """Whether SIGTERM came in a block of `interrupt_on_sigterm` that is not left yet."""
    return signal.getsignal(signal.SIGTERM) is _pass_over


def _interrupt(*_: object) -> None:
    signal.signal(signal.SIGTERM, _pass_over)  # a second one would break off the end
    raise KeyboardInterrupt


def _pass_over(*_: object) -> None:
    """Not SIG_IGN, which programs that are started would inherit."""


@functools.cache
def _reset_in_children() -> None:
    """Let SIGTERM end a forked process at once.

    Python calls a handler between two of its own instructions. A worker of ``multiprocessing.Pool`` that is about to
    wait for a lock when SIGTERM comes does not reach the next one, and ``Pool.terminate`` waits for its end for ever.
    """
    os.register_at_fork(before=_hold, after_in_parent=_release, after_in_child=_reset)


def _hold() -> None:
    """None comes between the fork and `_reset`."""
    _masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _release() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _masks.before)


def _reset() -> None:
    if signal.getsignal(signal.SIGTERM) in (_interrupt, _pass_over):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _release()

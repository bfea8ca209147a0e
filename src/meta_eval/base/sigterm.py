"""Handles SIGTERM like Ctrl-C, but only in this process, not in its forks."""

from __future__ import annotations

import functools
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from meta_eval.base.worker import report_ending

_masks = threading.local()
_is_again = False


@contextmanager
def interrupt_on_sigterm() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGTERM, with which clusters end jobs. Engines then stop in order.

    Works only in the main thread. Other threads change nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _reset_in_children()
    original = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, original)


def is_interrupted() -> bool:
    """Whether SIGTERM arrived in the current block of `interrupt_on_sigterm`."""
    return signal.getsignal(signal.SIGTERM) is _pass_over


def interrupt_again() -> bool:
    """Raise KeyboardInterrupt once more in the main thread if SIGTERM arrived in the current block.

    Returns:
        Whether it did.
    """
    global _is_again  # noqa: PLW0603 (a process has one SIGTERM)
    if not is_interrupted():
        return False
    _is_again = True
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
    return True


def _interrupt(*_: object) -> None:
    report_ending()
    signal.signal(signal.SIGTERM, _pass_over)  # a second SIGTERM would interrupt the cleanup
    raise KeyboardInterrupt


def _pass_over(*_: object) -> None:
    """Ignore the signal, unless it is repeated. SIG_IGN would be inherited by child programs."""
    global _is_again  # noqa: PLW0603
    if _is_again:
        _is_again = False
        raise KeyboardInterrupt


@functools.cache
def _reset_in_children() -> None:
    """Let SIGTERM end a forked process at once.

    Python runs handlers only between its own instructions. A worker of ``multiprocessing.Pool`` that waits for a lock
    never gets there, and ``Pool.terminate`` would wait for it forever.
    """
    os.register_at_fork(before=_hold, after_in_parent=_release, after_in_child=_reset)


def _hold() -> None:
    """Block the signal between the fork and `_reset`."""
    _masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _release() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _masks.before)


def _reset() -> None:
    if signal.getsignal(signal.SIGTERM) in (_interrupt, _pass_over):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _release()

"""Ctrl-C as an exception, and whether it came. A library in another language may swallow the exception, and go on with
what it has half made.

Python itself swallows what is raised in a ``__del__`` or a callback of a weak reference, and each import has one. So
such an interrupt is raised again a moment later.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

from meta_eval.base.sigterm import interrupt_again
from meta_eval.base.worker import report_ending

# Seconds from an interrupt that was swallowed to the next.
_AGAIN = 0.1

_came = False


def take_interrupts(*, ctrl_c: bool) -> None:
    """Raise swallowed interrupts again from now on.

    Args:
        ctrl_c: Raise KeyboardInterrupt at Ctrl-C, too. No, where a shell ignores the signal.
    """
    if ctrl_c:
        signal.signal(signal.SIGINT, _interrupt)
    sys.unraisablehook = _tell_unraisable


def was_interrupted() -> bool:
    """Whether Ctrl-C came since `take_interrupts`. What fails afterwards is no fault of the user or of ours."""
    return _came


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _came  # noqa: PLW0603 (a process has one Ctrl-C)
    _came = True
    report_ending()
    signal.default_int_handler(number, frame)


def _tell_unraisable(unraisable: Any) -> None:
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
        return
    repeated = threading.Timer(_AGAIN, _repeat, [os.getpid()])
    repeated.daemon = True
    repeated.start()


def _repeat(process: int) -> None:
    if os.getpid() == process and not interrupt_again() and _came:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

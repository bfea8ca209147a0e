"""Ctrl-C as an exception, and whether it came. A library in another language may swallow the exception, and go on with
what it has half made."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import Any

from meta_eval.base.worker import report_ending

_came = False


def take_interrupts() -> None:
    """Raise KeyboardInterrupt at Ctrl-C from now on. Where a library swallows it, nothing is printed."""
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

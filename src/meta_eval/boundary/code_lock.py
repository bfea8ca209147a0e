"""Turns at code that is not ours, and what is different in Python for the thread whose turn it is.

lm-eval and the code of templates and packs keep state of the whole process: registries, caches, log levels. So one
thread at a time runs them, whoever calls meta-eval from several. The other threads of the program never notice: streams
that are replaced meanwhile stay for them what they were.
"""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any

_lock = threading.RLock()
_inside: ContextVar[bool] = ContextVar("inside", default=False)


def _renew_lock() -> None:
    """In a process that was forked while a thread that it does not have held the lock."""
    global _lock  # noqa: PLW0603 (a process has one)
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)


@contextmanager
def take_turn() -> Iterator[None]:
    """Wait for this thread's turn, and hold it until the block ends. Blocks may be nested."""
    with _lock:
        token = _inside.set(True)
        try:
            yield
        finally:
            _inside.reset(token)


def has_turn() -> bool:
    """Whether this thread is in a block of `take_turn`."""
    return _inside.get()


def call_outside(call: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of the program, such as one that shows progress, with the streams and logs of the program."""
    token = _inside.set(False)
    try:
        return call(*arguments)
    finally:
        _inside.reset(token)


def divide_by_thread(inside: Callable[..., Any], others: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is ``inside`` for the thread whose turn it is, and ``others`` for the rest."""

    def call(*arguments: Any, **named: Any) -> Any:
        return (inside if _inside.get() else others)(*arguments, **named)

    return call


@contextmanager
def redirect_streams(**streams: Any) -> Iterator[None]:
    """Replace standard streams for this thread, in a block of `take_turn`.

    Args:
        streams: By name (``stdout``, ``stderr``); None for nowhere.
    """
    with ExitStack() as stack:
        for name, stream in streams.items():
            stack.enter_context(_DIVIDED[name].giving(stream))
        yield


class _Void(io.TextIOBase):
    """Keeps nothing, unlike a StringIO."""

    def write(self, text: str) -> int:
        return len(text)


_NOWHERE = _Void()


class _Divided:
    """A stream of `sys` that is another for the thread whose turn it is, and that of before for the rest.

    It is never let go: another thread's ``print`` uses the stream that it finds without holding it.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._given: ContextVar[Any] = ContextVar(name, default=None)
        self._others: Any = None

    def __getattr__(self, name: str) -> Any:
        stream = self._given.get() if _inside.get() else None
        if stream is None:
            stream = _NOWHERE if self._others is None else self._others
        return getattr(stream, name)

    @contextmanager
    def giving(self, stream: Any) -> Iterator[None]:
        before = getattr(sys, self._name)
        if before is not self and self._given.get() is None:
            self._others = before
        token = self._given.set(_NOWHERE if stream is None else stream)
        setattr(sys, self._name, self)
        try:
            yield
        finally:
            self._given.reset(token)
            if getattr(sys, self._name) is self:  # and not what another thread redirects to meanwhile
                setattr(sys, self._name, before)


_DIVIDED = {name: _Divided(name) for name in ("stdout", "stderr")}

"""A lock for foreign code, and per-thread streams while it runs.

lm-eval and the code of templates and packs change state of the whole process: registries, caches, log levels. Only one
thread at a time runs them. Other threads keep their own standard streams meanwhile.
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
    """Replace the lock in a forked process, where its owner may not exist."""
    global _lock  # noqa: PLW0603 (a process has one)
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)


@contextmanager
def take_turn() -> Iterator[None]:
    """Hold the lock for this block. Blocks may be nested."""
    with _lock:
        token = _inside.set(True)
        try:
            yield
        finally:
            _inside.reset(token)


def has_turn() -> bool:
    """Whether this thread holds the lock."""
    return _inside.get()


def call_outside(call: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of the program, such as a progress display, with the program's own streams and logs."""
    token = _inside.set(False)
    try:
        return call(*arguments)
    finally:
        _inside.reset(token)


def divide_by_thread(inside: Callable[..., Any], others: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls ``inside`` in the thread that holds the lock, and ``others`` elsewhere."""

    def call(*arguments: Any, **keywords: Any) -> Any:
        return (inside if _inside.get() else others)(*arguments, **keywords)

    return call


@contextmanager
def redirect_streams(**streams: Any) -> Iterator[None]:
    """Replace standard streams for this thread, inside a `take_turn` block.

    Args:
        streams: By name (``stdout``, ``stderr``). None discards the output.
    """
    with ExitStack() as stack:
        for name, stream in streams.items():
            stack.enter_context(_DIVIDED[name].giving(stream))
        yield


class _Void(io.TextIOBase):
    """A text stream that discards what is written."""

    def write(self, text: str) -> int:
        return len(text)


_NOWHERE = _Void()


class _Divided:
    """A stream of `sys` that differs for the thread that holds the lock.

    It is never closed: ``print`` in another thread may still use it.
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
        original = getattr(sys, self._name)
        if original is not self and self._given.get() is None:
            self._others = original
        token = self._given.set(_NOWHERE if stream is None else stream)
        setattr(sys, self._name, self)
        try:
            yield
        finally:
            self._given.reset(token)
            if getattr(sys, self._name) is self:  # unless another thread redirected it meanwhile
                setattr(sys, self._name, original)


_DIVIDED = {name: _Divided(name) for name in ("stdout", "stderr")}

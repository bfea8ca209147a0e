"""Which backend answers a kind of requests, for messages that refuse another."""

from __future__ import annotations

from contextlib import suppress

from meta_eval.pack.backends.registry import UnknownBackendError, find_backend, list_backends


def suggest_backend(kind: str, before: str = ": ") -> str:
    """``set `backend: NAME``` for the first backend that answers requests of a kind; empty if there is none.

    Args:
        kind: ``generate``, ``chat``, ``choices`` or ``force``.
        before: What goes before it.
    """
    for name in list_backends():
        with suppress(UnknownBackendError):
            if kind in find_backend(name).kinds:
                return f"{before}set `backend: {name}`"
    return ""

"""Checks which requests a backend cannot answer, before any is sent. Used by run and fidelity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from meta_eval.backends.base import Backend
from meta_eval.running.client import Client

_WITHOUT: Mapping[str, str] = {
    "generate": "writes no texts",
    "choices": "does not say how likely choices are",
    "force": "cannot be asked how likely each token of a text is",
}


def find_refusals(
    backend: Backend, kinds: Iterable[str], client: Client | None = None, *, has_tokenizer: bool = True
) -> dict[str, str]:
    """Find the kinds of requests that cannot be answered, each with the reason.

    Args:
        backend: Its declared abilities are checked first.
        kinds: ``generate``, ``choices`` or ``force``.
        client: The started backend, which may know more; None before it is started.
        has_tokenizer: Whether requests have token ids.
    """
    refusals = {}
    for kind in dict.fromkeys(kinds):
        why = None if kind in backend.kinds else f"backend {backend.name} {_WITHOUT[kind]}"
        if why is None and client is not None:
            why = client.cannot(kind, has_tokenizer=has_tokenizer)
        if why:
            refusals[kind] = why
    return refusals

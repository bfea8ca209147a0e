"""What a backend cannot answer, said before anything is asked: one check for run and fidelity."""

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
        backend: What it declares is looked at first.
        kinds: ``generate``, ``choices`` or ``force``.
        client: The backend at work, which may find out more; None before it is started.
        has_tokenizer: Whether requests bring their token ids.
    """
    refusals = {}
    for kind in dict.fromkeys(kinds):
        why = None if kind in backend.kinds else f"backend {backend.name} {_WITHOUT[kind]}"
        if why is None and client is not None:
            why = client.cannot(kind, has_tokenizer=has_tokenizer)
        if why:
            refusals[kind] = why
    return refusals

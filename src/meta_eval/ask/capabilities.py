"""Checks which requests a backend cannot answer, before any is sent. Used by run and by plug-ins."""

from __future__ import annotations

from collections.abc import Iterable

from meta_eval import assets
from meta_eval.ask.client import Client
from meta_eval.ask.request_kinds import find_kind
from meta_eval.harness.settings import Settings
from meta_eval.pack.backends.base import Backend, BackendError
from meta_eval.pack.backends.registry import backend_of, list_shipped

_ENGINES = f"Engines that can: {assets.asset_path('docs/guides/engines.md')}"


def find_refusals(
    backend: Backend, kinds: Iterable[str], client: Client | None = None, *, has_tokenizer: bool = True
) -> dict[str, str]:
    """Find the kinds of requests that cannot be answered, each with the reason.

    Args:
        backend: Its declared abilities are checked first.
        kinds: Names of each `RequestKind`.
        client: The started backend, which may know more; None before it is started.
        has_tokenizer: Whether requests have token ids.
    """
    refusals = {}
    for kind in dict.fromkeys(kinds):
        why = None if kind in backend.kinds else find_kind(kind).refuse(backend.name)
        if why is None and client is not None:
            why = client.cannot(kind, has_tokenizer=has_tokenizer)
        if why:
            refusals[kind] = why
    return refusals


def check_scores(settings: Settings) -> None:
    """Refuse a backend that scores neither texts nor choices, so that no pack can be measured with it; a missing file
    of the model; and one without the tokenizer, whose tokens are compared.

    Raises:
        BackendError: It only writes texts, or something is missing.
    """
    backend = backend_of(settings)
    backend.check_model(settings.model_name)
    if backend.reads_text and settings.tokenizer is None:
        raise BackendError(
            "needs the model's tokenizer to score tokens", where=f"backend {backend.name}",
            hint="Set tokenizer to a hub id or a folder that has tokenizer.json",
        )  # fmt: skip
    if not backend.kinds & {"force", "choices"}:
        raise describe_refusal(backend, "force", find_refusals(backend, ["force"])["force"])


def describe_refusal(backend: Backend, kind: str, why: str) -> BackendError:
    """The error for a kind of requests that a backend cannot answer."""
    if kind in backend.kinds:
        return BackendError(why, hint=_ENGINES)
    others = [shipped.name for shipped in list_shipped() if kind in shipped.kinds]
    return BackendError(why, hint=f"Use a backend that can ({', '.join(others)}), such as --set backend={others[0]}")

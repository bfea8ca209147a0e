"""The registry of backends: those of meta-eval and those of other packages."""

from __future__ import annotations

from collections.abc import Mapping

from meta_eval.base.errors import UserError, suggest_name
from meta_eval.base.extensions import Extension, find_extensions, load_extension
from meta_eval.harness.settings import Settings
from meta_eval.pack.backends.base import Backend
from meta_eval.pack.backends.server import Server
from meta_eval.plugins.chat.chat_backend import ChatEndpoint
from meta_eval.plugins.engines.llamacpp.backend import LlamaCpp
from meta_eval.plugins.engines.lm_eval.backend import LM_EVAL_MODELS, REFUSED
from meta_eval.plugins.engines.ray.backend import Ray
from meta_eval.plugins.engines.vllm.backend import Vllm

ENTRY_POINTS = "meta_eval.backends"

SHIPPED: Mapping[str, Backend] = {
    backend.name: backend for backend in (Vllm(), Server(), ChatEndpoint(), Ray(), LlamaCpp(), *LM_EVAL_MODELS)
}


class UnknownBackendError(ValueError):
    """The name is not a backend that can answer a pack."""


def list_backends() -> tuple[str, ...]:
    """The names of all backends: ours, then those of other packages."""
    return (*SHIPPED, *sorted(find_extensions(ENTRY_POINTS).keys() - SHIPPED.keys()))


def find_backend(name: str) -> Backend:
    """Find a backend by name. Code of another package is imported only for its own name.

    Raises:
        UnknownBackendError: The name is unknown, lm-eval's model of that name cannot answer a pack, or its package
            fails.
    """
    if name in SHIPPED:
        return SHIPPED[name]
    others = find_extensions(ENTRY_POINTS)
    if name in others:
        return _load(others[name])
    if name in REFUSED:
        raise UnknownBackendError(f"{name!r} cannot run a pack: {REFUSED[name]}")
    raise UnknownBackendError(f"unknown backend {name!r}{suggest_name(name, list_backends())}")


def backend_of(settings: Settings) -> Backend:
    """The backend for some settings.

    Raises:
        UnknownBackendError: As in `find_backend`.
    """
    return find_backend(settings.backend).resolve(settings)


def find_engine_of(argument: str, backend: Backend) -> str | None:
    """The other engine that has an argument of ``model_args``, where the engine of a backend has none of that name.
    None where that is not known."""
    if not backend.args_of or argument in backend.tuning:
        return None
    return next((other.args_of for other in SHIPPED.values() if argument in other.tuning), None)


def _load(extension: Extension) -> Backend:
    try:
        backend: Backend = load_extension(extension, Backend, name=(str,), kinds=(frozenset, set))
    except UserError as error:
        raise UnknownBackendError(f"{extension.name!r}: {error}") from error
    if backend.name != extension.name:
        value = extension.points[0].value
        raise UnknownBackendError(f"{extension.name!r} ({value}) defines the backend {backend.name!r}")
    return backend

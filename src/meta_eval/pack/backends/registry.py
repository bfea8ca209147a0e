"""The registry of backends. The core has `server`; others come by entry points, ours and those of other packages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import cache

from meta_eval.base.errors import UserError, suggest_name
from meta_eval.base.extensions import Extension, find_extensions, load_extension
from meta_eval.harness.settings import Settings
from meta_eval.pack.backends.base import Backend, BackendReasons
from meta_eval.pack.backends.server import Server, find_program

ENTRY_POINTS = "meta_eval.backends"
REASONS = "meta_eval.backend_reasons"


class UnknownBackendError(ValueError):
    """The name is not a backend that can answer a pack."""


def list_backends() -> tuple[str, ...]:
    """The names of all backends: the core's, those with a module of their own, and those that share a module.

    This reads entry points and imports nothing.
    """
    others = find_extensions(ENTRY_POINTS, (Server.name,))
    modules = Counter(map(_module_of, others.values()))
    named = sorted((modules[_module_of(other)] > 1, name) for name, other in others.items())
    return (Server.name, *(name for _, name in named))


def find_backend(name: str) -> Backend:
    """Find a backend by name. Its module alone is imported.

    Raises:
        UnknownBackendError: The name is unknown, that backend cannot answer a pack, or its package fails.
    """
    others = find_extensions(ENTRY_POINTS, (Server.name,))
    if name == Server.name:
        return Server(find_program())
    if extension := others.get(name):
        return _load(extension)
    if reason := _find_reason(name):
        raise UnknownBackendError(f"{name!r} cannot run a pack: {reason}")
    raise UnknownBackendError(f"unknown backend {name!r}{suggest_name(name, list_backends())}")


def backend_of(settings: Settings) -> Backend:
    """The backend for some settings.

    Raises:
        UnknownBackendError: As in `find_backend`.
    """
    return find_backend(settings.backend).resolve(settings)


def list_shipped() -> Iterator[Backend]:
    """The backends that came with meta-eval and can be loaded. A name that others claim, too, is left out."""
    yield find_backend(Server.name)
    extensions = find_extensions(ENTRY_POINTS)
    for name in list_backends()[1:]:
        if extensions[name].is_shipped:
            with suppress(UnknownBackendError):
                yield _load(extensions[name])


def find_engine_of(argument: str, backend: Backend) -> str | None:
    """The other engine that has an argument of ``model_args``, where the engine of a backend has none of that name.
    None where that is not known."""
    if not backend.args_of or argument in backend.tuning:
        return None
    return next((other.args_of for other in list_shipped() if argument in other.tuning), None)


def _module_of(extension: Extension) -> str:
    return extension.points[0].value.partition(":")[0]


def _find_reason(name: str) -> str | None:
    """Why a backend of another tool cannot run a pack; None if nobody says."""
    for extension in find_extensions(REASONS).values():
        with suppress(UserError):
            reasons: BackendReasons = load_extension(extension, BackendReasons)
            if reason := reasons.find(name):
                return reason
    return None


@cache
def _load(extension: Extension) -> Backend:
    try:
        backend: Backend = load_extension(extension, Backend, name=(str,), kinds=(frozenset, set))
    except UserError as error:
        raise UnknownBackendError(f"{extension.name!r}: {error}") from error
    if backend.name != extension.name:
        value = extension.points[0].value
        raise UnknownBackendError(f"{extension.name!r} ({value}) defines the backend {backend.name!r}")
    return backend


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

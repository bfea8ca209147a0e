"""The registry of backends. The core has `server`; others come by entry points, ours and those of other packages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from meta_eval.base.errors import UserError, suggest_name
from meta_eval.base.extensions import find_extensions, load_extension
from meta_eval.harness.settings import Settings
from meta_eval.pack.backends.base import (
    BACKENDS_GROUP,
    Backend,
    BackendReasons,
    UnknownBackendError,
    load_backend,
    load_shipped,
    sort_extensions,
)
from meta_eval.pack.backends.server import Server, find_program

REASONS = "meta_eval.backend_reasons"


def list_backends() -> tuple[str, ...]:
    """The names of all backends: the core's, those with a module of their own, and those that share a module.

    This reads entry points and imports nothing.
    """
    return (Server.name, *sort_extensions(find_extensions(BACKENDS_GROUP, (Server.name,))))


def find_backend(name: str) -> Backend:
    """Find a backend by name. Its module alone is imported.

    Raises:
        UnknownBackendError: The name is unknown, that backend cannot answer a pack, or its package fails.
    """
    others = find_extensions(BACKENDS_GROUP, (Server.name,))
    if name == Server.name:
        return Server(find_program())
    if extension := others.get(name):
        return load_backend(extension)
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
    yield from load_shipped()


def find_engine_of(argument: str, backend: Backend) -> str | None:
    """The other engine that has an argument of ``model_args``, where the engine of a backend has none of that name.
    None where that is not known."""
    if not backend.args_of or argument in backend.tuning:
        return None
    return next((other.args_of for other in list_shipped() if argument in other.tuning), None)


def _find_reason(name: str) -> str | None:
    """Why a backend of another tool cannot run a pack; None if nobody says."""
    for extension in find_extensions(REASONS).values():
        with suppress(UserError):
            reasons: BackendReasons = load_extension(extension, BackendReasons)
            if reason := reasons.find(name):
                return reason
    return None


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

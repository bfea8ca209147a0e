"""Loads classes of other packages by their entry points, and names the package whose class failed."""

from __future__ import annotations

import traceback
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from meta_eval.messages.errors import UserError

# By the package in which it is defined: the class as messages name it.
_LOADED: dict[str, str] = {}


class ExtensionError(UserError):
    """A class of another package cannot be loaded, or failed."""


def load_extension(point: EntryPoint, socket: type[Any]) -> Any:
    """An object of the class that an entry point names.

    Raises:
        ExtensionError: The class cannot be loaded, or does not derive from ``socket``.
    """
    name = f"{point.value} of package {point.dist.name} {point.dist.version}" if point.dist else point.value
    try:
        extension = point.load()()
    except UserError:
        raise
    except Exception as error:
        raise ExtensionError(f"cannot be loaded: {_describe(error)}", where=name) from error
    if not isinstance(extension, socket):
        raise ExtensionError(f"is not a {socket.__name__}", where=name)
    _LOADED[_package(type(extension).__module__)] = name
    return extension


def list_loaded() -> tuple[str, ...]:
    """The classes of other packages that were loaded."""
    return tuple(_LOADED.values())


def find_extension_fault(error: BaseException) -> ExtensionError | None:
    """An exception as the fault of the other package in whose code it was raised; None where it was raised in ours."""
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        package = _package(frame.f_globals.get("__name__", ""))
        if package == _package(__name__):
            return None
        if package in _LOADED:
            place = f"{Path(frame.f_code.co_filename).name}, line {line}"
            return ExtensionError(
                f"failed with {_describe(error)} ({place})", where=_LOADED[package], hint="Report it to that package"
            )
    return None


def _package(module: str) -> str:
    return module.partition(".")[0]


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__

"""Loads what plug-ins offer by entry points, and names the package whose code failed.

Nothing else loads them. What they print goes to stderr, and where they end the program, that is an error.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meta_eval.base.display import name_error
from meta_eval.base.errors import UserError
from meta_eval.base.isolation import isolate_import
from meta_eval.base.logs import log

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

# By the package in which it is defined: the class as messages name it.
_LOADED: dict[str, str] = {}


class ExtensionError(UserError):
    """A class of another package cannot be loaded, or failed."""


@dataclass(frozen=True, slots=True, eq=False)
class Extension:
    """What packages offer under a name. Two are equal only if they are one object."""

    name: str
    """The name."""

    points: tuple[EntryPoint, ...]
    """The entry points of this name: more than one where several classes claim it."""

    @property
    def is_shipped(self) -> bool:
        """Whether it came with meta-eval."""
        return all(_package(point.value) == _package(__name__) for point in self.points)

    def find_conflict(self) -> ExtensionError | None:
        """An error that names every class of this name; None if there is one class."""
        if len(self.points) == 1:
            return None
        offers = sorted(set(map(_name_of, self.points)))
        if len(offers) == 1:
            return None
        return ExtensionError(
            f"{self.name!r} is offered {len(offers)} times: {' and '.join(offers)}",
            where=f"entry points {self.points[0].group}", hint="Uninstall all of these packages but one",
        )  # fmt: skip


def entry_points(group: str) -> Iterable[EntryPoint]:
    """The entry points of a group in all installed packages."""
    points: Iterable[EntryPoint] = _read_entry_points(tuple(sys.path)).select(group=group)
    return points


@lru_cache(maxsize=4)
def _read_entry_points(path: tuple[str, ...]) -> Any:  # noqa: ARG001 (what is installed depends on it)
    """Those of all groups: to read the files of all packages takes milliseconds, and a command asks for ten groups."""
    from importlib import metadata  # slow to import, and most commands need no plug-in

    return metadata.entry_points()


def find_extensions(group: str, own: Collection[str] = ()) -> dict[str, Extension]:
    """What packages offer in a group of entry points, sorted by name.

    Args:
        group: The group.
        own: The names that meta-eval's core has. A package that offers one is left out, with a warning.
    """
    extensions = dict(_read_extensions(entry_points, group, tuple(sys.path)))
    for name in extensions.keys() & set(own):
        _warn_shadowed(extensions.pop(name))
    return extensions


@cache
def _warn_shadowed(extension: Extension) -> None:
    """Say once that it is never used."""
    for point in extension.points:
        what = f"is never used as {point.name!r} of {point.group}, which is a name of meta-eval itself"
        log.warning(str(ExtensionError(what, where=_name_of(point), hint="Give it another name")))


@lru_cache(maxsize=32)
def _read_extensions(
    read: Callable[..., Iterable[EntryPoint]],
    group: str,
    path: tuple[str, ...],  # noqa: ARG001 (what is installed depends on it)
) -> dict[str, Extension]:
    """`find_extensions`, once: it takes some milliseconds, and a command asks for the same backend many times."""
    points: dict[str, list[EntryPoint]] = {}
    for point in sorted(read(group=group), key=lambda point: point.name):
        points.setdefault(point.name, []).append(point)
    return {name: Extension(name, tuple(some)) for name, some in points.items()}


def load_extension(extension: Extension, socket: type[Any], **attributes: tuple[type, ...]) -> Any:
    """What an entry point names: an object, or an object of a class.

    Args:
        extension: Its name and entry point.
        socket: The class that it must be of.
        attributes: The types of its attributes that are read before it does anything.

    Raises:
        ExtensionError: Several classes have this name, or the class cannot be loaded, or is not of this form.
    """
    if (conflict := extension.find_conflict()) is not None:
        raise conflict
    point = extension.points[0]
    read_name = partial(_name_of, point)  # slow, and needed for messages and for other packages alone
    try:
        with _isolate(point.value, read_name):
            loaded = point.load()
            loaded = loaded() if isinstance(loaded, type) else loaded
    except ModuleNotFoundError as error:
        if not _is_missing(error, point.value):
            raise ExtensionError(f"cannot be loaded: {name_error(error)}", where=read_name()) from error
        raise ExtensionError(
            f"{point.name} of {point.group} is not there: no module {error.name}", where=read_name(),
            hint="Reinstall the package, or remove it",
        ) from error  # fmt: skip
    except UserError:
        raise
    except Exception as error:
        raise ExtensionError(f"cannot be loaded: {name_error(error)}", where=read_name()) from error
    if not isinstance(loaded, socket):
        raise ExtensionError(f"is not a {socket.__name__}", where=read_name())
    for attribute, kinds in attributes.items():
        if not isinstance(getattr(loaded, attribute, None), kinds):
            raise ExtensionError(f"{attribute} is not a {kinds[0].__name__}", where=read_name())
    for path in (point.value, type(loaded).__module__):
        if _package(path) != _package(__name__):
            _LOADED[_package(path)] = read_name()
    return loaded


@contextmanager
def guard_extension(path: str) -> Iterator[None]:
    """Import more of a plug-in, as `load_extension` does.

    Args:
        path: ``module:name``.

    Raises:
        ExtensionError: It cannot be imported.
    """
    name = _LOADED.get(_package(path), path)
    try:
        with _isolate(path, lambda: name):
            yield
    except UserError:
        raise
    except Exception as error:
        raise ExtensionError(f"cannot be loaded: {name_error(error)}", where=name) from error


def _isolate(path: str, read_name: Callable[[], str]) -> AbstractContextManager[None]:
    """Import code of another package apart; our own plug-ins need no guard."""
    if _package(path) == _package(__name__):
        return nullcontext()
    return isolate_import(
        read_name(), lambda error: ExtensionError(f"ends the program: {name_error(error)}", where=read_name())
    )


def list_loaded() -> tuple[str, ...]:
    """The classes of other packages that were loaded."""
    return tuple(dict.fromkeys(_LOADED.values()))


def find_extension_fault(error: BaseException) -> ExtensionError | None:
    """An exception as the fault of the other package in whose code it was raised; None where it was raised in ours."""
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        module = frame.f_globals.get("__name__", "")
        package = _package(module)
        if package == _package(__name__):
            return None
        if package in _LOADED:
            place = f"{Path(frame.f_code.co_filename).name}, line {line}"
            return ExtensionError(
                f"failed with {name_error(error)} ({place})", where=_LOADED[package], hint="Report it to that package"
            )
    return None


def _name_of(point: EntryPoint) -> str:
    with suppress(Exception):  # metadata of any form
        if point.dist is not None:
            return f"{point.value} of package {point.dist.name} {point.dist.version}"
    return point.value


def _package(path: str) -> str:
    """``pkg`` of ``pkg.module:name``."""
    return path.partition(":")[0].partition(".")[0]


def _is_missing(error: ModuleNotFoundError, path: str) -> bool:
    """Whether the module of an entry point, or a package around it, is what is missing."""
    return error.name is not None and f"{path.partition(':')[0]}.".startswith(f"{error.name}.")

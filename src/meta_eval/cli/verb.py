"""The socket for commands: a verb has a name, a line of help and a body that is imported when it is used.

A package adds a verb by an entry point of the group ``meta_eval.verbs``, which names a `Verb`. Keep it in a module that
imports nothing else: ``meta-eval --help`` reads the verbs of all packages.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

from meta_eval.base.extensions import ExtensionError, find_extensions, guard_extension, load_extension
from meta_eval.base.logs import log

VERBS_GROUP = "meta_eval.verbs"

# The headings of ``meta-eval --help``, in their order.
Panel = Literal["Make and verify", "Run", "Judge", "Extend"]
PANELS: tuple[Panel, ...] = ("Make and verify", "Run", "Judge", "Extend")


@dataclass(frozen=True, slots=True)
class Verb:
    """A command of ``meta-eval``."""

    name: str
    """As it is typed."""

    help: str
    """Its line in ``meta-eval --help``, which has 80 columns."""

    body: str
    """``module:name`` of the function that Typer calls, or of a `typer.Typer` with subcommands. It returns the exit
    code: 0, 1, 2, 3 or 130, and None for 0."""

    call: str = ""
    """``module:name`` of the function that ``meta_eval.NAME`` is in Python; empty if there is none."""

    panel: Panel = "Extend"
    """The heading under which help lists it."""

    resumes: bool = False
    """Whether the same command goes on from what an interrupted one has saved."""

    next_after: Mapping[str, str] = field(default_factory=dict)
    """Its arguments where another command names it as the next, by what that one has made: ``forced`` requests, or a
    pack that the backend can only ``score``. ``{pack}`` stands for the pack."""

    def load(self) -> Any:
        """Import the body."""
        return _load(self.body)

    def load_call(self) -> Any:
        """Import the function for Python.

        Raises:
            AttributeError: It has none.
        """
        if not self.call:
            raise AttributeError(f"{self.name} is no function")
        return _load(self.call)


def _load(path: str) -> Any:
    module, _, name = path.partition(":")
    with guard_extension(path):
        return getattr(import_module(module), name)


def find_verb(name: str, shipped: Iterable[Verb]) -> Verb | None:
    """The verb of a name; None if there is none. Another package is asked only for a name that the core does not have.

    Raises:
        ExtensionError: Its package cannot be loaded.
    """
    if own := next((verb for verb in shipped if verb.name == name), None):
        return own
    point = find_extensions(VERBS_GROUP).get(name)
    if point is None:
        return None
    verb: Verb = load_extension(point, Verb)
    if verb.name != name:
        raise ExtensionError(f"defines the verb {verb.name}", where=f"{name} ({point.points[0].value})")
    return verb


def warn_shadowed(name: str | None, shipped: Iterable[Verb]) -> None:
    """Say which package's verb of this name is never used, because the core has one."""
    find_extensions(VERBS_GROUP, [verb.name for verb in shipped if verb.name == name])


def list_verbs(shipped: Iterable[Verb], warn: Callable[[str], None] = log.warning) -> list[Verb]:
    """All verbs under their headings: those of the core, then the others by name. ``warn`` says which are broken."""
    verbs = list(shipped)
    for name in sorted(find_extensions(VERBS_GROUP, [verb.name for verb in verbs])):
        try:
            verbs += filter(None, [find_verb(name, ())])
        except ExtensionError as error:
            warn(str(error))
    return sorted(verbs, key=lambda verb: PANELS.index(verb.panel) if verb.panel in PANELS else len(PANELS))


def find_next_command(made: str, pack: str) -> str | None:
    """The next command after something was made, as a verb of another package says; None if none does.

    Args:
        made: ``forced`` or ``score``, as in `Verb`.
        pack: The folder of the pack.
    """
    for verb in list_verbs((), warn=log.debug):
        if made in verb.next_after:
            return f"meta-eval {verb.name} {verb.next_after[made].format(pack=shlex.quote(pack))}"
    return None

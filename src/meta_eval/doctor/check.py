"""The socket for checks of `meta-eval doctor`, and what a check finds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from meta_eval.base.errors import UserError
from meta_eval.base.extensions import find_extensions, load_extension
from meta_eval.pack.manifest import Manifest
from meta_eval.pack.prompt_lengths import Prompts

CHECKS_GROUP = "meta_eval.checks"

Status = Literal["passed", "failed", "not checked"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A line for the user."""

    name: str
    """What was checked, in a word or two."""

    status: Status
    """The result. Also "not checked" if another fault hides it."""

    what: str
    """What was seen, or why it was not checked."""

    hint: str | None = None
    """What to do about a failure, with the command if there is one. None otherwise."""

    def __str__(self) -> str:
        end = "" if self.what.endswith(("?", ".")) else "."
        return f"{self.name}: {self.what}" + (f"{end} {self.hint}" if self.hint else "")


def passed(name: str, what: str) -> Finding:
    return Finding(name, "passed", what)


def failed(name: str, what: str, hint: str) -> Finding:
    return Finding(name, "failed", what.rstrip("."), hint)


def not_checked(name: str, why: str) -> Finding:
    return Finding(name, "not checked", why)


@dataclass(frozen=True, slots=True)
class CheckedPack:
    """A pack that is checked."""

    folder: Path
    """Where it is."""

    manifest: Manifest
    """Its manifest: tasks, backend, settings of the run."""

    prompts: Mapping[str, Prompts]
    """Of each task, all prompts; none where the docs are missing or damaged."""


class Check(ABC):
    """A check of a pack, of this machine or of the pack's engine, which a plug-in adds to ``meta-eval doctor PACK``.

    A package registers it by an entry point of the group ``meta_eval.checks``. It takes seconds, needs no GPU and
    changes nothing.
    """

    @abstractmethod
    def check(self, pack: CheckedPack) -> Iterable[Finding]:
        """Yield a line for each thing that was checked, made by `passed`, `failed` or `not_checked`.

        Nothing is yielded where the check does not concern the pack. A failure ends ``meta-eval doctor`` with exit
        code 2: for what another machine may have, such as a GPU, yield `not_checked`.
        """


def run_checks(pack: CheckedPack) -> Iterator[Finding]:
    """What the checks of all plug-ins find, by name. One that cannot be loaded is a line, too."""
    for name, extension in find_extensions(CHECKS_GROUP).items():
        try:
            check: Check = load_extension(extension, Check)
        except UserError as error:
            yield not_checked(name, str(error))
        else:
            yield from check.check(pack)

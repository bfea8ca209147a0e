"""The result of a check of `meta-eval doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["passed", "failed", "not checked"]


@dataclass(frozen=True, slots=True)
class Check:
    """A line for the user.

    Attributes:
        name: What was checked, in a word or two.
        status: The result. Also "not checked" if another fault hides it.
        what: What was seen, or why it was not checked.
        hint: What to do about a failure, with the command if there is one. None otherwise.
    """

    name: str
    status: Status
    what: str
    hint: str | None = None

    def __str__(self) -> str:
        end = "" if self.what.endswith("?") else "."
        return f"{self.name}: {self.what}" + (f"{end} {self.hint}" if self.hint else "")


def passed(name: str, what: str) -> Check:
    return Check(name, "passed", what)


def failed(name: str, what: str, hint: str) -> Check:
    return Check(name, "failed", what.rstrip("."), hint)


def not_checked(name: str, why: str) -> Check:
    return Check(name, "not checked", why)

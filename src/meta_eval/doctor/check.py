"""One check of `meta-eval doctor` and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["passed", "failed", "not checked"]


@dataclass(frozen=True, slots=True)
class Check:
    """One line for the user.

    Attributes:
        name: What was looked at, in a word or two.
        status: What came of it; not checked also where another fault hides it.
        what: What was seen, or why it was not checked.
        hint: What to do about a failure, with the exact command where there is one; None for the others.
    """

    name: str
    status: Status
    what: str
    hint: str | None = None

    def __str__(self) -> str:
        return f"{self.name}: {self.what}" + (f". {self.hint}" if self.hint else "")


def passed(name: str, what: str) -> Check:
    return Check(name, "passed", what)


def failed(name: str, what: str, hint: str) -> Check:
    return Check(name, "failed", what.rstrip("."), hint)


def not_checked(name: str, why: str) -> Check:
    return Check(name, "not checked", why)

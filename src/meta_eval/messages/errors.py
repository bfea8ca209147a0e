"""The tree of errors that a user can cause, each of which becomes one message and exit code 2.

What the system refuses (`OSError`) ends so too. Anything else is a fault of meta-eval itself: exit code 70.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from meta_eval.messages.escaping import one_line
from meta_eval.messages.secrets import redacted

_LONGEST_WORD = 200

_P = ParamSpec("_P")
_T = TypeVar("_T")


class UserError(Exception):
    """Something that the user can fix.

    Attributes:
        what: What is wrong, without a full stop.
        where: The place: a file, a key, a line, a row; None when there is none.
        hint: What to do about it; None when ``what`` says it already.
        behind: Set by `locating`: what stands between a surrounding place and ``where``, if that is a part of it.
    """

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        self.what = what
        self.where = where
        self.hint = hint
        self.behind = ""
        super().__init__(str(self))

    def __str__(self) -> str:
        message = f"{self.where}: {self.what}" if self.where else self.what
        end = "" if message.endswith("?") else "."
        return one_line(redacted(f"{message}{end} {self.hint}" if self.hint else message))


class locating:  # noqa: N801 (it stands in a `with`, as a verb)
    """A block whose errors name a place: `UserError` that is raised in it without one gets this one.

    The innermost place wins. A block may hold the `yield` of a generator, but not that of a context manager, which the
    errors of its own block pass.

    Args:
        place: A file, a key, a line, a row; None for none.
        behind: What stands between the place of the surrounding block and this one, which is a part of it; empty where
            this one stands by itself.
    """

    __slots__ = ("_behind", "_place")

    def __init__(self, place: object, *, behind: str = "") -> None:
        self._place = place
        self._behind = behind

    def __enter__(self) -> None:
        """Nothing is done before an error is raised."""

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if not isinstance(error, UserError) or self._place is None:
            return
        if error.where is None:
            error.where = str(self._place)
        elif error.behind:
            error.where = f"{self._place}{error.behind}{error.where}"
        else:
            return
        error.behind = self._behind
        error.args = (str(error),)


def refused(error: OSError) -> UserError:
    """What the system refused, of whatever file, as a user's error."""
    if error.filename is None and error.strerror == os.strerror(errno.ENOENT):  # of getcwd(2), which many a path needs
        return UserError("the working directory no longer exists", hint="Change to another folder: cd ~")
    where = error.filename if error.filename is not None else "stdout, or another file that was open"
    return UserError(error.strerror or str(error) or type(error).__name__, where=str(where))


class ConfigError(UserError):
    """The configuration file or an override says something that cannot be."""


class TemplateError(UserError):
    """A template folder holds something that is not a task template."""


class SourceError(UserError):
    """An evals dataset or an original dataset cannot be had: missing, gated, cut off, corrupt."""


class DataError(UserError):
    """A row holds something that would make a wrong number."""


class JoinError(DataError):
    """Rows of an evals dataset and of its original do not match one to one."""


class PackError(UserError):
    """A work_dir cannot be written, or is not a pack."""


def documented(job: Callable[_P, _T]) -> Callable[_P, _T]:
    """A function that raises what its docstring says: what the system refuses is the user's to put right as well."""

    @wraps(job)
    def done(*arguments: _P.args, **keywords: _P.kwargs) -> _T:
        for value in (*arguments, *keywords.values()):
            for one in _parts(value):
                if isinstance(one, (str, Path)) and "\0" in str(one):
                    raise UserError("holds a NUL byte, which a file name cannot", where=str(one))
        try:
            return job(*arguments, **keywords)
        except OSError as error:
            raise refused(error) from error

    return done


def _parts(value: object) -> Iterable[object]:
    """The members of a list, a tuple or an object of options; of anything else the value."""
    if isinstance(value, (list, tuple)):
        return value
    names: Iterable[str] = getattr(value, "__dataclass_fields__", ())
    return [value, *(getattr(value, name) for name in names)]


def suggestion(word: str, known: Iterable[str]) -> str:
    """The ending ``; did you mean 'x'?`` for the known word nearest to ``word``, or an empty string."""
    if len(word) > _LONGEST_WORD:  # no misspelt name; and comparing takes time that grows with its square
        return ""
    near = get_close_matches(word, [one for one in known if len(one) <= _LONGEST_WORD], n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""

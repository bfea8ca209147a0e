"""Errors that a user can cause. Each becomes a single message and exit code 2.

Errors of the system (`OSError`) end in the same way. Anything else is a bug of meta-eval: exit code 70.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from meta_eval.base.display import cut_words, one_line
from meta_eval.base.secrets import redact_secrets

_LONGEST_WORD = 200
# From this similarity on, a word is a typo of the other. Shorter parts of a name than this tell nothing.
_TYPO, _SHORTEST_PART = 0.8, 4

# Errors that a single message lists, and characters of a place and of what is wrong there.
_MOST_JOINED, _LONGEST_PART = 8, 1500

# Errors of the system that say that a file has no room, and what to do then.
FULL_DISK = (errno.EFBIG, errno.ENOSPC, errno.EDQUOT)
FREE_SPACE = "Free space there and in the folder of temporary files (TMPDIR)"

# What Python says where no folder takes a temporary file.
_NO_FOLDER = "No usable temporary directory found"

# What to do about what the system says, where nothing else is said.
_HINTS = {
    **dict.fromkeys(FULL_DISK, FREE_SPACE),
    errno.EACCES: "Allow it (chmod u+rwX), or name another",
    errno.EEXIST: "Move away the file that is where a folder is needed, or name another folder",
    errno.ENOTDIR: "Move away the file that is where a folder is needed, or name another folder",
}

_P = ParamSpec("_P")
_E = TypeVar("_E", bound="UserError")
_T = TypeVar("_T")


class UserError(Exception):
    """An error that the user can fix.

    Attributes:
        what: What is wrong, without a full stop.
        where: The place: a file, a key, a line, a row. None if there is none.
        hint: What to do. None if ``what`` says it already.
        behind: Set by `locating`: the text between a surrounding place and ``where``, if that is a part of it.
    """

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        self.what = what
        self.where = where
        self.hint = hint
        self.behind = ""
        super().__init__(str(self))

    def __str__(self) -> str:
        what, where = (text and _shorten(text) for text in (self.what, self.where))
        message = f"{where}: {what}" if where else f"{what}"
        end = "" if message.endswith(("?", ".")) else "."
        hint = self.hint or next((todo for code, todo in _HINTS.items() if os.strerror(code) in self.what), None)
        return one_line(f"{message}{end} {hint}" if hint else message)


def _shorten(text: str) -> str:
    """A part of a message without credentials, on one line, with what it repeats cut to a length."""
    short = cut_words(redact_secrets(text))
    return short if len(short) <= _LONGEST_PART else f"{short[:_LONGEST_PART]}…"


class locating:  # noqa: N801 (it stands in a `with`, as a verb)
    """A block that adds a place to each `UserError` raised in it without a place.

    The innermost place wins. The block may contain a generator's `yield`, but not that of a context manager, which
    would catch the errors of its own block.

    Args:
        place: A file, a key, a line, a row, or None.
        behind: Text between the surrounding place and this place, which is a part of it. Empty if this place is
            independent.
    """

    __slots__ = ("_behind", "_place")

    def __init__(self, place: object, *, behind: str = "") -> None:
        self._place = place
        self._behind = behind

    def __enter__(self) -> None:
        """Do nothing. Only errors matter."""

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
    """Turn an error of the system into a user's error."""
    if error.filename is None and error.strerror == os.strerror(
        errno.ENOENT
    ):  # getcwd(2) failed; relative paths need it
        return UserError("the working directory no longer exists", hint="Change to another folder: cd ~")
    if _NO_FOLDER in str(error):
        what = "there is no folder for temporary files that can be written and has space"
        return UserError(what, where="TMPDIR", hint="Set TMPDIR to one, or free space in /tmp")
    where = error.filename if error.filename is not None else "stdout, or another file that was open"
    return UserError(error.strerror or str(error) or type(error).__name__, where=str(where))


class ConfigError(UserError):
    """The configuration or an override has an invalid value."""


class TemplateError(UserError):
    """A template folder is invalid."""


class SourceError(UserError):
    """An evals dataset or an original dataset is missing, gated, incomplete or corrupt."""


class UnreachableError(SourceError):
    """The hub did not answer. ``by_choice``: ``HF_HUB_OFFLINE`` forbids requests."""

    by_choice = False


class DataError(UserError):
    """A row would cause a wrong number."""


class JoinError(DataError):
    """Rows of an evals dataset and of its original do not match one to one."""


class PackError(UserError):
    """A work_dir cannot be written, or is not a pack."""


def join_errors(errors: Sequence[_E]) -> _E:
    """Make a single error of several: the first, with the others behind it. A hint that several have is said once."""
    first, *others = errors
    parts, hints = [first.hint] if first.hint else [], {first.hint}
    for error in others[: _MOST_JOINED - 1]:
        parts.append(
            f"Also {type(error)(error.what, where=error.where, hint=None if error.hint in hints else error.hint)}"
        )
        hints.add(error.hint)
    if len(errors) > _MOST_JOINED:
        parts.append(f"And {len(errors) - _MOST_JOINED} more")
    hint = "".join(f"{part}{'' if part.endswith('?') else '.'} " for part in parts).strip().removesuffix(".")
    return type(first)(first.what, where=first.where, hint=hint or None)


def documented(job: Callable[_P, _T]) -> Callable[_P, _T]:
    """Wrap a function so that it raises what its docstring says. An OSError becomes a UserError."""

    @wraps(job)
    def done(*arguments: _P.args, **keywords: _P.kwargs) -> _T:
        for value in (*arguments, *keywords.values()):
            for part in _parts(value):
                if isinstance(part, (str, Path)) and "\0" in str(part):
                    raise UserError("holds a NUL byte, which a file name cannot", where=str(part))
        try:
            return job(*arguments, **keywords)
        except OSError as error:
            raise refused(error) from error

    return done


def _parts(value: object) -> Iterable[object]:
    """The members of a list, a tuple or an options object. Any other value is its own only member."""
    if isinstance(value, (list, tuple)):
        return value
    names: Iterable[str] = getattr(value, "__dataclass_fields__", ())
    return [value, *(getattr(value, name) for name in names)]


def suggest_name(word: str, names: Iterable[str]) -> str:
    """The text ``; did you mean 'x'?`` for the nearest known words, or an empty string.

    A clear typo has one suggestion. Otherwise there are up to three, also words that contain the word.
    """
    if len(word) > _LONGEST_WORD:  # too long for a typo, and the comparison takes quadratic time
        return ""
    known = sorted({name for name in names if len(name) <= _LONGEST_WORD})
    near = (
        _find_squeezed(word, known)
        or get_close_matches(word, known, n=1, cutoff=_TYPO)
        or [
            *get_close_matches(word, known, cutoff=0.6),
            *(name for name in known if len(word) >= _SHORTEST_PART and word in name),
        ]
    )
    shown = [repr(name) for name in list(dict.fromkeys(near))[:3]]
    return f"; did you mean {' or '.join(filter(None, (', '.join(shown[:-1]), shown[-1])))}?" if shown else ""


def _find_squeezed(word: str, known: Sequence[str]) -> list[str]:
    """The names that hold a word but for its separators: ``mmlu_pro`` for ``mmlupro``."""
    squeezed = _squeeze(word)
    if len(squeezed) < _SHORTEST_PART or any(word in name for name in known):
        return []
    return [name for name in known if squeezed in _squeeze(name)]


def _squeeze(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.lower())


# Messages of pydantic, and what is so instead.
_PLAIN = tuple(
    (re.compile(pattern, re.DOTALL), plain)
    for pattern, plain in (
        (r"Field required", "it is missing"),
        (r"Extra inputs are not permitted", "there is no such key"),
        (r"(?:\w+) should have (at (?:least|most) \d+ \w+).*", r"it must have \1"),
        (r"String should match pattern (.+)", r"it must match \1"),
        (r"Assertion failed, (.+)", r"\1"),
        (r"Input should be a valid integer.*", "it must be a whole number"),
        (r"Input should be a valid number.*", "it must be a number"),
        (r"Input should be a valid boolean.*", "it must be true or false"),
        (r"Input should be a valid string.*", "it must be a text"),
        (r"Input should be a valid (?:list|tuple|set|frozenset).*", "it must be a list"),
        (r"Input should be (?:a valid dictionary|an object).*", "it must be a mapping of keys to values"),
        (r"Input should be None.*", "it must be null"),
        (r"Input should be greater than or equal to (.+)", r"it must be \1 or more"),
        (r"Input should be less than or equal to (.+)", r"it must be \1 or less"),
        (r"Input should be greater than (.+)", r"it must be more than \1"),
        (r"Input should be (.+)", r"it must be \1"),
        (r"(?:Input|\w+) should (.+)", r"it must \1"),
    )
)


def describe_wrong_value(message: str, value: object = "") -> str:
    """What is wrong with a value in plain words: ``it must be a whole number``. Messages of our own checks stay as they
    are.

    Args:
        message: The message of pydantic's error.
        value: The value, for the nearest of the allowed names.
    """
    own = message.removeprefix("Value error, ")
    words = own.rstrip(".")
    if own != message:
        return words
    plain = next((match.expand(plain) for pattern, plain in _PLAIN if (match := pattern.fullmatch(words))), words)
    names = re.findall("'([^']*)'", words) if words.startswith("Input should be ") else []
    return f"{plain}{suggest_name(str(value), names)}"

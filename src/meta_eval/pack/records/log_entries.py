"""Reads logs of other harnesses: JSON files and lines, bounded, with the place of each fault.

A log is data that nobody checked. `LogEntry` gives a value only if it has the wanted type, and names its place if not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from meta_eval.base.display import quoted
from meta_eval.base.errors import DataError, SourceError
from meta_eval.base.inputs import (
    RepeatedNameError,
    TooDeepError,
    describe_error,
    describe_form,
    is_deep,
    open_data,
    open_regular,
    parse_foreign_json,
    read_regular,
)

if TYPE_CHECKING:
    from meta_eval.pack.records.format import Place

# The largest log that is read whole. Python needs some five times as much memory for its tree.
MAX_LOG = 2**29

# The longest line: a sample with a transcript of some million tokens is shorter.
MAX_LINE = 2**26

# The bytes by which a log is recognised.
_START = 2**13

# What to do about a log that no harness wrote so.
HINT = "Use the file of a finished run, as it was written"


@contextmanager
def advising(hint: str = HINT) -> Iterator[None]:
    """A block in which an error of a log's data says what to do, if with nothing better than this hint."""
    try:
        yield
    except DataError as error:
        error.hint = error.hint or hint
        raise


@dataclass(frozen=True, slots=True)
class LogEntry:
    """An object of a log."""

    tree: Mapping[str, Any]
    """Its members."""

    where: str
    """Its place, for messages."""

    @classmethod
    def of(cls, value: object, where: str) -> Self:
        """Check that a value is an object.

        Raises:
            DataError: It is not.
        """
        if not isinstance(value, dict):
            raise DataError(f"is {_name_type(value)} and no object", where=where, hint=HINT)
        return cls(value, where)

    def __contains__(self, name: str) -> bool:
        """Whether it has a value that is not null."""
        return self.tree.get(name) is not None

    def find_text(self, name: str) -> str | None:
        """A text; None if it is missing or null.

        Raises:
            DataError: It is something else.
        """
        value = self.tree.get(name)
        if value is not None and not isinstance(value, str):
            raise self.refuse(name, value, "text")
        return value

    def text(self, name: str) -> str:
        """A text that must be there.

        Raises:
            DataError: It is missing, or something else.
        """
        value = self.find_text(name)
        if value is None:
            raise DataError(f"has no {name}", where=self.where, hint=HINT)
        return value

    def find_key(self, name: str) -> str | None:
        """A text or a whole number, as text, such as an id; None if it is missing or null.

        Raises:
            DataError: It is something else.
        """
        value = self.tree.get(name)
        if isinstance(value, bool) or not isinstance(value, str | int | None):
            raise self.refuse(name, value, "a text or a whole number")
        return None if value is None else str(value)

    def find_count(self, name: str) -> int | None:
        """A number of things, 0 or more; None if it is missing or null.

        Raises:
            DataError: It is something else.
        """
        value = self.tree.get(name)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
            raise self.refuse(name, value, "a whole number from 0")
        return value

    def find_number(self, name: str) -> float | None:
        """A number that is finite; None if it is missing, null or NaN.

        Raises:
            DataError: It is something else.
        """
        value = self.tree.get(name)
        if value is None or value != value:  # noqa: PLR0124 (NaN)
            return None
        number = to_number(value)
        if number is None:
            raise self.refuse(name, value, "a number")
        return number

    def find_time(self, name: str) -> str | None:
        """A time in UTC, in ISO 8601 without a zone, of a text in ISO 8601; None if there is no such time.

        Raises:
            DataError: It is no text.
        """
        written = self.find_text(name)
        try:
            when = datetime.fromisoformat(written or "")
            when = when if when.tzinfo is None else when.astimezone(UTC).replace(tzinfo=None)
        except (ValueError, OverflowError):  # the latter at the ends of the calendar
            return None
        return when.isoformat()

    def find_entry(self, name: str) -> LogEntry:
        """An object; an empty one if it is missing or null.

        Raises:
            DataError: It is something else.
        """
        value = self.tree.get(name)
        if value is not None and not isinstance(value, dict):
            raise self.refuse(name, value, "an object")
        return LogEntry(value or {}, f"{self.where}, {name}")

    def find_list(self, name: str) -> list[Any]:
        """A list; an empty one if it is missing or null.

        Raises:
            DataError: It is something else.
        """
        value = self.tree.get(name)
        if value is not None and not isinstance(value, list):
            raise self.refuse(name, value, "a list")
        return value or []

    def find_entries(self, name: str) -> list[LogEntry]:
        """A list of objects; an empty one if it is missing or null.

        Raises:
            DataError: It is something else.
        """
        return [
            LogEntry.of(value, f"{self.where}, {name} {number}") for number, value in enumerate(self.find_list(name))
        ]

    def find_settings(self, places: Mapping[str, str]) -> dict[str, Any]:
        """The values at places inside it, by name; none of what is missing or null.

        Args:
            places: By name a place: members with dots between, such as ``config.message_limit``.
        """
        values = {name: self._find_value(place) for name, place in places.items()}
        return {name: value for name, value in values.items() if value is not None}

    def _find_value(self, place: str) -> Any:
        value: Any = self.tree
        for member in place.split("."):
            value = value.get(member) if isinstance(value, dict) else None
        return value

    def refuse(self, name: str, value: object, what: str) -> DataError:
        """The error of a member that is not what it must be."""
        shown = _name_type(value) if isinstance(value, dict | list) else quoted(value)
        return DataError(f"{name} is {shown}, and must be {what}", where=self.where, hint=HINT)


def _name_type(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def to_number(value: object) -> float | None:
    """A finite number; true and false count as 1 and 0. None for anything else."""
    if not isinstance(value, bool | int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def read_number(text: str) -> float | None:
    """The finite number that a text is, in digits of ASCII; None for any other text."""
    try:
        return to_number(float(text)) if text.isascii() and "_" not in text else None
    except ValueError:
        return None


def peek_log(path: Path) -> bytes:
    """The first bytes of a file behind a mark of UTF-8, by which its format is known; empty if it cannot be read."""
    try:
        with open_regular(path, buffering=_START) as file:
            return file.read(_START).removeprefix(b"\xef\xbb\xbf")
    except (OSError, ValueError):
        return b""


def find_logs(place: Place, is_log: Callable[[Path], bool]) -> dict[str, Path]:
    """The logs of a place, by their names inside a folder; of a file its own name.

    Args:
        place: A folder or file on this machine.
        is_log: Whether a file is a log of the wanted format. It raises nothing.
    """
    if place.path is None:
        return {}
    if not place.path.is_dir():
        return {place.path.name: place.path} if place.path.is_file() and is_log(place.path) else {}
    paths = {name: place.path / name for name in place.files}
    return {name: path for name, path in paths.items() if is_log(path)}


def parse_log(content: bytes, where: str) -> Any:
    """Parse the JSON of a log. Lone surrogates become U+FFFD.

    Raises:
        SourceError: It is not JSON, not UTF-8, nested too deeply, or has an object with a name twice.
    """
    if not content.strip():
        raise SourceError("is empty", where=where, hint=HINT)
    if (form := describe_form(content[:8])) is not None:
        raise SourceError(f"cannot be read: {form}", where=where)
    try:
        tree = parse_foreign_json(content.decode("utf-8-sig"))
        if is_deep(tree):
            raise TooDeepError
        return tree
    except (TooDeepError, RepeatedNameError) as error:
        raise SourceError(str(error), where=where, hint=HINT) from None
    except ValueError as error:
        cut = "byte" in describe_error(error) and isinstance(error, UnicodeDecodeError)
        what = describe_error(error) if cut else "is cut off or not JSON"
        raise SourceError(what, where=where, hint=HINT) from None


def read_log(path: Path) -> LogEntry:
    """Read a log that is one JSON object, of at most `MAX_LOG` bytes.

    Raises:
        SourceError: It cannot be read, or is not JSON.
        DataError: It is no object.
    """
    try:
        content = read_regular(path, limit=MAX_LOG)
    except OSError as error:
        raise SourceError(f"cannot be read: {describe_error(error)}", where=str(path)) from None
    return LogEntry.of(parse_log(content, str(path)), str(path))


def read_log_lines(path: Path) -> Iterator[LogEntry]:
    """Read a log with a JSON object on each line. Blank lines are skipped.

    Raises:
        SourceError: It cannot be read, a line is longer than `MAX_LINE` bytes or is not JSON.
        DataError: A line is no object.
    """
    try:
        with open_data(path) as file:
            number = 0
            while line := file.readline(MAX_LINE + 1):
                number += 1
                where = f"{path}, line {number}"
                if len(line) > MAX_LINE:
                    raise SourceError(f"is longer than {MAX_LINE // 2**20} MiB", where=where, hint=HINT)
                if not line.isspace():
                    yield LogEntry.of(parse_log(line, where), where)
    except OSError as error:
        raise SourceError(f"cannot be read: {describe_error(error)}", where=str(path)) from None

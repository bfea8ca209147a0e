"""Reads rows of data files: parquet with pyarrow, JSON lines with a strict reader.

Meta's ``*.parquet.gzip`` files are plain parquet with compressed columns. A file is parquet if any of its suffixes says
so, or if it starts with parquet's magic bytes.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, NoReturn

from meta_eval.base.display import quoted
from meta_eval.base.inputs import MAX_DEPTH, MAX_FILE, describe_error, describe_form, open_parquet
from meta_eval.pack.hub import DataFile
from meta_eval.sockets import SourceError, locating

SourceRow = dict[str, Any]

_MAGIC = b"PAR1"
_BATCH = 1024  # rows
_NAMED_PARQUET = re.compile(r"\.parquet(?:\.gzip|\.gz)?$", re.IGNORECASE)
_NAMED_CSV = re.compile(r"\.[ct]sv$", re.IGNORECASE)
_BLANK = codecs.BOM_UTF8 + b" \t\r\n"
_HINT = "Fetch or copy the file again; if it stays so, the dataset itself is damaged"


@dataclass(frozen=True, slots=True)
class RowPlace:
    """The dataset and subset of rows, for messages."""

    dataset_id: str
    subset: str
    origins: Sequence[tuple[int, str]] = ()
    """Of rows that were joined: the number of each in the subset, and the place of its original."""

    def row(self, number: int, row: Mapping[str, Any]) -> str:
        """``dataset, subset s, row 3 (question hash 12ab…)``; rows count from 0, as in the hub's viewer."""
        recorded = row.get("input_question_hash")
        question_hash = f" (question hash {recorded})" if isinstance(recorded, str) and recorded else ""
        number, origin = self.origins[number] if self.origins else (number, "")
        return f"{self}, row {number}{question_hash}{origin and f', joined with {origin}'}"

    def __str__(self) -> str:
        return f"{self.dataset_id}, subset {self.subset}"


def read_evals_rows(files: Sequence[DataFile], *, dataset_id: str, subset: str) -> list[SourceRow]:
    """Read all rows of some files, in the order of the files and of their rows.

    Args:
        files: Parquet or JSON lines.
        dataset_id: For messages.
        subset: Subset or split, for messages.

    Returns:
        One dict per row; structs become dicts and lists stay lists, at every level.

    Raises:
        SourceError: A file is empty, truncated, or neither parquet nor JSON lines; a JSON line is not an object,
            repeats a key, or holds NaN, an infinity or a lone surrogate; there is no row.
    """
    rows: list[SourceRow] = []
    for file in files:
        with locating(f"{dataset_id}, {subset}, {file.name}"):
            try:
                with file.open() as stream:
                    head = stream.read(64)
                if not head:
                    raise SourceError("the file is empty", hint=_HINT)
                if head.startswith(_MAGIC):
                    rows.extend(_parquet_rows(file))
                elif _NAMED_PARQUET.search(file.name):
                    raise SourceError(f"this is not parquet{_looks_like(head)}", hint=_HINT)
                elif form := describe_form(head):
                    raise SourceError(form)
                elif _NAMED_CSV.search(file.name) and not head.lstrip(_BLANK).startswith(b"{"):
                    raise SourceError("this is CSV, which is not read", hint="Write it as .parquet or as JSON lines")
                else:
                    rows.extend(_json_rows(file))
            except OSError as error:
                raise SourceError(f"cannot be read: {error.strerror or error}", hint=_HINT) from error
    if not rows:
        raise SourceError("holds no rows", where=f"{dataset_id}, {subset}", hint=_HINT)
    return rows


def _looks_like(head: bytes) -> str:
    if head.startswith(b"\x1f\x8b"):
        return ", but a gzip archive"
    if head.lstrip()[:1] == b"<":
        return ", but a web page"
    return ""


def _parquet_rows(file: DataFile) -> Iterator[SourceRow]:
    """Read in batches, so that texts are not held twice, as columns and as rows."""
    import pyarrow as pa

    try:
        # Read as a single file, so that pyarrow finds no partition in the folder's name.
        with open_parquet(file.path) as parquet:
            names = parquet.schema_arrow.names
            if len(set(names)) != len(names):
                raise SourceError("two columns have the same name", hint=_HINT)
            start = 0
            for batch in parquet.iter_batches(_BATCH):
                columns = [_values(batch.column(name), name, start) for name in names]
                yield from (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))
                start += batch.num_rows
    except SourceError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError, MemoryError) as error:
        raise SourceError(f"truncated or corrupt parquet ({describe_error(error)})", hint=_HINT) from error


def _values(column: Any, name: str, start: int) -> list[Any]:
    """Convert a column to Python values. Its first value is row ``start`` of the file.

    Raises:
        SourceError: A value is invalid, such as an impossible date or text that is not UTF-8.
    """
    try:
        values: list[Any] = column.to_pylist()
    except Exception as error:  # pyarrow raises many kinds
        with locating(f"row {start + _first_unreadable(column)}", behind=", "):
            raise SourceError(
                f"column {quoted(name)} cannot be read: {describe_error(error)}",
                hint="Correct the value, or write the column as text",
            ) from error
    return values


def _first_unreadable(column: Any) -> int:
    for number, value in enumerate(column):
        try:
            value.as_py()
        except Exception:
            return number
    return len(column)


def _json_rows(file: DataFile) -> Iterator[SourceRow]:
    with file.open() as stream:
        if stream.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
            stream.seek(0)
        # Split bytes at \n only: str.splitlines also splits at U+2028, which JSON allows in strings.
        for number, line in enumerate(iter(partial(stream.readline, MAX_FILE + 1), b""), start=1):
            if len(line) <= MAX_FILE and line.isspace():
                continue
            try:
                row = _json_row(line)
            except SourceError:
                with locating(f"line {number}", behind=", "):
                    raise
            yield row


def _json_row(line: bytes) -> SourceRow:
    if len(line) > MAX_FILE:
        raise _bad_line(f"it is longer than {MAX_FILE >> 20} MiB")
    try:
        row = _DECODER.decode(line.decode("utf-8"))
        is_too_deep = _is_deep(row)
    except UnicodeDecodeError as error:
        raise _bad_line(f"byte {error.start} is not UTF-8") from error
    except UnicodeEncodeError as error:
        raise _bad_line("it holds half of a surrogate pair, which is not text") from error
    except (ValueError, RecursionError) as error:
        raise _bad_line(f"this is not a JSON object ({describe_error(error)})") from error
    if not isinstance(row, dict):
        raise _bad_line("this is JSON, but not an object")
    if is_too_deep:
        raise _bad_line(f"it is nested more than {MAX_DEPTH} deep")
    return row


def _is_deep(row: Any) -> bool:
    """Whether a row has more than `MAX_DEPTH` levels.

    Raises:
        UnicodeEncodeError: A text of it holds half of a surrogate pair.
    """
    level = [row] if isinstance(row, (dict, list)) else []
    for _ in range(MAX_DEPTH):
        below = []
        for node in level:
            for value in chain(node, node.values()) if isinstance(node, dict) else node:
                kind = type(value)
                if kind is str:
                    if not value.isascii():
                        value.encode("utf-8")
                elif kind is dict or kind is list:
                    below.append(value)
        if not below:
            return False
        level = below
    return True


def _without_double_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {quoted(twice)} is given twice")
    return row


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text:.40} is too large for a number")
    return value


# Shared by all lines: json.loads makes a new decoder for each.
_DECODER = json.JSONDecoder(
    object_pairs_hook=_without_double_keys, parse_constant=_refuse_constant, parse_float=_finite
)


def _bad_line(what: str) -> SourceError:
    return SourceError(what, hint="Each line must be one row, written as a JSON object")

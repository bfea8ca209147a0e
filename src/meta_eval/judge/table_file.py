"""Reads and writes tables as parquet files: a header in the file's metadata, and columns of fixed types."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np

from meta_eval.base.errors import UserError, locating
from meta_eval.base.inputs import describe_error, open_parquet, parse_json
from meta_eval.base.outputs import replace_file

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = 1

# Rows per batch when reading or writing: some MiB of arrays.
BATCH = 256

# The metadata key of the header.
_KEY = b"meta_eval"

# The columns of a table by name, in order, and their types in arrow's words; a list of lists has two stars.
Schema = Mapping[str, str]

# Columns that may be empty.
_MAY_BE_NULL = ("subtask", "top_k_ids", "top_k_logprobs")


# Name parts of the tables next to a table of answers.
CHOICES, PROBES = "choices", "probes"


def path_beside(table: Path, what: str) -> Path:
    """The path of a table next to a table of answers."""
    return table.with_name(f"{table.name.removesuffix('.parquet')}.{what}.parquet")


def list_tables(folder: Path) -> list[Path]:
    """The tables of answers in a folder, sorted."""
    ends = tuple(f".{what}.parquet" for what in (CHOICES, PROBES))
    return sorted(path for path in folder.glob("*.parquet") if not path.name.endswith(ends))


class TokensError(UserError):
    """A file is not a table of tokens, or is damaged."""


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a table: its model, docs and settings.

    Attributes:
        model: The model that was asked.
        engine: The engine with its version.
        settings_sha256: The hash of settings that affect answers, as in the journal.
        manifest_sha256: The hash of the pack's manifest.
        tokenizer_sha256: The hash of the tokenizer's file; ``""`` if unknown.
        answers: The kind of forced answers: ``recorded``.
        docs: The number of docs to ask, by task.
        left_out: The number of docs missing from the table, by task and reason.
        seed: The seed for drawing docs; None if all were asked.
        measured: Settings of the engine that change rounding, by name. They affect no verdict of a score.
        rows: Number of rows, set on writing.
        tokens: Number of tokens of all answers, set on writing.
        schema_version: The version of the table's format.
    """

    model: str
    engine: str
    settings_sha256: str
    manifest_sha256: str
    tokenizer_sha256: str
    answers: str = "recorded"
    docs: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    seed: int | None = None
    measured: Mapping[str, str] = field(default_factory=dict)
    rows: int = 0
    tokens: int = 0
    schema_version: int = SCHEMA_VERSION


def make_damage_error(what: str) -> TokensError:
    """Make the error for a truncated or changed file."""
    return TokensError(what, hint="Make the table again: it is damaged")


def write_table(path: Path, header: Header, schema: Schema, rows: Iterable[dict[str, Any]], count: str) -> Header:
    """Write a table, whole or not at all. Return its header with ``rows``, and with ``tokens`` as the total length of a
    column.

    Raises:
        OutputError: It cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrow, number, tokens = _arrow(schema), 0, 0
    with replace_file(path) as text:
        out = cast("BinaryIO", cast("Any", text).buffer)
        with pq.ParquetWriter(out, arrow, compression="zstd") as writer:
            left = iter(rows)
            while some := list(islice(left, BATCH)):
                number += len(some)
                tokens += sum(len(row[count]) for row in some)
                writer.write_batch(pa.RecordBatch.from_pylist(some, schema=arrow))
            done = Header(**{**asdict(header), "rows": number, "tokens": tokens})
            writer.add_key_value_metadata({_KEY: json.dumps(asdict(done)).encode()})
    return done


def read_header(path: Path, schema: Schema) -> Header:
    """Read the header of a table, and check version and columns.

    Raises:
        TokensError: It is not such a table.
    """
    import pyarrow as pa

    hint = "Name a table of the log-probabilities of tokens"
    try:
        with open_parquet(path) as parquet:
            words = (parquet.metadata.metadata or {}).get(_KEY)
            arrow, rows = parquet.schema_arrow, parquet.metadata.num_rows
    except OSError as error:
        raise TokensError(f"cannot be read ({describe_error(error)})", where=str(path), hint=hint) from None
    except (pa.ArrowException, ValueError) as error:
        raise TokensError(
            f"is not a parquet file, or is damaged ({describe_error(error)})", where=str(path), hint=hint
        ) from None
    try:
        values = parse_json(words or b"")
        version = values["schema_version"]
        if version == SCHEMA_VERSION:
            names = {attribute.name for attribute in fields(Header)}
            header = Header(**{name: value for name, value in values.items() if name in names})
    except (ValueError, TypeError, KeyError):
        raise TokensError("is not a table of tokens", where=str(path), hint=hint) from None
    if version != SCHEMA_VERSION:
        raise TokensError(
            f"has version {version!r:.40}, and this meta-eval reads {SCHEMA_VERSION}",
            where=str(path), hint="Read it with the meta-eval that wrote it, or make it again",
        )  # fmt: skip
    if not _is_header(header):
        raise TokensError("its header is incomplete", where=str(path), hint=hint)
    expected = _arrow(schema)
    doubled = [name for name in expected.names if arrow.names.count(name) > 1]
    if doubled:
        raise TokensError(f"has the column {doubled[0]} twice", where=str(path), hint=hint)
    wrong = [
        column.name
        for column in expected
        if column.name not in arrow.names or arrow.field(column.name).type != column.type
    ]
    if wrong or header.rows != rows:
        what = f"has no column {wrong[0]} of its type" if wrong else f"has {rows:,} rows and not {header.rows:,}"
        raise TokensError(what, where=str(path), hint=hint)
    return header


def _is_header(header: Header) -> bool:
    texts = (header.model, header.engine, header.settings_sha256, header.manifest_sha256, header.tokenizer_sha256)
    counts = (header.rows, header.tokens, *(header.docs.values() if isinstance(header.docs, dict) else [None]))
    left = header.left_out.values() if isinstance(header.left_out, dict) else [None]
    return (
        all(isinstance(value, str) for value in (*texts, header.answers))
        and all(isinstance(value, int) and value >= 0 for value in counts)
        and all(isinstance(value, dict) and all(isinstance(count, int) for count in value.values()) for value in left)
        and isinstance(header.measured, dict)
        and all(isinstance(value, str) for value in header.measured.values())
        and (header.seed is None or isinstance(header.seed, int))
    )


def read_batches(path: Path, schema: Schema, size: int) -> Iterator[list[dict[str, Any]]]:
    """Read the rows of a table in batches, with lists as arrays.

    Raises:
        TokensError: The file is damaged.
    """
    import pyarrow as pa

    with locating(path):
        try:
            with open_parquet(path) as parquet:
                for batch in parquet.iter_batches(size, columns=list(schema)):
                    columns = {name: batch.column(name) for name in schema}
                    empty = [name for name, column in columns.items() if column.null_count and name not in _MAY_BE_NULL]
                    if empty:
                        raise make_damage_error(f"{empty[0]} is empty")
                    yield [
                        {name: _value(column[number], schema[name]) for name, column in columns.items()}
                        for number in range(batch.num_rows)
                    ]
        except (OSError, pa.ArrowException, ValueError) as error:
            raise make_damage_error(f"cannot be read ({describe_error(error)})") from None


def _value(scalar: Any, word: str) -> Any:
    """Convert lists to arrays, without Python numbers in between. Nested lists must have equal lengths."""
    if "*" not in word or not scalar.is_valid:
        return scalar.as_py()
    values, shape = scalar.values, [len(scalar.values)]
    if word.endswith("**"):
        lengths = np.unique(values.value_lengths().to_numpy(zero_copy_only=False))
        if len(lengths) > 1:
            raise ValueError("lists within a list are not of one length")
        values, shape = values.flatten(), [len(values), -1]
    return values.to_numpy(zero_copy_only=True).reshape(shape)  # (nulls within raise ArrowInvalid)


def _arrow(schema: Schema) -> pa.Schema:
    import pyarrow as pa

    def of(name: str, word: str) -> pa.Field:
        kind = getattr(pa, {"bool": "bool_"}.get(bare := word.rstrip("*"), bare))()
        for _ in range(word.count("*")):
            kind = pa.list_(kind)
        return pa.field(name, kind, nullable=name in _MAY_BE_NULL)

    return pa.schema([of(name, word) for name, word in schema.items()])

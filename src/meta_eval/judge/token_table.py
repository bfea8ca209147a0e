"""The table of a model that scored texts: the log-probability of every token of every recorded answer.

It is a parquet file with a row per answer; choices are in a second file next to it. It has token ids but no text of
prompts or answers, because those are gated. Text comes from the pack.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from meta_eval.base.errors import UserError, locating
from meta_eval.base.inputs import describe_error, open_parquet, parse_json
from meta_eval.base.outputs import replace_file
from meta_eval.base.thresholds import LOGPROB_ROUNDING

if TYPE_CHECKING:
    import pyarrow as pa


TABLE_SCHEMA = 1

# Rows per batch when reading or writing: some MiB of arrays.
ROWS_AT_ONCE = 256

# The metadata key of the header.
_KEY = b"meta_eval"

# The columns of a table by name, in order, and their types in arrow's words; a list of lists has two stars.
TableSchema = Mapping[str, str]

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
    """The header of a table: its model, docs and settings."""

    model: str
    """The model that was asked."""

    engine: str
    """The engine with its version."""

    settings_sha256: str
    """The hash of settings that affect answers, as in the journal."""

    manifest_sha256: str
    """The hash of the pack's manifest."""

    tokenizer_sha256: str
    """The hash of the tokenizer's file; ``""`` if unknown."""

    answers: str = "recorded"
    """The kind of forced answers: ``recorded``."""

    docs: Mapping[str, int] = field(default_factory=dict)
    """The number of docs to ask, by task."""

    left_out: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """The number of docs missing from the table, by task and reason."""

    seed: int | None = None
    """The seed for drawing docs; None if all were asked."""

    measured: Mapping[str, str] = field(default_factory=dict)
    """Settings of the engine that change rounding, by name. They affect no verdict of a score."""

    rows: int = 0
    """Number of rows, set on writing."""

    tokens: int = 0
    """Number of tokens of all answers, set on writing."""

    schema_version: int = TABLE_SCHEMA
    """The version of the table's format."""


def make_damage_error(what: str) -> TokensError:
    """Make the error for a truncated or changed file."""
    return TokensError(what, hint="Make the table again: it is damaged")


def write_table(path: Path, header: Header, schema: TableSchema, rows: Iterable[dict[str, Any]], count: str) -> Header:
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
            while some := list(islice(left, ROWS_AT_ONCE)):
                number += len(some)
                tokens += sum(len(row[count]) for row in some)
                writer.write_batch(pa.RecordBatch.from_pylist(some, schema=arrow))
            done = Header(**{**asdict(header), "rows": number, "tokens": tokens})
            writer.add_key_value_metadata({_KEY: json.dumps(asdict(done)).encode()})
    return done


def read_header(path: Path, schema: TableSchema) -> Header:
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
        if version == TABLE_SCHEMA:
            names = {attribute.name for attribute in fields(Header)}
            header = Header(**{name: value for name, value in values.items() if name in names})
    except (ValueError, TypeError, KeyError):
        raise TokensError("is not a table of tokens", where=str(path), hint=hint) from None
    if version != TABLE_SCHEMA:
        raise TokensError(
            f"has version {version!r:.40}, and this meta-eval reads {TABLE_SCHEMA}",
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
        and all(map(_is_count, counts))
        and all(isinstance(value, dict) and all(map(_is_count, value.values())) for value in left)
        and isinstance(header.measured, dict)
        and all(isinstance(value, str) for value in header.measured.values())
        and (header.seed is None or isinstance(header.seed, int))
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def read_batches(path: Path, schema: TableSchema, size: int) -> Iterator[list[dict[str, Any]]]:
    """Read the rows of a table in batches, with lists as arrays.

    Raises:
        TokensError: The file is damaged, or has a doc twice.
    """
    import pyarrow as pa

    keys = [name for name in ("task", "doc", "probe") if name in schema]
    seen: set[tuple[Any, ...]] = set()
    with locating(path):
        try:
            with open_parquet(path) as parquet:
                for batch in parquet.iter_batches(size, columns=list(schema)):
                    columns = {name: batch.column(name) for name in schema}
                    empty = [name for name, column in columns.items() if column.null_count and name not in _MAY_BE_NULL]
                    if empty:
                        raise make_damage_error(f"{empty[0]} is empty")
                    values = [
                        [_make_array(scalar, schema[name]) for scalar in column]
                        if "*" in schema[name]
                        else column.to_pylist()
                        for name, column in columns.items()
                    ]
                    rows = [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]
                    for row in rows:
                        _refuse_second(tuple(row[name] for name in keys), seen)
                    yield rows
        except (OSError, pa.ArrowException, ValueError) as error:
            raise make_damage_error(f"cannot be read ({describe_error(error)})") from None


def _refuse_second(key: tuple[Any, ...], seen: set[tuple[Any, ...]]) -> None:
    if key in seen:
        raise make_damage_error(f"has {'/'.join(map(str, key))} twice")
    seen.add(key)


def _make_array(scalar: Any, word: str) -> Any:
    """Convert a list to an array, without Python numbers in between. Nested lists must have equal lengths."""
    if not scalar.is_valid:
        return None
    values, shape = scalar.values, [len(scalar.values)]
    if word.endswith("**"):
        lengths = np.unique(values.value_lengths().to_numpy(zero_copy_only=False))
        if len(lengths) > 1:
            raise ValueError("lists within a list are not of one length")
        values, shape = values.flatten(), [len(values), -1]
    return values.to_numpy(zero_copy_only=True).reshape(shape)  # (nulls within raise ArrowInvalid)


def _arrow(schema: TableSchema) -> pa.Schema:
    import pyarrow as pa

    def of(name: str, word: str) -> pa.Field:
        kind = getattr(pa, {"bool": "bool_"}.get(bare := word.rstrip("*"), bare))()
        for _ in range(word.count("*")):
            kind = pa.list_(kind)
        return pa.field(name, kind, nullable=name in _MAY_BE_NULL)

    return pa.schema([of(name, word) for name, word in schema.items()])


# The folder of the tables among results.
TABLES = "fidelity"

Ints = NDArray[np.int32]
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Forced:
    """The log-probabilities of a recorded answer with n tokens: natural logarithms of probabilities over the
    vocabulary.
    """

    task: str
    """The task of the pack."""

    subtask: str | None
    """The doc's subtask; None if its task has none. doc: lm-eval's number of the doc."""

    doc: int
    request_sha256: str
    """The hash of the request, as in a file of answers."""

    prompt_tokens: int
    """Tokens of the prompt, with BOS."""

    token_ids: Ints
    """N ids: the tokenizer's encoding of the recorded answer by itself."""

    logprobs: Floats
    """N: the log-probability of each token after the prompt and the tokens before it."""

    ranks: Ints
    """N: 1 is the likeliest token; 0 if the engine reports only that another token is likelier."""

    top_ids: Ints
    """N: the likeliest token at its place; -1 if the engine does not report it."""

    top_logprobs: Floats
    """N: its log-probability, at least that of the token itself."""

    top_k_ids: Ints | None = None
    """N x k, the likeliest first; None without ``--top-k``."""

    top_k_logprobs: Floats | None = None
    """N x k, their log-probabilities; None likewise."""

    truncated: bool = False
    """Whether the prompt was cut to fit. Figures leave such docs out."""

    @property
    def margins(self) -> Floats:
        """n, nats, at least 0: the likeliest token's logit minus that of the recorded token. The normaliser cancels. It
        is Token-DiFR's statistic (arXiv 2511.20621) at temperature zero."""
        gaps: Floats = np.maximum(self.top_logprobs - self.logprobs, np.float32(0))
        return gaps


@dataclass(frozen=True, slots=True, eq=False)
class Choices:
    """The n continuations of a doc, with log-likelihoods from the copy and from Meta's engine."""

    task: str
    """The task of the pack."""

    doc: int
    """Lm-eval's number of the doc."""

    request_sha256: str
    """The hash of the request."""

    logprobs: Floats
    """N, nats: ours, summed over the tokens of each continuation."""

    recorded: Floats
    """N, nats: Meta's, the negated recorded negative log-likelihood."""

    best: int
    """The index of the likeliest recorded continuation."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """An existing table. Iterating gives its answers in order; each iteration reads the file again, in batches."""

    path: Path
    """The file."""

    header: Header
    """Its header."""

    def __len__(self) -> int:
        return self.header.rows

    def __iter__(self) -> Iterator[Forced]:
        return chain.from_iterable(self.read_batches())

    def read_batches(self, size: int = ROWS_AT_ONCE) -> Iterator[list[Forced]]:
        """Read the answers in batches.

        Raises:
            TokensError: The file is damaged.
        """
        for rows in read_batches(self.path, _SCHEMA, size):
            with locating(self.path):
                yield list(map(_forced, rows))


def find_choices_path(path: Path) -> Path:
    """The path of a table's choices, next to the table."""
    return path_beside(path, CHOICES)


def find_texts_path(path: Path) -> Path:
    """The path of the table of texts that belongs to a table. It need not exist."""
    return path.with_name(path.name.replace(f".{CHOICES}.parquet", ".parquet"))


def read_whole_tables(folder: Path) -> list[Path]:
    """The tables of a folder as sorted paths of texts. A path need not exist if its table of choices does."""
    return sorted({*list_tables(folder), *map(find_texts_path, folder.glob(f"*.{CHOICES}.parquet"))})


def find_table(place: Path) -> Path:
    """The table that a file or a folder is or holds: there, or in its folder `TABLES`.

    Raises:
        UserError: There is no table, or there are several.
    """
    if not place.is_dir():
        return find_texts_path(place)
    tables = [table for folder in (place, place / TABLES) for table in read_whole_tables(folder)]
    if len(tables) != 1:
        listed = ", ".join(table.name for table in tables)
        raise UserError(
            f"holds {len(tables)} tables ({listed})" if tables else "holds no table of tokens",
            where=str(place), hint="Name the file" if tables else "Name a table of the log-probabilities of tokens",
        )  # fmt: skip
    return tables[0]


def read_any_header(table: Path) -> Header:
    """The header of a table of texts, or if there is none of its choices.

    Raises:
        TokensError: Neither can be read.
    """
    choices = find_choices_path(table)
    return read_header(choices, _CHOICES) if not table.exists() and choices.exists() else read_header(table, _SCHEMA)


def write_tokens(path: Path, header: Header, answers: Iterable[Forced]) -> Header:
    """Write a table, whole or not at all. Return its header with counts.

    Args:
        path: The file; an existing file is replaced.
        header: Its header; ``rows`` and ``tokens`` are counted.
        answers: In the order of the pack, so the same answers give the same file.

    Raises:
        OutputError: It cannot be written.
    """
    return write_table(path, header, _SCHEMA, map(_row, answers), "token_ids")


def read_tokens(path: Path) -> Tokens:
    """Open a table.

    Raises:
        TokensError: It is not a table, or has an unknown version.
    """
    return Tokens(path, read_header(path, _SCHEMA))


def write_choices(path: Path, header: Header, answers: Iterable[Choices]) -> Header:
    """Write a table of choices, as `write_tokens`; ``tokens`` of the header counts continuations."""
    return write_table(path, header, _CHOICES, ({**_plain(choices)} for choices in answers), "logprobs")


def read_choices(path: Path) -> tuple[Header, list[Choices]]:
    """Read a table of choices: its header and all its docs.

    Raises:
        TokensError: It is not such a table, or is damaged.
    """
    header = read_header(path, _CHOICES)
    docs = []
    for row in chain.from_iterable(read_batches(path, _CHOICES, ROWS_AT_ONCE)):
        logprobs, recorded = np.asarray(row["logprobs"], np.float32), np.asarray(row["recorded"], np.float32)
        if not len(logprobs) == len(recorded) > row["best"] >= 0 or not np.isfinite([*logprobs, *recorded]).all():
            with locating(f"{path}, {row['task']}/{row['doc']}"):
                raise make_damage_error("its choices do not fit each other, or are no numbers")
        docs.append(Choices(row["task"], row["doc"], row["request_sha256"], logprobs, recorded, row["best"]))
    return header, docs


_SCHEMA: TableSchema = {
    "task": "string", "subtask": "string", "doc": "int64", "request_sha256": "string", "prompt_tokens": "int32",
    "truncated": "bool", "token_ids": "int32*", "logprobs": "float32*", "ranks": "int32*", "top_ids": "int32*",
    "top_logprobs": "float32*", "top_k_ids": "int32**", "top_k_logprobs": "float32**",
}  # fmt: skip
_CHOICES: TableSchema = {
    "task": "string", "doc": "int64", "request_sha256": "string", "logprobs": "float32*", "recorded": "float32*",
    "best": "int32",
}  # fmt: skip


def _plain(record: Any) -> dict[str, Any]:
    return {column.name: getattr(record, column.name) for column in fields(record)}


def _row(answer: Forced) -> dict[str, Any]:
    _check(answer)
    row = _plain(answer)
    for name in ("top_k_ids", "top_k_logprobs"):
        row[name] = None if row[name] is None else list(row[name])
    return row


def _forced(row: Mapping[str, Any]) -> Forced:
    answer = Forced(**row)
    _check(answer)
    return answer


def _check(answer: Forced) -> None:
    """Check the properties that figures rely on.

    Raises:
        TokensError: A property does not hold.
    """
    with locating(f"{answer.task}/{answer.doc}", behind=", "):
        _check_columns(answer)


def _check_columns(answer: Forced) -> None:
    if (
        len(
            {
                len(answer.token_ids),
                len(answer.logprobs),
                len(answer.ranks),
                len(answer.top_ids),
                len(answer.top_logprobs),
            }
        )
        > 1
    ):
        raise make_damage_error("its columns have not one entry a token")
    if not len(answer.token_ids):
        raise make_damage_error("it holds no token")
    top_ids, top_logprobs = answer.top_k_ids, answer.top_k_logprobs
    if (top_ids is None) != (top_logprobs is None) or (
        top_ids is not None
        and top_logprobs is not None
        and not len(answer.token_ids) == len(top_ids) == len(top_logprobs)
    ):
        raise make_damage_error("its likeliest tokens do not fit its tokens")
    if (
        top_ids is not None
        and top_logprobs is not None
        and (top_ids.ndim != 2 or not top_ids.shape[1] or top_ids.shape != top_logprobs.shape)
    ):
        raise make_damage_error("its likeliest tokens are not as many for each token")
    check_logprobs(answer.logprobs, answer.top_logprobs)
    if top_logprobs is not None:
        check_logprobs(top_logprobs, np.zeros(1, np.float32))
    if (answer.ranks < 0).any() or (answer.token_ids < 0).any():
        raise make_damage_error("a rank or a token is negative")
    if answer.prompt_tokens < 0 or answer.doc < 0:
        raise make_damage_error("the number of its doc or of its prompt's tokens is negative")


def check_logprobs(logprobs: NDArray[np.float32], top_logprobs: NDArray[np.float32]) -> None:
    """Check log-probabilities of tokens, in nats, and those of the likeliest tokens at their places.

    Raises:
        TokensError: One is no number, above 0, or above that of the likeliest token.
    """
    if not all(np.isfinite(some).all() for some in (logprobs, top_logprobs)):
        raise make_damage_error("a log-probability is no number")
    if (top_logprobs > LOGPROB_ROUNDING).any() or (logprobs > top_logprobs + LOGPROB_ROUNDING).any():
        raise make_damage_error("a log-probability is above 0, or above that of the likeliest token")

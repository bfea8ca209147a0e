"""The table of a fidelity run: of every token of every recorded answer how likely the copy finds it.

A parquet file, one row an answer, and one beside it for choices. Of what is asked it holds ids alone: no prompt, no
answer, since those are gated. Who shows text takes it from the pack.
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

from meta_eval.boundary.inputs import open_regular, reason
from meta_eval.boundary.outputs import replacing
from meta_eval.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = 1

# Answers that are held at a time, reading or writing: some MiB of arrays.
_BATCH = 256

# The key of the file's metadata that holds the header.
_KEY = b"meta_eval"

# Nats by which a log-probability may lie above 0, or above that of the likeliest token, by rounding: engines compute
# both in float32, and bfloat16 logits differ by less once normalised.
_ROUNDING = 1e-2

Ints = NDArray[np.int32]
Floats = NDArray[np.float32]


class TokensError(UserError):
    """A file is no table of a fidelity run, or is damaged."""


@dataclass(frozen=True, slots=True, eq=False)
class Forced:
    """One recorded answer, as the copy finds it. n tokens; natural logarithms of probabilities over the vocabulary.

    Attributes:
        task: The task of the pack.
        subtask: Of the doc; None where its task has none.
        doc: lm-eval's number of the doc.
        request_sha256: Of all that was asked, as in a file of answers.
        prompt_tokens: Tokens of the prompt, BOS included.
        token_ids: n ids: the tokenizer's encoding of the recorded answer by itself.
        logprobs: n: of each token behind the prompt and the tokens before it.
        ranks: n: 1 is the likeliest token; 0 where the engine only says that another one is likelier.
        top_ids: n: the likeliest token in its place; -1 where the engine does not say.
        top_logprobs: n: and its log-probability, never less than that of the token itself.
        top_k_ids: n x k, the likeliest first; None without ``--top-k``.
        top_k_logprobs: Likewise.
        truncated: Whether the prompt was cut to fit. Such docs are not asked; other tools may.
    """

    task: str
    subtask: str | None
    doc: int
    request_sha256: str
    prompt_tokens: int
    token_ids: Ints
    logprobs: Floats
    ranks: Ints
    top_ids: Ints
    top_logprobs: Floats
    top_k_ids: Ints | None = None
    top_k_logprobs: Floats | None = None
    truncated: bool = False

    @property
    def margins(self) -> Floats:
        """n, nats, at least 0: the likeliest token's logit less the recorded one's (the normaliser is the same), the
        statistic of Token-DiFR (arXiv 2511.20621) at temperature zero."""
        found: Floats = np.maximum(self.top_logprobs - self.logprobs, np.float32(0))
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Choices:
    """The continuations of one doc, as the copy and as Meta's engine found them. n continuations.

    Attributes:
        task: The task of the pack.
        doc: lm-eval's number of the doc.
        request_sha256: Of all that was asked.
        logprobs: n, nats: ours, summed over the tokens of each continuation.
        recorded: n, nats: Meta's, the recorded negative log-likelihood with its sign turned.
        best: The place of the likeliest recorded one.
    """

    task: str
    doc: int
    request_sha256: str
    logprobs: Floats
    recorded: Floats
    best: int


@dataclass(frozen=True, slots=True)
class Header:
    """What a table is of.

    Attributes:
        model: The copy that was asked.
        engine: What answered, such as ``vllm 0.32.0``.
        settings_sha256: Of the settings that an answer depends on, as in the journal.
        manifest_sha256: Of the pack's manifest.
        tokenizer_sha256: Of the tokenizer's file; ``""`` where it is not known.
        answers: Whose answers were forced: ``recorded``.
        docs: By task the docs that were to be asked.
        left_out: By task those of them that are not in the table, and why: by a reason how many.
        seed: By which docs were drawn; None where all were asked.
        rows: Of the table, set as it is written.
        tokens: Of all answers, set as it is written.
        schema_version: Of the table.
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
    rows: int = 0
    tokens: int = 0
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class Tokens:
    """A table that is there. Gone through it gives its answers in order; it is read anew each time, never whole.

    Attributes:
        path: The file.
        header: What it is of.
    """

    path: Path
    header: Header

    def __len__(self) -> int:
        return self.header.rows

    def __iter__(self) -> Iterator[Forced]:
        return chain.from_iterable(self.batches())

    def batches(self, size: int = _BATCH) -> Iterator[list[Forced]]:
        """The answers, some at a time.

        Raises:
            TokensError: The file is damaged.
        """
        for rows in _batches(self.path, _SCHEMA, size):
            yield [_forced(row, f"{self.path}, {row['task']}/{row['doc']}") for row in rows]


def choices_path(path: Path) -> Path:
    """Where the choices of a table lie: beside it."""
    return path.with_name(f"{path.name.removesuffix('.parquet')}.choices.parquet")


def write_tokens(path: Path, header: Header, answers: Iterable[Forced]) -> Header:
    """Write a table, whole or not at all; the header with its counts.

    Args:
        path: Where; a file that is there is replaced.
        header: What it is of; ``rows`` and ``tokens`` are counted.
        answers: In the order of the pack, so that the same answers make the same file.

    Raises:
        OutputError: It cannot be written.
    """
    return _write(path, header, _SCHEMA, map(_row, answers), "token_ids")


def read_tokens(path: Path) -> Tokens:
    """Open a table.

    Raises:
        TokensError: It is none, or of a version that is not known here.
    """
    return Tokens(path, _header(path, _SCHEMA))


def write_choices(path: Path, header: Header, answers: Iterable[Choices]) -> Header:
    """Write a table of choices, as `write_tokens`; ``tokens`` of the header counts continuations."""
    return _write(path, header, _CHOICES, ({**_plain(one)} for one in answers), "logprobs")


def read_choices(path: Path) -> tuple[Header, list[Choices]]:
    """A table of choices: its header and all its docs.

    Raises:
        TokensError: It is none, or damaged.
    """
    header = _header(path, _CHOICES)
    found = []
    for row in chain.from_iterable(_batches(path, _CHOICES, _BATCH)):
        ours, theirs = np.asarray(row["logprobs"], np.float32), np.asarray(row["recorded"], np.float32)
        where = f"{path}, {row['task']}/{row['doc']}"
        if not len(ours) == len(theirs) > row["best"] >= 0 or not np.isfinite([*ours, *theirs]).all():
            raise _damaged("its choices do not fit each other, or are no numbers", where)
        found.append(Choices(row["task"], row["doc"], row["request_sha256"], ours, theirs, row["best"]))
    return header, found


# The columns by name, in order, and their types in arrow's words; a list of lists is written with two stars.
_SCHEMA: Mapping[str, str] = {
    "task": "string", "subtask": "string", "doc": "int64", "request_sha256": "string", "prompt_tokens": "int32",
    "truncated": "bool", "token_ids": "int32*", "logprobs": "float32*", "ranks": "int32*", "top_ids": "int32*",
    "top_logprobs": "float32*", "top_k_ids": "int32**", "top_k_logprobs": "float32**",
}  # fmt: skip
_CHOICES: Mapping[str, str] = {
    "task": "string", "doc": "int64", "request_sha256": "string", "logprobs": "float32*", "recorded": "float32*",
    "best": "int32",
}  # fmt: skip

# Columns that may be empty.
_MAY_BE_NULL = ("subtask", "top_k_ids", "top_k_logprobs")


def _arrow(schema: Mapping[str, str]) -> pa.Schema:
    import pyarrow as pa

    def of(name: str, word: str) -> pa.Field:
        kind = getattr(pa, {"bool": "bool_"}.get(bare := word.rstrip("*"), bare))()
        for _ in range(word.count("*")):
            kind = pa.list_(kind)
        return pa.field(name, kind, nullable=name in _MAY_BE_NULL)

    return pa.schema([of(name, word) for name, word in schema.items()])


def _plain(one: Any) -> dict[str, Any]:
    return {own.name: getattr(one, own.name) for own in fields(one)}


def _row(one: Forced) -> dict[str, Any]:
    _check(one, f"{one.task}/{one.doc}")
    row = _plain(one)
    for name in ("top_k_ids", "top_k_logprobs"):
        row[name] = None if row[name] is None else list(row[name])
    return row


def _forced(row: Mapping[str, Any], where: str) -> Forced:
    one = Forced(**row)
    _check(one, where)
    return one


def _check(one: Forced, where: str) -> None:
    """What figures rely on.

    Raises:
        TokensError: It does not hold.
    """
    if len({len(one.token_ids), len(one.logprobs), len(one.ranks), len(one.top_ids), len(one.top_logprobs)}) > 1:
        raise _damaged("its columns have not one entry a token", where)
    if not len(one.token_ids):
        raise _damaged("it holds no token", where)
    some, theirs = one.top_k_ids, one.top_k_logprobs
    if (some is None) != (theirs is None) or (
        some is not None and theirs is not None and not len(one.token_ids) == len(some) == len(theirs)
    ):
        raise _damaged("its likeliest tokens do not fit its tokens", where)
    if some is not None and theirs is not None and (some.ndim != 2 or some.shape != theirs.shape):
        raise _damaged("its likeliest tokens are not as many for each token", where)
    if not (np.isfinite(one.logprobs).all() and np.isfinite(one.top_logprobs).all()):
        raise _damaged("a log-probability is no number", where)
    if (one.top_logprobs > _ROUNDING).any() or (one.logprobs > one.top_logprobs + _ROUNDING).any():
        raise _damaged("a log-probability is above 0, or above that of the likeliest token", where)
    if (one.ranks < 0).any() or (one.token_ids < 0).any():
        raise _damaged("a rank or a token is negative", where)


def _damaged(what: str, where: str) -> TokensError:
    return TokensError(what, where=where, hint="The table is damaged: make it again with `meta-eval fidelity`")


def _write(path: Path, header: Header, schema: Mapping[str, str], rows: Iterable[dict[str, Any]], count: str) -> Header:
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrow, number, tokens = _arrow(schema), 0, 0
    with replacing(path) as text:
        out = cast("BinaryIO", cast("Any", text).buffer)
        with pq.ParquetWriter(out, arrow, compression="zstd") as writer:
            left = iter(rows)
            while some := list(islice(left, _BATCH)):
                number += len(some)
                tokens += sum(len(row[count]) for row in some)
                writer.write_batch(pa.RecordBatch.from_pylist(some, schema=arrow))
            done = Header(**{**asdict(header), "rows": number, "tokens": tokens})
            writer.add_key_value_metadata({_KEY: json.dumps(asdict(done)).encode()})
    return done


def _header(path: Path, schema: Mapping[str, str]) -> Header:
    import pyarrow as pa
    import pyarrow.parquet as pq

    hint = "Name a table that `meta-eval fidelity` wrote"
    try:
        with open_regular(path) as file, pq.ParquetFile(file) as parquet:
            words = (parquet.metadata.metadata or {}).get(_KEY)
            arrow, rows = parquet.schema_arrow, parquet.metadata.num_rows
    except OSError as error:
        raise TokensError(f"cannot be read ({reason(error)})", where=str(path), hint=hint) from None
    except (pa.ArrowException, ValueError) as error:
        raise TokensError(
            f"is no parquet file, or a damaged one ({reason(error)})", where=str(path), hint=hint
        ) from None
    try:
        given = json.loads(words or b"")
        version = given["schema_version"]
        if version == SCHEMA_VERSION:
            known = {own.name for own in fields(Header)}
            header = Header(**{name: value for name, value in given.items() if name in known})
    except (ValueError, TypeError, KeyError, RecursionError):
        raise TokensError("is no table of a fidelity run", where=str(path), hint=hint) from None
    if version != SCHEMA_VERSION:
        raise TokensError(
            f"is of version {version!r:.40} and not {SCHEMA_VERSION}",
            where=str(path), hint="Read it with the meta-eval that wrote it, or make it again",
        )  # fmt: skip
    if not _is_header(header):
        raise TokensError("its header does not hold what one holds", where=str(path), hint=hint)
    expected = _arrow(schema)
    wrong = [one.name for one in expected if one.name not in arrow.names or arrow.field(one.name).type != one.type]
    if wrong or header.rows != rows:
        what = f"has no column {wrong[0]} of its type" if wrong else f"has {rows:,} rows and not {header.rows:,}"
        raise TokensError(what, where=str(path), hint=hint)
    return header


def _is_header(header: Header) -> bool:
    texts = (header.model, header.engine, header.settings_sha256, header.manifest_sha256, header.tokenizer_sha256)
    counts = (header.rows, header.tokens, *(header.docs.values() if isinstance(header.docs, dict) else [None]))
    left = header.left_out.values() if isinstance(header.left_out, dict) else [None]
    return (
        all(isinstance(one, str) for one in (*texts, header.answers))
        and all(isinstance(one, int) and one >= 0 for one in counts)
        and all(isinstance(one, dict) and all(isinstance(count, int) for count in one.values()) for one in left)
        and (header.seed is None or isinstance(header.seed, int))
    )


def _batches(path: Path, schema: Mapping[str, str], size: int) -> Iterator[list[dict[str, Any]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with open_regular(path) as file, pq.ParquetFile(file) as parquet:
            for batch in parquet.iter_batches(size, columns=list(schema)):
                columns = {name: batch.column(name) for name in schema}
                empty = [name for name, one in columns.items() if one.null_count and name not in _MAY_BE_NULL]
                if empty:
                    raise _damaged(f"{empty[0]} is empty", str(path))
                yield [
                    {name: _value(one[number], schema[name]) for name, one in columns.items()}
                    for number in range(batch.num_rows)
                ]
    except (OSError, pa.ArrowException, ValueError) as error:
        raise _damaged(f"cannot be read ({reason(error)})", str(path)) from None


def _value(scalar: Any, word: str) -> Any:
    """Lists as arrays, without a detour over Python's numbers. Lists of lists must be of one length."""
    if "*" not in word or not scalar.is_valid:
        return scalar.as_py()
    values, shape = scalar.values, [len(scalar.values)]
    if word.endswith("**"):
        lengths = np.unique(values.value_lengths().to_numpy(zero_copy_only=False))
        if len(lengths) > 1:
            raise ValueError("lists within a list are not of one length")
        values, shape = values.flatten(), [len(values), -1]
    return values.to_numpy(zero_copy_only=True).reshape(shape)  # (nulls within raise ArrowInvalid)

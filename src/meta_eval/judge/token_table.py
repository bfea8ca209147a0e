"""The table of a model that scored texts: the log-probability of every token of every recorded answer.

It is a parquet file with a row per answer; choices are in a second file next to it. It has token ids but no text of
prompts or answers, because those are gated. Text comes from the pack.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from meta_eval.base.errors import UserError, locating
from meta_eval.base.thresholds import LOGPROB_ROUNDING
from meta_eval.judge.table_file import (
    BATCH,
    CHOICES,
    Header,
    Schema,
    list_tables,
    make_damage_error,
    path_beside,
    read_batches,
    read_header,
    write_table,
)

# The folder of the tables among results.
TABLES = "fidelity"

Ints = NDArray[np.int32]
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Forced:
    """The log-probabilities of a recorded answer with n tokens: natural logarithms of probabilities over the
    vocabulary.

    Attributes:
        task: The task of the pack.
        subtask: The doc's subtask; None if its task has none. doc: lm-eval's number of the doc.
        request_sha256: The hash of the request, as in a file of answers.
        prompt_tokens: Tokens of the prompt, with BOS.
        token_ids: n ids: the tokenizer's encoding of the recorded answer by itself.
        logprobs: n: the log-probability of each token after the prompt and the tokens before it.
        ranks: n: 1 is the likeliest token; 0 if the engine reports only that another token is likelier.
        top_ids: n: the likeliest token at its place; -1 if the engine does not report it.
        top_logprobs: n: its log-probability, at least that of the token itself.
        top_k_ids: n x k, the likeliest first; None without ``--top-k``.
        top_k_logprobs: n x k, their log-probabilities; None likewise.
        truncated: Whether the prompt was cut to fit. Figures leave such docs out.
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
        """n, nats, at least 0: the likeliest token's logit minus that of the recorded token. The normaliser cancels. It
        is Token-DiFR's statistic (arXiv 2511.20621) at temperature zero."""
        gaps: Floats = np.maximum(self.top_logprobs - self.logprobs, np.float32(0))
        return gaps


@dataclass(frozen=True, slots=True, eq=False)
class Choices:
    """The n continuations of a doc, with log-likelihoods from the copy and from Meta's engine.

    Attributes:
        task: The task of the pack.
        doc: lm-eval's number of the doc.
        request_sha256: The hash of the request.
        logprobs: n, nats: ours, summed over the tokens of each continuation.
        recorded: n, nats: Meta's, the negated recorded negative log-likelihood.
        best: The index of the likeliest recorded continuation.
    """

    task: str
    doc: int
    request_sha256: str
    logprobs: Floats
    recorded: Floats
    best: int


@dataclass(frozen=True, slots=True)
class Tokens:
    """An existing table. Iterating gives its answers in order; each iteration reads the file again, in batches.

    Attributes:
        path: The file.
        header: Its header.
    """

    path: Path
    header: Header

    def __len__(self) -> int:
        return self.header.rows

    def __iter__(self) -> Iterator[Forced]:
        return chain.from_iterable(self.read_batches())

    def read_batches(self, size: int = BATCH) -> Iterator[list[Forced]]:
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
    for row in chain.from_iterable(read_batches(path, _CHOICES, BATCH)):
        logprobs, recorded = np.asarray(row["logprobs"], np.float32), np.asarray(row["recorded"], np.float32)
        if not len(logprobs) == len(recorded) > row["best"] >= 0 or not np.isfinite([*logprobs, *recorded]).all():
            with locating(f"{path}, {row['task']}/{row['doc']}"):
                raise make_damage_error("its choices do not fit each other, or are no numbers")
        docs.append(Choices(row["task"], row["doc"], row["request_sha256"], logprobs, recorded, row["best"]))
    return header, docs


_SCHEMA: Schema = {
    "task": "string", "subtask": "string", "doc": "int64", "request_sha256": "string", "prompt_tokens": "int32",
    "truncated": "bool", "token_ids": "int32*", "logprobs": "float32*", "ranks": "int32*", "top_ids": "int32*",
    "top_logprobs": "float32*", "top_k_ids": "int32**", "top_k_logprobs": "float32**",
}  # fmt: skip
_CHOICES: Schema = {
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
    if top_ids is not None and top_logprobs is not None and (top_ids.ndim != 2 or top_ids.shape != top_logprobs.shape):
        raise make_damage_error("its likeliest tokens are not as many for each token")
    values = [answer.logprobs, answer.top_logprobs, *(() if top_logprobs is None else (top_logprobs,))]
    if not all(np.isfinite(some).all() for some in values):
        raise make_damage_error("a log-probability is no number")
    if (answer.top_logprobs > LOGPROB_ROUNDING).any() or (
        answer.logprobs > answer.top_logprobs + LOGPROB_ROUNDING
    ).any():
        raise make_damage_error("a log-probability is above 0, or above that of the likeliest token")
    if (answer.ranks < 0).any() or (answer.token_ids < 0).any():
        raise make_damage_error("a rank or a token is negative")

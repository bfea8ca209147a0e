"""The two kinds of join: an original row for each row of an evals dataset, or a whole table for a task.

Columns of an original get names that Meta's columns never have. Nothing is overwritten.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from meta_eval.base.display import quoted
from meta_eval.base.errors import JoinError
from meta_eval.base.hashing import hash_text
from meta_eval.base.inputs import describe_error
from meta_eval.base.pack_names import join_names
from meta_eval.harness.families import list_families
from meta_eval.plugins.meta.joins.text_matching import Matching, match_known, match_one_to_one, match_shown
from meta_eval.sockets import DataError, locating

if TYPE_CHECKING:
    from meta_eval.plugins.meta.source.rows import RowPlace, SourceRow

_T = TypeVar("_T")

COPY = "Name the original dataset, or a copy with the same columns, one row per line"


class Original(BaseModel):
    """The source of a join's ground truth.

    ``id`` is a hub id, or a local file or folder. If it is unavailable, ``fallback`` is used and a note says so.
    ``revision`` applies only to ``id``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    id: str = Field(min_length=1)
    revision: str | None = None
    fallback: str | None = None


@dataclass(frozen=True, slots=True)
class OriginalRows:
    """The rows of a split of an original dataset at a version."""

    rows: Sequence[SourceRow]
    """In the order of the dataset."""

    dataset_id: str
    """The hub id, or the file or folder as the user wrote it."""

    revision: str = ""
    """The hub's commit, or ``sha256:…`` for local files."""

    fallback: bool = False
    """Whether this is the fallback of the requested dataset."""


@dataclass(frozen=True, slots=True)
class KnownDifference:
    """A row of an original whose text differs between copies of the dataset."""

    name: str
    """The row's name in messages."""

    texts: frozenset[str]
    """SHA-256 (hex, of UTF-8) of each known text of the row."""

    why: str
    """A clause that tells where the texts come from, and what is nevertheless the same."""


@dataclass(frozen=True, slots=True)
class KnownPair:
    """A row that matched its original by a known difference. Hashes as in `KnownDifference`."""

    difference: KnownDifference
    question_hash: str
    text_sha256: str
    original_sha256: str


@dataclass(frozen=True, slots=True)
class Joined:
    """The joined rows."""

    rows: list[SourceRow]
    """The rows that matched, in the order of the evals dataset."""

    origins: tuple[tuple[int, str], ...] = ()
    """Of each row, its number in the evals dataset and the place of its original; empty where all share one."""

    normalised: tuple[str, ...] = ()
    """Question hashes of rows that matched only after normalisation."""

    shown: tuple[str, ...] = ()
    """Question hashes of rows that matched only by the content of their prompts."""

    known_differences: tuple[KnownPair, ...] = ()
    """Rows that matched only by a known difference between copies of the original."""

    left_out: tuple[tuple[str, str], ...] = ()
    """Question hash and kind of each row without a match (only with ``allow_unmatched``)."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    """Name and content of other files that scoring reads. They are written beside the task's YAML."""


@dataclass(frozen=True)
class Join(ABC):
    """A way to join an original dataset to the rows of a subset."""

    name: str
    """Its name in configuration and templates, and the name of the sample's file."""

    original: Original
    """The default dataset."""

    split: str
    """The split that is read."""

    brings_gold: ClassVar[bool] = True
    """Whether the original brings the gold, so that rows may lack it."""

    @abstractmethod
    def join(
        self, rows: Sequence[SourceRow], place: RowPlace, originals: OriginalRows, *, allow_unmatched: bool
    ) -> Joined:
        """Join the rows of a subset with the original.

        Raises:
            JoinError: Rows and originals do not match as required.
            DataError: An original row that is needed is malformed.
        """


@dataclass(frozen=True)
class RowJoin(Join):
    """Adds an original row to each row by the text of its question. It never guesses."""

    key_columns: tuple[str, ...]
    """Possible columns of the question's text in the original. The first that exists is used."""

    known_differences: tuple[KnownDifference, ...] = ()
    """Accepted differences between copies of the original. They are reported."""

    copies: tuple[str, ...] = ()
    """Copies that are known to fit the rows, suggested if a copy does not fit."""

    def question(self, row: SourceRow) -> str:
        """The text of the question in a row of the evals dataset."""
        return str(row["input_question"])

    @abstractmethod
    def bring(self, original: Mapping[str, Any]) -> dict[str, Any]:
        """The columns that an original row adds to its match.

        Raises:
            DataError: The row is malformed. ``where`` names it.
        """

    def evidence(self, original: Mapping[str, Any]) -> tuple[str, ...]:  # noqa: ARG002 (of most joins there is none)
        """Texts of this original that a prompt shows, for rows whose question matches no original. Empty if only the
        question decides.
        """
        return ()

    def match(
        self, left: Sequence[str], right: Sequence[str], rows: Sequence[SourceRow], originals: Sequence[SourceRow]
    ) -> Matching:
        """Match each row to an original row, first by the texts of their questions, then by the prompt."""
        matching = match_one_to_one(left, right)
        if matching.problems:
            match_shown(matching, list(map(_last_request, rows)), list(map(self.evidence, originals)))
        return matching

    def join(
        self, rows: Sequence[SourceRow], place: RowPlace, originals: OriginalRows, *, allow_unmatched: bool
    ) -> Joined:
        """Join one to one. See `meta_eval.plugins.meta.joins.text_matching` for the rule.

        Raises:
            JoinError: A row has no original or several, and ``allow_unmatched`` is False. Or nothing matched at all.
            DataError: An original row that is needed is malformed.
        """
        source = f"{originals.dataset_id}, split {self.split}"
        bring = partial(_guarded, self.bring)
        left = [_guarded(self.question, row, place.row(number, row)) for number, row in enumerate(rows)]
        right = [_guarded(self._key, row, f"{source}, row {number}") for number, row in enumerate(originals.rows)]
        matching = self.match(left, right, rows, originals.rows)
        if matching.problems:
            match_known(matching, left, right, [difference.texts for difference in self.known_differences])
        if matching.problems and (not allow_unmatched or len(matching.problems) == len(rows)):
            raise _join_error(self.copies, matching, rows, left, right, place, originals.dataset_id, allow_unmatched)
        hashes = [str(row["input_question_hash"]) for row in rows]
        pairs = [(index, pair) for index, pair in enumerate(matching.pairs) if pair is not None]
        return Joined(
            [{**rows[index], **bring(originals.rows[pair], f"{source}, row {pair}")} for index, pair in pairs],
            tuple((index, f"{source}, row {pair}") for index, pair in pairs),
            tuple(hashes[index] for index in matching.normalised),
            tuple(hashes[index] for index in matching.shown),
            tuple(
                KnownPair(self.known_differences[number], hashes[index], hash_text(left[index]), hash_text(right[pair]))
                for index, number in sorted(matching.known_differences.items())
                if (pair := matching.pairs[index]) is not None
            ),
            tuple((hashes[problem.left], problem.kind) for problem in matching.problems),
        )

    def _key(self, original: Mapping[str, Any]) -> str:
        text = next((original[column] for column in self.key_columns if original.get(column) is not None), None)
        if not isinstance(text, str):
            raise _lacking(original, self.key_columns, " or ", "a string")
        return text


@dataclass(frozen=True)
class TableJoin(Join):
    """Adds a whole original as a file of the pack, for tasks whose scoring needs all of it."""

    columns: tuple[str, ...]
    """The columns that the pack's file keeps, each a string."""

    brings: str
    """The column of every doc that names the file. The file is beside the task's YAML."""

    brings_gold: ClassVar[bool] = False

    def join(
        self,
        rows: Sequence[SourceRow],
        place: RowPlace,  # noqa: ARG002
        originals: OriginalRows,
        *,
        allow_unmatched: bool,  # noqa: ARG002
    ) -> Joined:
        """Add the file's name to every row. The file has a JSON object per line, in the original's order.

        Raises:
            DataError: A row of the original lacks a column, so it is another table.
        """
        for number, original in enumerate(originals.rows):
            with locating(f"{originals.dataset_id}, file {self.split}, row {number}"):
                need_texts(original, self.columns)
        columns = ({column: original[column] for column in self.columns} for original in originals.rows)
        content = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in columns).encode()
        file = f"{self.name}.jsonl"
        return Joined([{**row, self.brings: file} for row in rows], files={file: content})


def _guarded(read: Callable[[SourceRow], _T], row: Mapping[str, Any], where: str) -> _T:
    """Read a row. Any error means that the row is malformed.

    Raises:
        DataError: The row is malformed.
    """
    try:
        with locating(where):
            return read(dict(row))
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError, OverflowError) as error:
        raise DataError(
            f"does not have the format that this join reads ({type(error).__name__}: {describe_error(error)})",
            where=where,
            hint=COPY,
        ) from None


def need_texts(original: Mapping[str, Any], columns: Sequence[str]) -> None:
    """Raises:
    DataError: A column of an original row is empty or not a string.
    """
    missing = [column for column in columns if not isinstance(original.get(column), str) or not original[column]]
    if missing:
        raise _lacking(original, missing, ", ", "a non-empty string")


def _lacking(original: Mapping[str, Any], columns: Sequence[str], between: str, kind: str) -> DataError:
    held = [f"{name} is {quoted(original[name])}" for name in columns if name in original]
    found = ", ".join(held) or f"its columns are {join_names(list(original), 12)}"
    return DataError(f"should hold {between.join(columns)} ({kind}); {found}", hint=COPY)


def _last_request(row: SourceRow) -> str:
    """The last user turn of a prompt, because earlier turns are shots with other problems. Without turns, the whole
    prompt.
    """
    prompt = str(row["input_final_prompts"][0])
    for family in list_families():
        _, head, request = prompt.rpartition("user".join(family.header))
        if head:
            return request.partition(family.end_of_turn)[0]
    return prompt


def _join_error(
    copies: Sequence[str],
    matching: Matching,
    rows: Sequence[SourceRow],
    left: Sequence[str],
    right: Sequence[str],
    place: RowPlace,
    original_id: str,
    allow_unmatched: bool,
) -> JoinError:
    problem = matching.problems[0]
    number = problem.left
    near = "; ".join(f"row {index}: {_short(right[index])}" for index in problem.candidates) or "none"
    what = (
        f"{_short(left[number])} has no row with this text in {original_id}; nearest: {near}"
        if problem.kind == "unmatched"
        else f"{_short(left[number])} matches not exactly one row of {original_id}; candidates: {near}"
    )
    count = len(matching.problems)
    hint = (
        "Nothing matched at all: this is not the original of this subset"
        if allow_unmatched
        else "Check the original's id and revision, or set allow_unmatched: true to leave such rows out"
    )
    if copies:
        hint += f". Copies that are known to fit: {'; '.join(copies)}"
    return JoinError(
        f"{what} ({count} of {len(rows)} rows do not match)", where=place.row(number, rows[number]), hint=hint
    )


def _short(text: str, limit: int = 80) -> str:
    return repr(text if len(text) <= limit else text[: limit - 1] + "…")

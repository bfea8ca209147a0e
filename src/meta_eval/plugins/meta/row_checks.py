"""Checks rows of an evals dataset before anything is built on them.

Pure: rows in, rows and findings out. Anything that would make a wrong number raises `DataError`, which names dataset,
subset, row and hash. Anything else is a warning, counted under a short name, logged, and kept in the manifest.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Any

from meta_eval.base.display import quoted
from meta_eval.base.errors import suggest_name
from meta_eval.base.hashing import hash_text
from meta_eval.base.secrets import HIDDEN, is_secret, redact_secrets
from meta_eval.harness.families import list_bos_tokens, remove_bos
from meta_eval.plugins.meta.source.rows import RowPlace, SourceRow
from meta_eval.sockets import DataError


@dataclass(slots=True)
class CheckedRows:
    """Rows that passed."""

    rows: list[SourceRow]
    """In their order; hashes that were missing are made, and a leading BOS is removed from prompts."""

    warnings: dict[str, int] = field(default_factory=dict)
    """How often each was seen, by its short name; absent when never."""

    recorded_settings: dict[str, list[str]] = field(default_factory=dict)
    """The values of each ``eval_config`` key over all rows, sorted and without credentials."""


# Each warning as a sentence. The key is in the manifest, for programs.
_IN_WORDS = {
    "docs_are_not_parallel_over_subtasks": "do not have the same golds in the same order in every subtask, so those "
    "with the same gold count as one question in standard errors",
    "docs_do_not_show_what_they_share": "all share one passage, or none of them with another, by the template's rule, "
    "so that each counts as independent and standard errors may be too small",
    "duplicate_prompts": "repeat the prompts of another row",
    "duplicate_prompts_with_other_golds": "repeat the prompts of another row and have other golds, so that no answer "
    "is right in both",
    "gold_is_no_choice_in_every_row": "have a gold that is none of the choices (not one is, so that it may be a way of "
    "writing that is not known here)",
    "output_missing": "hold no recorded answer, so verify cannot replay them",
    "prompt_hash_differs_in_every_row": "have a prompt hash that is not the SHA-256 of the prompt (not one is, so the "
    "hashes vouch for nothing)",
    "prompt_hash_missing": "come without a prompt hash, so nothing vouches for their prompts",
    "prompt_with_bos": "bring a BOS of their own, which was taken off: the engine adds it",
    "question_hash_differs_in_every_row": "have a question hash that is not the SHA-256 of the question (not one is, "
    "so the hashes vouch for nothing)",
    "question_hash_missing": "come without a question hash, so nothing vouches for their questions",
    "question_is_not_the_originals_text_but_the_prompt_shows_it": "were joined by what their prompt shows, since their "
    "question is no original's text",
    "rows_left_out_by_the_template": "were left out by the template's process_docs",
    "verdict_missing": "have no recorded verdict, so verify has nothing to compare ours with",
}
_COLUMN_MISSING = re.compile(r"column_(.+)_missing")


def describe_warning(key: str, count: int, rows: int) -> str:
    """One sentence without a full stop: ``3 of 541 rows have no recorded verdict, …``."""
    if column := _COLUMN_MISSING.fullmatch(key):
        return f"the evals dataset has no column {column[1]}"
    return f"{count:,} of {rows:,} rows {_IN_WORDS.get(key, key.replace('_', ' '))}"


RowCheck = Callable[[Any], bool]


def is_text(value: object) -> bool:
    return isinstance(value, str)


def is_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(is_text, value))


def is_blank(text: str) -> bool:
    """Whether a text has nothing but white space. `str.strip` would copy it."""
    return not text or text.isspace()


def allow_null(check: RowCheck) -> RowCheck:
    """The same check, but null passes too."""
    return lambda value: value is None or check(value)


def _letters(value: object) -> bool:
    return isinstance(value, Mapping) and all(allow_null(is_text)(item) for item in value.values())


# Column: check, and the check in words. The first group is required; columns of the second may be missing.
_NEEDED: dict[str, tuple[RowCheck, str]] = {
    "input_question": (is_text, "a string"),
    "input_final_prompts": (is_texts, "a list of strings"),
    "input_question_hash": (allow_null(is_text), "a string"),
    "input_final_prompts_hash": (allow_null(is_texts), "a list of strings"),
}
_WELCOME: dict[str, tuple[RowCheck, str]] = {
    "task_type": (allow_null(is_text), "a string"),
    "subtask_name": (allow_null(is_text), "a string"),
    "input_choice_list": (allow_null(_letters), "a struct of strings"),
    "input_correct_responses": (allow_null(is_texts), "a list of strings"),
    "output_prediction_text": (allow_null(is_texts), "a list of strings"),
    "is_correct": (allow_null(lambda value: isinstance(value, bool)), "a boolean"),
    "eval_config": (allow_null(lambda value: isinstance(value, Mapping)), "a struct"),
}


_GOLD, _PROMPTS = "input_correct_responses", "input_final_prompts"
_COLUMN_NAMES = {*_NEEDED, *_WELCOME}
_COLUMNS = tuple((column, *check) for column, check in (_NEEDED | _WELCOME).items())

# A check that takes one of these takes every value of its type, so that it need not see each.
_EXAMPLES: dict[type, object] = {str: "", bool: True, type(None): None}


def check_evals_rows(rows: Sequence[SourceRow], place: RowPlace, *, output_type: str, needs_gold: bool) -> CheckedRows:
    """RowCheck all rows of a subset for a task.

    Args:
        rows: Each a mapping of column to value.
        place: Which rows they are.
        output_type: lm-eval's ``generate_until`` (one prompt a row) or ``multiple_choice`` (one a choice).
        needs_gold: Whether the rows must have the gold; otherwise a join adds it.

    Raises:
        DataError: A column or gold is missing, a value has the wrong type, a prompt is empty, the number of prompts is
            wrong, or some hashes are wrong and others right.
    """
    if not rows:
        raise DataError("holds no rows", where=str(place))
    columns = dict.fromkeys(chain.from_iterable(rows)).keys()
    for column in (*_NEEDED, *([_GOLD] if needs_gold else [])):
        if column not in columns:
            near = suggest_name(column, sorted(columns - _COLUMN_NAMES))
            listed = f"; its columns are {', '.join(sorted(columns))}"
            raise DataError(
                f"has no column {column!r}{near or listed}",
                where=str(place),
                hint="Rename the column of the rows"
                if near
                else "Rows of your own need it; of Meta's evals datasets every details subset has it",
            )
    if any(len(row) < len(columns) for row in rows):  # a line of JSON may lack a column, a table cannot
        rows = [dict.fromkeys(columns) | row for row in rows]
    warnings: Counter[str] = Counter()
    for column in _WELCOME:
        if column not in columns:
            warnings[f"column_{column}_missing"] = len(rows)
    bos_tokens = list_bos_tokens()
    doubtful = [
        (column, fits, type_name)
        for column, fits, type_name in _COLUMNS
        if column in columns and not _is_certain(rows, column, fits)
    ]
    for number, row in enumerate(rows):
        _check_types(row, number, place, doubtful)
        _check_prompts(row, number, place, output_type, bos_tokens)
        if needs_gold:
            _check_gold(row, number, place)
    _check_hashes(rows, place, warnings)
    _count_warnings(rows, warnings)
    return CheckedRows(
        [_without_bos(_with_hashes(row), warnings, bos_tokens) for row in rows],
        dict(sorted(warnings.items())),
        _settings(rows),
    )


def _is_certain(rows: Sequence[SourceRow], column: str, fits: RowCheck) -> bool:
    """Whether the types of a column say that a check takes all of its values."""
    values = [*map(itemgetter(column), rows)]
    kinds = set(map(type, values))
    if list in kinds and fits([""]):
        lists = values if len(kinds) == 1 else [value for value in values if type(value) is list]
        if set(map(type, chain.from_iterable(lists))) <= {str}:
            kinds.discard(list)
    return all(kind in _EXAMPLES and fits(_EXAMPLES[kind]) for kind in kinds)


def _check_types(row: SourceRow, number: int, place: RowPlace, columns: Sequence[tuple[str, RowCheck, str]]) -> None:
    for column, fits, type_name in columns:
        value = row.get(column)
        if not fits(value):
            raise DataError(
                f"column {column} {_say_what_is_odd(value, fits)} and should be {type_name}",
                where=place.row(number, row),
                hint=_fix(column),
            )


def _fix(column: str) -> str:
    return f"Fix {column} of this row, remove the row, or fetch the evals dataset again"


def _say_what_is_odd(value: Any, fits: RowCheck) -> str:
    """Name the item of a list or struct that does not fit, or else the type of the value."""
    parts: Iterable[tuple[object, object, object]] = ()
    if isinstance(value, list) and fits([]):
        parts = ((number, item, [item]) for number, item in enumerate(value))
    elif isinstance(value, Mapping) and fits({}):
        parts = ((key, item, {key: item}) for key, item in value.items())
    for key, item, alone in parts:
        if not fits(alone):
            return f"holds {quoted(item)} as item {quoted(key)}"
    return f"is {type(value).__name__}"


def _check_prompts(row: SourceRow, number: int, place: RowPlace, output_type: str, bos_tokens: Sequence[str]) -> None:
    prompts = row[_PROMPTS]
    if output_type == "multiple_choice":
        if len(prompts) < 2:
            raise DataError(
                f"holds {len(prompts)} prompt, and a choice task needs one prompt per choice",
                where=place.row(number, row),
                hint=_fix(_PROMPTS),
            )
    elif len(prompts) != 1:
        raise DataError(
            f"holds {len(prompts)} prompts, and a generative task needs exactly one",
            where=place.row(number, row),
            hint=_fix(_PROMPTS),
        )
    for prompt in prompts:
        if is_blank(remove_bos(prompt, *bos_tokens)):
            raise DataError("has an empty prompt", where=place.row(number, row), hint=_fix(_PROMPTS))


def _check_gold(row: SourceRow, number: int, place: RowPlace) -> None:
    responses = row.get(_GOLD) or []
    if not any(response.strip() for response in responses):
        raise DataError(
            "has no correct response, so every answer would be wrong", where=place.row(number, row), hint=_fix(_GOLD)
        )


def _check_hashes(rows: Sequence[SourceRow], place: RowPlace, warnings: Counter[str]) -> None:
    """Compare the question and every prompt with its recorded SHA-256.

    If only some differ, the data is corrupt: an error. If all differ, the dataset probably hashes in another way, for
    example with a salt: a warning.
    """
    for what, pairs in (
        ("question", [(number, row["input_question"], row["input_question_hash"]) for number, row in enumerate(rows)]),
        ("prompt", [(number, *pair) for number, row in enumerate(rows) for pair in _prompt_hashes(row, number, place)]),
    ):
        recorded = [(number, text, digest) for number, text, digest in pairs if digest]
        if len(recorded) < len(pairs):
            warnings[f"{what}_hash_missing"] = len(pairs) - len(recorded)
        wrong = [(number, digest) for number, text, digest in recorded if hash_text(text) != digest.lower()]
        if wrong and len(wrong) == len(recorded):
            warnings[f"{what}_hash_differs_in_every_row"] = len(wrong)
        elif wrong:
            number, digest = wrong[0]
            raise DataError(
                f"the {what} does not have its recorded SHA-256 {digest} ({len(wrong)} of {len(recorded)} differ)",
                where=place.row(number, rows[number]),
                hint="The data are damaged: fetch the evals dataset again",
            )


def _prompt_hashes(row: SourceRow, number: int, place: RowPlace) -> list[tuple[str, str | None]]:
    prompts, digests = row["input_final_prompts"], row["input_final_prompts_hash"]
    if not digests:
        return [(prompt, None) for prompt in prompts]
    if len(prompts) != len(digests):
        raise DataError(
            f"has {len(prompts)} prompts and {len(digests)} prompt hashes",
            where=place.row(number, row),
            hint=_fix("input_final_prompts_hash"),
        )
    return list(zip(prompts, digests, strict=True))


def _count_warnings(rows: Sequence[SourceRow], warnings: Counter[str]) -> None:
    first: dict[tuple[str, ...], SourceRow] = {}
    for row in rows:
        earlier = first.setdefault(tuple(row["input_final_prompts"]), row)
        if earlier is not row:
            warnings["duplicate_prompts"] += 1
            if earlier.get(_GOLD) != row.get(_GOLD):
                warnings["duplicate_prompts_with_other_golds"] += 1
        if row.get("is_correct") is None:
            warnings["verdict_missing"] += 1
        if row.get("task_type") != "Choice" and not row.get("output_prediction_text"):
            warnings["output_missing"] += 1


def _with_hashes(row: SourceRow) -> SourceRow:
    """Give a row the hashes that it lacks: docs of two runs are paired by them."""
    if row["input_question_hash"] and row["input_final_prompts_hash"]:
        return row
    return {
        **row,
        "input_question_hash": row["input_question_hash"] or hash_text(row["input_question"]),
        "input_final_prompts_hash": row["input_final_prompts_hash"] or [*map(hash_text, row["input_final_prompts"])],
    }


def _without_bos(row: SourceRow, warnings: Counter[str], bos_tokens: Sequence[str]) -> SourceRow:
    """Remove a leading BOS. Meta's prompts have none, and every engine adds its own."""
    bare = [remove_bos(prompt, *bos_tokens) for prompt in row["input_final_prompts"]]
    if bare == row["input_final_prompts"]:
        return row
    warnings["prompt_with_bos"] += 1
    return {**row, "input_final_prompts": bare}


def _settings(rows: Sequence[SourceRow]) -> dict[str, list[str]]:
    values: dict[str, set[str]] = {}
    for row in rows:
        for key, value in (row.get("eval_config") or {}).items():
            if value is not None:
                values.setdefault(key, set()).add(str(value))
    return {
        redact_secrets(key): sorted({HIDDEN if is_secret(key, text) else redact_secrets(text) for text in values[key]})
        for key in sorted(values)
    }

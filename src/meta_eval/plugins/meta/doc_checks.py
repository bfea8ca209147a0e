"""Checks the docs that a template made of rows, before anything is scored with them.

As with rows, anything that would make a wrong number raises `DataError`. Anything merely odd is a warning in the
manifest.
"""

from __future__ import annotations

import json
import math
import string
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from meta_eval.base.display import quoted
from meta_eval.pack.templates.spec import Template
from meta_eval.plugins.meta.row_checks import RowCheck, allow_null, is_blank, is_text, is_texts
from meta_eval.plugins.meta.source.rows import RowPlace
from meta_eval.sockets import DataError

if TYPE_CHECKING:
    import pyarrow as pa

_Doc = Mapping[str, Any]


def _full(value: Any) -> bool:
    return isinstance(value, str) and not is_blank(value)


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


# Column: check, and the check in words. Columns that a template may add are below; other columns are not checked.
_DOC: dict[str, tuple[RowCheck, str]] = {
    "question": (is_text, "a text"),
    "prompt": (is_text, "a text"),
    "gold": (is_text, "a text"),
    "subtask_name": (allow_null(is_text), "a text"),
    "choices": (allow_null(lambda value: isinstance(value, list)), "a list"),
    "input_question_hash": (allow_null(is_text), "a text"),
    "input_final_prompts_hash": (allow_null(is_texts), "a list of texts"),
    "recorded_output": (allow_null(is_text), "a text"),
    "recorded_is_correct": (allow_null(lambda value: isinstance(value, bool)), "a boolean"),
    "recorded_metrics": (allow_null(is_text), "a text"),
    "answers": (allow_null(is_texts), "a list of texts"),
}
_ADDED: dict[str, tuple[RowCheck, str]] = {
    "continuations": (lambda value: is_texts(value) and len(value) > 1, "a list of two texts or more"),
    "max_gen_toks": (_count, "a whole number from 1"),
}
_COLUMNS = tuple((column, *check) for column, check in (_DOC | _ADDED).items())

# What is read of each doc, besides its type.
_READ = frozenset(
    ("prompt", "gold", "choices", "input_question_hash", "recorded_metrics", "continuations", "gold_index")
)
_PUNCTUATION = str.maketrans("", "", string.punctuation)


_FIX = "Correct process_docs of the template, or the row that it makes the doc of"


def check_docs(table: pa.Table, template: Template, place: RowPlace) -> dict[str, int]:
    """Check all docs of a task.

    Args:
        table: The docs, with the columns that every doc has.
        template: The task.
        place: Which rows they are of.

    Returns:
        How often each warning was seen.

    Raises:
        DataError: There is no doc; a value has the wrong type; a gold is not among the choices; the recorded metric of
            verdicts is not a share.
    """
    if not table.num_rows:
        raise DataError("the template's process_docs returns no docs", where=f"{place}, {template.name}", hint=_FIX)
    doubtful = [check for check in _COLUMNS if not _is_certain(table, check[0], check[1])]
    read = {*_READ, *(column for column, _, _ in doubtful)}
    if not _may_be_blank(table.column("prompt")):
        read.discard("prompt")  # the long one
    columns = [name for name in (*_DOC, *_ADDED, "gold_index") if name in read and name in table.column_names]
    metric = template.spec.recorded_metric or template.primary_metric.partition(",")[0]
    strange = with_choices = 0
    first: tuple[_Doc, int] | None = None
    # In batches: all docs as Python objects would double the memory.
    docs = (
        dict(zip(columns, values, strict=True))
        for batch in table.select(columns).to_batches(1024)
        for values in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    )
    for number, doc in enumerate(docs):
        _check_types(doc, number, place, doubtful)
        _check_recorded(doc, number, metric, place)
        _check_gold_index(doc, number, place)
        with_choices += bool(doc["choices"])
        if not _gold_is_a_choice(doc):
            strange += 1
            first = first or (doc, number)
    if first and strange < with_choices:
        raise DataError(
            f"the gold {quoted(first[0]['gold'])} is not among the choices, so every answer would be wrong "
            f"({strange} of {table.num_rows} docs)",
            where=_where(*first, place),
            hint="Fix input_correct_responses of this row, or fetch the evals dataset again",
        )
    return {"gold_is_no_choice_in_every_row": strange} if strange else {}


def _where(doc: _Doc, number: int, place: RowPlace) -> str:
    return f"{place}, doc {number} (question hash {doc.get('input_question_hash')})"


def _is_certain(table: pa.Table, column: str, fits: RowCheck) -> bool:
    """Whether the type of a column says that a check takes all of its values."""
    import pyarrow as pa

    if column not in table.column_names:
        return True
    values = table.column(column)
    of_type = (pa.types.is_string(values.type) and fits("")) or (pa.types.is_boolean(values.type) and fits(True))
    if pa.types.is_list(values.type) and pa.types.is_string(values.type.value_type):
        of_type = fits([""]) and all(chunk.values.null_count == 0 for chunk in values.chunks)
    return of_type and (values.null_count == 0 or fits(None))


def _may_be_blank(column: pa.ChunkedArray) -> bool:
    """Whether a value may be no text, or one with nothing but white space, as far as the first bytes tell."""
    import numpy as np
    import pyarrow as pa

    if not pa.types.is_string(column.type) or column.null_count:
        return True
    for chunk in column.chunks:
        _, ends, content = chunk.buffers()
        places = np.frombuffer(ends, np.int32)[chunk.offset : chunk.offset + len(chunk) + 1]
        if (places[1:] == places[:-1]).any():  # an empty one
            return True
        first = np.frombuffer(content, np.uint8)[places[:-1]] if len(chunk) else places[:0]
        if ((first <= ord(" ")) | (first > 127)).any():
            return True
    return False


def _check_types(doc: _Doc, number: int, place: RowPlace, columns: Sequence[tuple[str, RowCheck, str]]) -> None:
    for column in ("prompt", "gold"):
        if column in doc and not _full(doc[column]):
            raise DataError(f"has no {column}", where=_where(doc, number, place), hint=_FIX)
    for column, fits, type_name in columns:
        if column in doc and not fits(doc[column]):
            raise DataError(
                f"column {column} is {quoted(doc[column])} and should be {type_name}",
                where=_where(doc, number, place),
                hint=_FIX,
            )


def _check_recorded(doc: _Doc, number: int, metric: str, place: RowPlace) -> None:
    """Check that the metric of recorded verdicts is a share. Other recorded metrics are not used."""
    text = doc["recorded_metrics"]
    try:
        metrics = json.loads(text) if text is not None else None
    except (ValueError, RecursionError):
        raise DataError("column recorded_metrics is not JSON", where=_where(doc, number, place), hint=_FIX) from None
    value = metrics.get(metric) if isinstance(metrics, dict) else None
    share = isinstance(value, (bool, int, float)) and math.isfinite(value) and 0 <= value <= 1
    if value is not None and not share:
        raise DataError(
            f"the recorded metric {metric} is {quoted(value)} and must be a number from 0 to 1",
            where=_where(doc, number, place),
            hint="Fix output_metrics of this row (null where nothing was recorded), or fetch the evals dataset again",
        )


def _check_gold_index(doc: _Doc, number: int, place: RowPlace) -> None:
    if "gold_index" not in doc or "continuations" not in doc:
        return
    index, choices = doc["gold_index"], doc["continuations"]
    if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(choices):
        raise DataError(
            f"column gold_index is {quoted(index)} and should be a choice, 0 to {len(choices) - 1}",
            where=_where(doc, number, place),
            hint=_FIX,
        )


def _gold_is_a_choice(doc: _Doc) -> bool:
    """Whether the gold is a choice's letter or text, apart from case and punctuation; True without choices."""
    choices = doc["choices"]
    if not choices:
        return True
    values: Sequence[Any] = [value for choice in choices if isinstance(choice, dict) for value in choice.values()]
    allowed_texts = {_plain(value) for value in [*values, *(doc.get("continuations") or ())] if isinstance(value, str)}
    return _plain(doc["gold"]) in allowed_texts


def _plain(text: str) -> str:
    return " ".join(text.casefold().translate(_PUNCTUATION).split())

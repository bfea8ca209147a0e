"""Refuses texts and settings that a pack cannot hold, before a task is made of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from meta_eval.base.errors import DataError, locating
from meta_eval.base.escaping import quoted
from meta_eval.pack.records.recorded_docs import RecordedDoc, RecordedDocs

_HINT = "The record is damaged: take the file as its run wrote it"


def check_rows(rows: RecordedDocs, clusters: Sequence[str | None]) -> None:
    """Check the texts and the generation settings of a task's docs.

    Args:
        rows: The docs.
        clusters: The cluster of each doc.

    Raises:
        DataError: UTF-8 cannot encode a text, or no engine accepts a setting.
    """
    if rows.generation is not None:
        _check_generation(rows.generation)
    for number, (row, cluster) in enumerate(zip(rows.rows, clusters, strict=True)):
        if not all(map(_is_text, (cluster or "", *_texts(row)))):
            with locating(f"doc {number}", behind=", "):
                raise DataError("holds half of a surrogate pair, which is not text", hint=_HINT)


def _texts(row: RecordedDoc) -> Iterator[str]:
    yield from (row.prompt, row.gold, row.question_hash, *row.continuations, *row.prompts, *(row.metrics or ()))
    yield from (text for text in (row.finish_reason, row.doc.get("subtask_name")) if isinstance(text, str))
    yield from (text for request in row.responses or () for text in request if isinstance(text, str))


def _check_generation(settings: Mapping[str, Any]) -> None:
    limit = settings.get("max_gen_toks", 1)
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise _refused("max_gen_toks", limit, "no number of tokens")
    stops = settings.get("until")
    for stop in stops if isinstance(stops, list) else [stops]:
        if stop is not None and not _is_text(stop):
            raise _refused("until", stop, "no text")
    for key, value in settings.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise _refused(key, value, "no number")


def _is_text(value: object) -> bool:
    """Whether it is text that UTF-8 can encode."""
    try:
        return isinstance(value, str) and bool(value.encode() or True)
    except UnicodeEncodeError:
        return False


def _refused(key: str, value: object, what: str) -> DataError:
    return DataError(f"was generated with {quoted(key)}: {quoted(value)}, which is {what}", hint=_HINT)

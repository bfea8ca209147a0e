"""The answers of the record that ``baseline:`` names, as stored in a pack, and their verdicts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meta_eval.base.errors import PackError, locating
from meta_eval.base.inputs import describe_error, read_table
from meta_eval.harness.doc_results import DocResult
from meta_eval.harness.recorded_verdicts import read_filter_results
from meta_eval.pack.manifest import BaselineEntry


@dataclass(frozen=True, slots=True)
class BaselineRunAnswer:
    """The baseline's answer to a doc of a pack.

    Attributes:
        doc: The number of the doc.
        question_hash: The hash of its question.
        prompt_matches: Whether it answers exactly the pack's prompt.
        responses: By request, as `pack.records.recorded_docs.RecordedDoc` has them; None if the pack cannot grade
            them.
        metrics: Its recorded metrics, by ``metric,filter``.
    """

    doc: int
    question_hash: str
    prompt_matches: bool
    responses: list[list[Any]] | None
    metrics: dict[str, Any]


def read_baseline_run_answers(pack: Path, entry: BaselineEntry) -> list[BaselineRunAnswer]:
    """Read the answers of one run to a task's docs, by doc.

    Raises:
        PackError: The file is missing or damaged.
    """
    import pyarrow as pa

    path = pack / entry.file
    try:
        rows = read_table(path).to_pylist()
        return [
            BaselineRunAnswer(
                row["doc"], row["question_hash"], row["prompt_matches"], json.loads(row["responses"] or "null"),
                json.loads(row["metrics"]),
            )
            for row in rows
        ]  # fmt: skip
    except (OSError, pa.ArrowException, ValueError, LookupError, TypeError, RecursionError) as error:
        raise PackError(
            f"holds no answers of a baseline ({describe_error(error)})", where=str(path),
            hint="Run `meta-eval prepare` again",
        ) from None  # fmt: skip


def restore_recorded_answers(answers: list[BaselineRunAnswer]) -> tuple[DocResult, ...]:
    """Make docs with the recorded metrics."""
    return tuple(_doc(answer, answer.metrics) for answer in answers if answer.metrics)


def _doc(answer: BaselineRunAnswer, metrics: Mapping[str, Any]) -> DocResult:
    with locating(f"doc {answer.doc} of the baseline"):
        return DocResult(
            doc_id=answer.doc, question_hash=answer.question_hash, prompt_hashes=(),
            prompt_matches=answer.prompt_matches, subtask=None, cluster=None, gold="", n_choices=None,
            recorded_is_correct=None, recorded_metrics=None, answer_tail="", answer_empty=False, limit_hit=None,
            filter_results=read_filter_results(metrics),
        )  # fmt: skip

"""Reads the answers of a finished lm_eval run, with `meta_eval.harness`, to grade them again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from meta_eval.base.errors import PackError, locating
from meta_eval.harness.doc_results import DocResult, ResultsError, to_plain_number
from meta_eval.harness.lm_eval_run import check_one_model, read_newest
from meta_eval.harness.output_index import OutputIndex, index_outputs
from meta_eval.harness.provenance import read_provenance
from meta_eval.harness.replay import RecordedResponses
from meta_eval.harness.sample_files import open_samples


def find_saved_samples(folder: Path, tasks: Sequence[str]) -> OutputIndex:
    """Find the runs of some tasks with samples below a folder, by task.

    Raises:
        PackError: No task has samples.
        ResultsError: The newest runs are of several models, or a results file is damaged.
    """
    files = index_outputs([folder])
    runs_by_task = {
        task: with_samples
        for task, runs in files.tasks.items()
        if task in tasks and (with_samples := [run for run in runs if run.samples])
    }
    if not runs_by_task:
        raise PackError(
            f"holds no samples file (samples_<task>_<time>.jsonl) of {', '.join(tasks)}",
            where=f"--regrade {folder}",
            hint="Name the --output_path of a run with --log_samples",
        )
    newest = {
        task: files.results.get(runs[0].results) if runs[0].results else None for task, runs in runs_by_task.items()
    }
    check_one_model({task: read_provenance(results, "", task) for task, results in newest.items()})
    return OutputIndex(runs_by_task, files.results)


def read_saved(
    files: OutputIndex, task: str, docs: Sequence[Mapping[str, Any]], verdict: str, on_note: Callable[[str], None]
) -> tuple[dict[int, RecordedResponses], dict[int, float | None]]:
    """Read the newest samples of a task against the docs of today's pack.

    Args:
        files: The result of `find_saved_samples`.
        task: The task.
        docs: Its docs in this pack.
        verdict: ``metric,filter`` whose saved value is the verdict.
        on_note: Called with notes about the files.

    Returns:
        The answers by doc, and the run's verdicts by doc: None if the file has none under this metric and filter.

    Raises:
        ResultsError: The files are damaged, or the run was of other docs than these.
    """
    newest = read_newest(files, files.tasks[task], on_note=on_note)
    if newest is None or newest.samples_file is None:
        raise ResultsError("holds no sample", where=task, hint="Use the file of a finished run")
    metric, _, filter_name = verdict.partition(",")
    answers: dict[int, RecordedResponses] = {}
    verdicts: dict[int, float | None] = {}
    with open_samples(newest.samples_file) as read_whole:
        for doc in newest.docs:
            answer = next(iter(doc.filter_results.values()))
            where = f"{newest.samples_file}, byte {answer.offset}"
            if not _is_doc(doc, docs):
                raise ResultsError(
                    f"doc {doc.doc_id} is not doc {doc.doc_id} of this pack (question hash {doc.question_hash})",
                    where=where,
                    hint="Name the pack of that run, or prepare it again from the same evals dataset",
                )
            with locating(where):
                answers[doc.doc_id] = read_responses(read_whole(answer)["resps"])
            judged = doc.filter_results.get(filter_name)
            verdicts[doc.doc_id] = _number(judged.metrics.get(metric)) if judged else None
    return answers, verdicts


def _is_doc(doc: DocResult, docs: Sequence[Mapping[str, Any]]) -> bool:
    if doc.doc_id >= len(docs):
        return False
    today = docs[doc.doc_id]
    hashes = today["input_final_prompts_hash"]  # null if the evals dataset records none
    prompts = doc.prompt_hashes if hashes is None else tuple(map(str, hashes))
    return (doc.question_hash, doc.prompt_hashes) == (today["input_question_hash"], prompts)


def read_responses(saved: Any) -> RecordedResponses:
    """Convert ``resps`` back to the model's values. lm-eval writes every part as text.

    Raises:
        ResultsError: They are neither texts nor likelihoods.
    """
    try:
        return {
            index: [response if isinstance(response, str) else _likelihood(response) for response in request]
            for index, request in enumerate(saved)
            if request
        }
    except (ValueError, TypeError, LookupError, OverflowError):
        raise ResultsError("holds responses that are neither text nor likelihoods") from None


def _likelihood(pair: Sequence[Any]) -> tuple[float, bool]:
    return float(pair[0]), str(pair[1]) == "True"


def _number(value: Any) -> float | None:
    if isinstance(value, tuple) and len(value) == 2:
        value = value[1]
    value = to_plain_number(value)
    return float(value) if isinstance(value, (bool, int, float)) else None

"""Checks that today's lm-eval builds exactly the recorded requests from the recorded docs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meta_eval.base.errors import DataError, UserError
from meta_eval.base.logs import report_progress
from meta_eval.pack.left_out import LeftOut
from meta_eval.pack.records.recorded_docs import RecordedDoc
from meta_eval.pack.records.task_source import CandidateTask

if TYPE_CHECKING:
    from meta_eval.harness.evaluator import Evaluator

# Docs whose requests are held at a time, as in `meta_eval.ask.answers.requests`.
_CHUNK = 512


def check_requests(tasks: Sequence[CandidateTask], scratch: Path, left_out: LeftOut) -> list[CandidateTask]:
    """Have lm-eval build the requests of every doc, and compare each with the recorded request.

    Args:
        tasks: All of the pack. Those without recorded requests are not checked.
        scratch: An empty folder, for what lm-eval reads.
        left_out: Receives tasks with a different prompt or continuation, and tasks that cannot build their requests.

    Returns:
        The tasks with the recorded requests; some have another delimiter, because chat templates omit it.

    Raises:
        DataError: No task has the recorded requests.
    """
    if all(candidate.rows is None for candidate in tasks):
        return list(tasks)
    from meta_eval.harness.evaluator import Evaluator

    for candidate in tasks:
        for name, content in {**candidate.task.template_files, **candidate.task.files}.items():
            path = scratch / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    evaluator = Evaluator(scratch)
    checked = []
    for candidate in tasks:
        if candidate.rows is None:
            checked.append(candidate)
            continue
        report_progress(f"{candidate.task.name}: asking lm-eval for its requests")
        with left_out.task(candidate.task.name):
            _check(candidate, candidate.rows.rows, evaluator)
            checked.append(candidate)
    left_out.check(checked)
    return checked


def _check(candidate: CandidateTask, rows: Sequence[RecordedDoc], evaluator: Evaluator) -> None:
    try:
        task = evaluator.load(candidate.task.name)
    except UserError as error:
        raise DataError(
            f"lm-eval does not take these docs: {error.what}",
            where=candidate.where,
            hint="Install the lm-eval version of the record",
        ) from None
    (split, docs), *_ = task.dataset.items()
    delimiter = str(task.config.target_delimiter)
    fits = _fits(rows[0], _requests(evaluator, task, candidate, split, docs[:1]))
    if not fits and str(task.OUTPUT_TYPE) == "multiple_choice" and delimiter:
        task.config.target_delimiter = ""  # as under a chat template
        if candidate.rebuild and _fits(rows[0], _requests(evaluator, task, candidate, split, docs[:1])):
            candidate.task = candidate.rebuild("")
    for start in range(0, len(docs), _CHUNK):
        chunk = docs[start : start + _CHUNK]
        built: dict[int, list[Any]] = {}
        for instance in _requests(evaluator, task, candidate, split, chunk):
            built.setdefault(instance.doc_id, []).append(instance)
        for number in range(len(chunk)):
            row = rows[start + number]
            if not _fits(row, built.get(number, [])):
                raise _differs(row, start + number, built.get(number, []), candidate)


def _requests(evaluator: Evaluator, task: Any, candidate: CandidateTask, split: str, docs: Any) -> list[Any]:
    task.dataset = {split: list(docs)}
    return evaluator.instances(candidate.task.name, task)


def _built_requests(instances: Sequence[Any]) -> Iterator[tuple[str, ...]]:
    for instance in sorted(instances, key=lambda instance: instance.idx):
        yield tuple(text for text in instance.args if isinstance(text, str))


def _fits(row: RecordedDoc, instances: Sequence[Any]) -> bool:
    return list(_built_requests(instances)) == _recorded_requests(row)


def _recorded_requests(row: RecordedDoc) -> list[tuple[str, ...]]:
    if not row.continuations:
        return [(row.prompt,)]
    unconditional = [("", text) for text in row.continuations] if row.unconditional else []
    return [*zip(row.prompts or [row.prompt] * len(row.continuations), row.continuations, strict=True), *unconditional]


def _differs(row: RecordedDoc, number: int, instances: Sequence[Any], candidate: CandidateTask) -> DataError:
    built = list(_built_requests(instances))
    what = f"{len(built)} requests and {len(_recorded_requests(row))} were recorded"
    recorded = _recorded_requests(row)
    if len(built) == len(recorded):
        built_request, recorded_request = next(
            (request, other) for request, other in zip(built, recorded, strict=True) if request != other
        )
        if len(built_request) < len(recorded_request):  # a doc without text
            what = f"asks without a text, and {recorded_request[len(built_request)]!r:.80} was recorded"
        elif built_request[0] != recorded_request[0]:
            what = f"asks {built_request[0]!r:.80}, and {recorded_request[0]!r:.80} was recorded"
        else:
            what = f"continues with {built_request[1]!r:.80}, and {recorded_request[1]!r:.80} was recorded"
    return DataError(
        f"the installed task makes a different request: it {what}",
        where=f"{candidate.where}, doc {number} (question hash {row.question_hash})",
        hint="Install the lm-eval version of the record, or copy the task of that version into template_dir",
    )

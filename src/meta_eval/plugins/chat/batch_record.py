"""Batch files as a record: what a chat endpoint was asked, and what it answered.

Right is what the file of golds says. Without it, right is what the record itself answered, so that a score is the
agreement with the record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from meta_eval.base.hashing import hash_file, hash_text
from meta_eval.base.inputs import format_json
from meta_eval.harness.chat_completion import ChatChoice, ChatCompletion
from meta_eval.pack.manifest import RecordEntry
from meta_eval.pack.records.recorded_docs import WARNING_TEXTS, RecordedDoc, RecordedDocs, count_repeated_prompts
from meta_eval.pack.records.task_code import make_grader_code
from meta_eval.pack.records.task_groups import ALL
from meta_eval.plugins.chat.batch_pairs import (
    BatchPair,
    Results,
    find_batch_files,
    pair_files,
    read_batch_results,
    read_golds,
    read_requests,
)
from meta_eval.plugins.chat.chat_docs import ChatGrading, choose_grading, split_bodies
from meta_eval.sockets import DataError, Grader, Place, Reading, Record, RecordedTask, locating, plural

_METRIC = "exact_match,none"

# The graders of chat answers, which packs contain.
_GRADERS = Path(__file__).with_name("assets") / "chat"


class BatchRecord(Record):
    """A recorded run in batch files."""

    def __init__(self, place: Place) -> None:
        assert place.path is not None  # noqa: S101 (`detect` takes no other)
        self._pairs = pair_files(find_batch_files(place.path, place.files), place.name)
        self.name, self.tasks = place.name, tuple(sorted(self._pairs))
        self.groups = {ALL: self.tasks}

    def read(self, task: str, reading: Reading) -> RecordedTask:
        pair = self._pairs[task]
        requests, results = read_requests(pair.requests), read_batch_results(pair.results)
        asked = [custom_id for custom_id in requests if custom_id in results.answered]
        with locating(f"{self.name}, {task}"):
            _check(asked, results)
            docs, generation = split_bodies([requests[custom_id].body for custom_id in asked])
        grading = choose_grading(docs)
        golds = None if pair.golds is None else read_golds(pair.golds)
        rows = []
        for custom_id, body in zip(asked, docs, strict=True):
            completion = results.answered[custom_id].completion
            assert completion is not None  # noqa: S101 (it was answered)
            with locating(f"{pair.golds or pair.requests}, {custom_id!r:.80}"):
                doc = _make_doc(custom_id, body, completion.choices[0], grading, golds)
            # As the baseline of another record, an answer that is its own gold has no verdict.
            has_verdict = golds is not None or reading.output_type is None
            rows.append(_make_row(doc, grading, completion, has_verdict=has_verdict))
        counts = {
            "unanswered": len(requests) - len(asked),
            "answers_no_request": len((results.answered.keys() | results.failed.keys()) - requests.keys()),
            "cut_lines": len(results.cut_off),
            "duplicate_prompts": count_repeated_prompts(rows),
        }
        recorded_docs = RecordedDocs(rows, generation, None, counts, asked_as="chat", answer=grading.answer)
        counted = (_describe(name, count, results) for name, count in recorded_docs.warnings.items())
        told = [*counted, *grading.list_warnings()]
        if pair.golds is not None and not any(row.metrics.get(_METRIC) for row in rows):
            told.append(
                f"no recorded answer equals its gold ({plural(len(rows), 'doc')}): check that {pair.golds.name} "
                "belongs to these requests, and that a gold is all that an answer says"
            )
        model = next(iter(results.models)) or requests[asked[0]].body.get("model")
        return RecordedTask(
            rows=recorded_docs,
            output_type="generate_until",
            revision=_compute_revision(pair),
            entry=RecordEntry(
                model=model if isinstance(model, str) else None, time=None, results_file=pair.results[0].name,
                lm_eval=None, backend="batch", bos_text=None, chat_template=True, shots=None, task_version=None,
            ),
            benchmark=task,
            specs=[_METRIC],
            warnings=told,
            about=grading,
        )  # fmt: skip

    def grader(self, task: str, recorded: RecordedTask, reading: Reading) -> Grader:  # noqa: ARG002
        assert isinstance(recorded.about, ChatGrading)  # noqa: S101 (what `read` left there)
        return Grader(make_grader_code(recorded.about.grader, task, _GRADERS), _METRIC)


def _check(asked: Sequence[str], results: Results) -> None:
    if not asked:
        first = next((f": {reason}" for reason in results.failed.values()), "")
        raise DataError(f"no request has an answer{first}")
    if len(results.models) > 1:
        listed = ", ".join(f"{model or 'without a name'} ({where})" for model, where in results.models.items())
        raise DataError(
            f"the answers come from {len(results.models)} models: {listed}",
            hint="Name the results file of one model",
        )


def _describe(name: str, count: int, results: Results) -> str:
    failed = next((f"; the first: {custom_id}: {reason:.120}" for custom_id, reason in results.failed.items()), "")
    return f"{count:,} docs {WARNING_TEXTS[name]}{failed if name == 'unanswered' else ''}"


def _make_doc(
    custom_id: str,
    body: Mapping[str, Any],
    choice: ChatChoice,
    grading: ChatGrading,
    golds: Mapping[str, Mapping[str, Any]] | None,
) -> dict[str, Any]:
    """Make the doc that the grader reads.

    Raises:
        DataError: There is no gold, or it is malformed.
    """
    line: Mapping[str, Any] = {"gold": grading.make_gold(choice)} if golds is None else golds.get(custom_id, {})
    if "gold" not in line:
        raise DataError("has no gold", hint="Add a line with its custom_id and its gold")
    try:
        doc = grading.make_doc(body, line["gold"])
    except ValueError as error:
        raise DataError(str(error)) from None
    subtask = {"subtask_name": line["subtask"]} if isinstance(line.get("subtask"), str) else {}
    return {"custom_id": custom_id, "query": format_json(body), **doc, **subtask}


def _make_row(
    doc: dict[str, Any], grading: ChatGrading, completion: ChatCompletion, *, has_verdict: bool
) -> RecordedDoc:
    answer = grading.format_answer(completion.choices[0])
    return RecordedDoc(
        doc=doc,
        prompt=doc["query"],
        question_hash=hash_text(doc["query"]),
        gold=doc["gold"],
        responses=[[answer]],
        metrics={_METRIC: grading.compute_verdict(doc, answer)} if has_verdict else {},
        finish_reason=completion.finish_reason,
        completion_tokens=completion.completion_tokens,
    )


def _compute_revision(pair: BatchPair) -> str:
    """``sha256:`` over the names and contents of the files."""
    files: list[Path] = [pair.requests, *pair.results, *([pair.golds] if pair.golds else [])]
    return "sha256:" + hash_text("".join(f"{file.name}\t{hash_file(file)}\n" for file in files))

"""The record format of lm-eval: its samples are the docs, and the installed task of that name grades them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from meta_eval import stats
from meta_eval.base.errors import DataError, locating
from meta_eval.base.logs import log
from meta_eval.harness.lm_eval_run import TaskRun, read_newest
from meta_eval.harness.results_file import ResultsFile, as_mapping, read_template_block
from meta_eval.harness.sample_files import open_samples
from meta_eval.harness.sample_parser import read_arguments
from meta_eval.harness.scores import compute_scores, list_metric_keys
from meta_eval.pack.manifest import RecordEntry
from meta_eval.pack.records.format import (
    ALMOST_SURE,
    Grader,
    Place,
    Reading,
    Record,
    RecordedScore,
    RecordedTask,
    RecordFormat,
)
from meta_eval.pack.records.lm_eval.run_files import (
    RecordFiles,
    find_hub_run,
    find_local_run,
    holds_record,
    holds_samples,
)
from meta_eval.pack.records.pack_task import list_filters
from meta_eval.pack.records.recorded_docs import WARNING_TEXTS, RecordedDocs, find_bos, read_rows, was_asked_with_bos
from meta_eval.pack.records.task_code import TaskCode, find_allowed_code

_GENERATED = "generate_until"
_AVERAGING = {"mean": "micro", "macro": "macro", "mean of four": "mean of four"}


class LmEvalFormat(RecordFormat):
    """Output of ``lm_eval --log_samples``, or results with samples as `simple_evaluate` returns them."""

    name = "lm-eval"
    reads = "`lm_eval --log_samples` output"

    def detect(self, place: Place) -> float:
        # Folders of other formats, such as details, also hold results of lm-eval's form.
        if place.repository is not None:
            return ALMOST_SURE if holds_samples(place.repository) else 0
        return ALMOST_SURE if place.path is not None and holds_record(place.path) else 0

    def open_run(self, place: Place, run: str | None, names: Sequence[str]) -> Record:
        if place.repository is not None:
            return LmEvalRecord(find_hub_run(place.repository, run, names))
        assert place.path is not None  # noqa: S101 (a place is here or on the hub)
        return LmEvalRecord(find_local_run(place.name, place.path, run, names))


class LmEvalRecord(Record):
    """A run of lm-eval."""

    def __init__(self, files: RecordFiles) -> None:
        self._files = files
        self.name, self.tasks, self.groups = files.name, files.tasks, files.groups

    def read(self, task: str, reading: Reading) -> RecordedTask:
        where = f"{self.name}, {task}"
        run = read_newest(self._files.outputs, self._files.outputs.tasks[task], on_note=log.warning)
        if run is None or run.samples_file is None:
            raise DataError("holds no sample", where=where)
        if reading.output_type is None:
            output_type = str(
                find_allowed_code(task, reading.template_dir, allow_code=reading.allow_code).settings.get(
                    "output_type", _GENERATED
                )
            )
        else:
            output_type = _output_type(run, reading.output_type)
        results = self._files.results(task)
        with locating(where):
            rows = read_rows(run, results, output_type)
        logged = list_metric_keys(run.docs)
        return RecordedTask(
            rows=rows,
            output_type=output_type,
            revision=self._files.revision,
            entry=self._entry(task, results, rows),
            benchmark=task,
            scores=_scores(run, logged),
            specs=[*logged, *run.aggregates],
            warnings=[f"{count:,} docs {WARNING_TEXTS[key]}" for key, count in rows.warnings.items()],
        )

    def grader(self, task: str, recorded: RecordedTask, reading: Reading) -> Grader:
        code = find_allowed_code(task, reading.template_dir, allow_code=reading.allow_code)
        if recorded.entry.task_version != code.version:
            log.warning(
                f"{task}: the record has version {recorded.entry.task_version} of the task, and "
                f"{code.source_label} has version {code.version}; `meta-eval verify` says whether they grade alike"
            )
        return Grader(code, _choose_verdict_metric(code, recorded), list_filters(code))

    def _entry(self, task: str, results: ResultsFile | None, rows: RecordedDocs) -> RecordEntry:
        provenance = self._files.provenance(task)
        tree: Mapping[str, Any] = results.tree if results else {}
        versions, shots = as_mapping(tree.get("versions")).get(task), as_mapping(tree.get("n-shot")).get(task)
        return RecordEntry(
            model=provenance.model,
            time=self._files.outputs.tasks[task][0].time or None,
            results_file=results.path.name if results else None,
            lm_eval=provenance.lm_eval,
            backend=provenance.backend,
            bos_text=find_bos(results),
            chat_template=provenance.chat_template,
            shots=None if shots is None else str(shots),
            task_version=None if versions is None else str(versions),
            bos_in_prompts=was_asked_with_bos(provenance, rows),
        )


def _output_type(run: TaskRun, pack_type: str) -> str:
    """The output type of a baseline, by its first sample: choices may have been scored by the next token."""
    assert run.samples_file is not None  # noqa: S101 (a record has samples)
    with open_samples(run.samples_file) as read_whole:
        requests = read_arguments(read_whole(next(iter(run.docs[0].filter_results.values()))))
    settings = requests[0][1] if requests and len(requests[0]) > 1 else None
    if isinstance(settings, dict):
        return _GENERATED
    return "multiple_choice" if pack_type == _GENERATED else pack_type


def _scores(run: TaskRun, logged: Sequence[str]) -> dict[str, RecordedScore]:
    """The record's own scores, if they are means over docs or averages over labels."""
    entries = {}
    for metric_key in logged:
        score = compute_scores(run.docs, metric_key)
        if score is not None:
            value = stats.mean(score.contributions) if score.labels is None else score.value
            entries[metric_key] = RecordedScore(value, _AVERAGING.get(score.averaging), score.averaging == "mean")
    return entries


def _choose_verdict_metric(code: TaskCode, recorded: RecordedTask) -> str:
    """The ``metric,filter`` of verdicts: the template's, or else the first with a share for every doc."""
    verdict = read_template_block(code.settings).get("primary_metric")
    if isinstance(verdict, str) and verdict in recorded.specs:
        return verdict
    means = (metric_key for metric_key, score in recorded.scores.items() if score.is_mean)
    return next(means, next(iter(recorded.specs), "none,none"))

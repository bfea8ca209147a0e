"""The tasks of a recorded run, each with the grader that its format finds for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from meta_eval.base.errors import ConfigError, locating
from meta_eval.base.logs import log, report_progress
from meta_eval.base.pack_names import split_excluded
from meta_eval.pack.config import Config, ValuePlace
from meta_eval.pack.manifest import RecordEntry, ReferenceScoreEntry
from meta_eval.pack.prepared_task import PrepareContext, PreparedTask
from meta_eval.pack.records.format import Place, Reading, Record, RecordFormat
from meta_eval.pack.records.pack_task import make_task
from meta_eval.pack.records.recorded_docs import describe_endings
from meta_eval.pack.records.run_selection import select_tasks
from meta_eval.pack.records.task_groups import find_covered_groups
from meta_eval.pack.records.task_source import CandidateTask, TaskSource


def open_record(record_format: RecordFormat, place: Place, config: Config, config_place: ValuePlace) -> TaskSource:
    """Open the run that a configuration means.

    Raises:
        ConfigError: A key of the configuration does not fit a recorded run, or names no run or several.
        SourceError: A file is missing, gated, cut off or corrupt.
    """
    report_progress(f"reading {config.evals_dataset}")
    if not config.bundle:
        raise ConfigError(
            "a recorded run must be in the pack", where=config_place.name_key("bundle"), hint="Set bundle: true"
        )
    if place.repository is None and config.evals_revision is not None:
        raise ConfigError(
            "names a hub commit, but the record is local",
            where=config_place.name_key("evals_revision"),
            hint="To choose among several runs, set evals_run",
        )
    with locating(config_place.name_key("tasks")):
        return RecordSource(record_format.open_run(place, config.evals_run, split_excluded(config.tasks)[0]))


class RecordSource(TaskSource):
    """The tasks of a recorded run."""

    def __init__(self, record: Record) -> None:
        self._record = record

    def choose(self, names: Sequence[str]) -> tuple[list[str], Mapping[str, tuple[str, ...]]]:
        return select_tasks(self._record, names)

    def prepare(self, task: str, context: PrepareContext) -> CandidateTask:
        return _make_candidate(self._record, task, context)

    def find_more_groups(self, tasks: Sequence[PreparedTask]) -> Mapping[str, tuple[str, ...]]:
        records = {task.name: task.entry.record for task in tasks}
        return find_covered_groups(
            {name: record.shots if record else None for name, record in records.items()}, self._record.groups
        )


def _make_candidate(record: Record, name: str, context: PrepareContext) -> CandidateTask:
    """Make a task of a recorded run, with its grader.

    Raises:
        UserError: It cannot be asked or graded again.
    """
    report_progress(f"{name}: reading its answers")
    config, where = context.config, f"{record.name}, {name}"
    reading = Reading(Path(config.template_dir), config.allow_code, lambda: context.tokenizer)
    with locating(where):
        recorded = record.read(name, reading)
        grader = record.grader(name, recorded, reading)
    for warning in (*recorded.warnings, *describe_endings(recorded.rows)):
        log.warning(f"{name}: {warning}")
    entry = recorded.entry.model_copy(
        update={"grader_source": grader.code.source_label, "grader_version": grader.code.version}
    )
    specs = sorted(recorded.scores, key=lambda metric_key: metric_key != grader.primary_metric)
    published = [
        make_recorded_number(
            entry, metric_key, recorded.scores[metric_key].value, benchmark=recorded.benchmark,
            averaging=recorded.scores[metric_key].averaging,
        )
        for metric_key in specs
    ]  # fmt: skip

    def make(delimiter: str | None) -> PreparedTask:
        return make_task(
            grader.code, recorded.rows, entry, context, dataset_id=record.name, revision=recorded.revision,
            primary_metric=grader.primary_metric, filters=grader.filters, published=published, delimiter=delimiter,
        )  # fmt: skip

    return CandidateTask(make(grader.delimiter), recorded.rows, where, make)


def make_recorded_number(
    record: RecordEntry, metric_key: str, value: float, *, benchmark: str, averaging: str | None
) -> ReferenceScoreEntry:
    """Make an entry of a score of a recorded run, to compare new runs with.

    Args:
        record: The run.
        metric_key: The ``metric,filter`` of the task that it answers.
        value: The score, from 0 to 1.
        benchmark: What the run calls the task.
        averaging: How the docs are averaged; None if unknown.
    """
    return ReferenceScoreEntry(
        metric=metric_key,
        benchmark=benchmark,
        value=round(100 * value, 6),
        source_metric=metric_key.partition(",")[0],
        averaging=averaging,
        shots=record.shots,
        cot=None,
        same_settings=True,
        origin="recorded",
        source=f"{record.model or 'unknown model'}, {record.results_file or 'samples'}",
        note=None,
    )

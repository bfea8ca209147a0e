"""Runs that lm-eval recorded with ``--log_samples``, on this machine or in a dataset of the hub.

Details of the Open LLM Leaderboard 2 are such datasets (``open-llm-leaderboard/<org>__<model>-details``). Only the
files of chosen runs are downloaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from meta_eval import stats
from meta_eval.base.display import quoted
from meta_eval.base.errors import DataError, SourceError, locating
from meta_eval.base.hashing import hash_file, hash_text
from meta_eval.base.logs import log
from meta_eval.base.pack_names import RULE, is_name
from meta_eval.harness.doc_results import DocResult
from meta_eval.harness.lm_eval_run import TaskRun, check_one_model, has_samples, read_newest, should_have_samples
from meta_eval.harness.output_index import (
    OutputIndex,
    TaskOutput,
    explain_missing_samples,
    index_outputs,
    parse_file_name,
)
from meta_eval.harness.provenance import Provenance, read_provenance
from meta_eval.harness.results_file import (
    ResultsFile,
    as_mapping,
    list_leaf_tasks,
    read_results_file,
    read_template_block,
)
from meta_eval.harness.sample_files import open_samples
from meta_eval.harness.sample_parser import read_arguments
from meta_eval.harness.scores import compute_scores, list_metric_keys
from meta_eval.pack.hub import Repository
from meta_eval.pack.manifest import RecordEntry
from meta_eval.pack.records.format import Grader, Reading, Record, RecordedScore, RecordedTask
from meta_eval.pack.records.pack_task import list_filters
from meta_eval.pack.records.recorded_docs import WARNING_TEXTS, RecordedDocs, find_bos, read_rows, was_asked_with_bos
from meta_eval.pack.records.run_selection import choose_runs, select_tasks
from meta_eval.pack.records.task_code import TaskCode, find_allowed_code
from meta_eval.pack.records.task_groups import ALL


@dataclass(frozen=True, slots=True)
class RecordFiles:
    """The files of a run."""

    name: str
    """The place, as the user wrote it."""

    revision: str
    """The commit, or ``sha256:`` over the names and digests of the files."""

    outputs: OutputIndex
    """The selected run of each task."""

    groups: Mapping[str, tuple[str, ...]]
    """The tasks of each group of the run; `ALL` holds every task."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks with samples."""
        return tuple(self.outputs.tasks)

    def results(self, task: str) -> ResultsFile | None:
        """The results file of a task."""
        path = self.outputs.tasks[task][0].results
        return None if path is None else self.outputs.results[path]

    def provenance(self, task: str) -> Provenance:
        """The provenance of a task's samples."""
        run = self.outputs.tasks[task][0]
        return read_provenance(self.results(task), (run.samples or Path()).parent.name, task)


def find_local_run(name: str, path: Path, run: str | None, task_names: Sequence[str]) -> RecordFiles:
    """The files of a recorded run on this machine.

    Args:
        name: The folder or file, as the user wrote it.
        path: Where it is.
        run: The time of the selected run, as in the names of its files; None if there is only one run.
        task_names: The requested tasks. If empty, or if a name is not a task, all tasks are read.

    Raises:
        ConfigError: A task has several runs and ``run`` names none of them, or no run has this time.
        SourceError: It holds no samples.
        ResultsError: The runs are of several models, or the only results file is damaged.
    """
    files = index_outputs([path])
    for error in files.unknown_damage():
        log.warning(f"left out: {error}")
    with_samples = {
        task: list(filter(has_samples, runs)) or list(filter(should_have_samples, runs))
        for task, runs in files.tasks.items()
    }
    if not any(with_samples.values()):
        lacking = [(run.results, run.task) for runs in files.tasks.values() for run in runs if run.results]
        file, task = lacking[0] if lacking else (path, "")
        what, hint = explain_missing_samples(file, task)
        raise SourceError(f"holds lm_eval results without samples: {file.name} {what}", where=name, hint=hint)
    chosen = choose_runs({task: runs for task, runs in with_samples.items() if runs}, run, task_names, name)
    return _checked(name, {task: [run] for task, run in chosen.items()}, files.results)


def find_hub_run(repository: Repository, run: str | None, task_names: Sequence[str]) -> RecordFiles:
    """Find a recorded run on the hub, and fetch the files that are needed.

    Args:
        repository: The dataset.
        run: The time of the selected run; None if there is only one run.
        task_names: The requested tasks and groups.

    Raises:
        ConfigError: There is no such task or group, a task has several runs and ``run`` names none of them, or no run
            has this time.
        SourceError: A file is missing, gated, cut off or corrupt.
        ResultsError: A results file is damaged, or the runs are of several models.
    """
    chosen = choose_runs(_runs(repository), run, task_names, repository.dataset_id)
    outputs = OutputIndex({task: [run] for task, run in chosen.items()}, _results(repository, chosen))
    listed = RecordFiles(repository.dataset_id, repository.revision, outputs, _groups_of(outputs))
    names, _ = select_tasks(listed, task_names)
    samples = {task: _fetched(repository, chosen[task].samples) for task in names}
    fetched_files = index_outputs(list(samples.values()))
    runs_by_task = {
        task: [run for run in fetched_files.tasks[task] if run.samples is not None and run.samples.name == path.name]
        for task, path in samples.items()
    }
    return _checked(repository.dataset_id, runs_by_task, fetched_files.results, repository.revision)


def _checked(
    name: str,
    chosen: Mapping[str, Sequence[TaskOutput]],
    results: Mapping[Path, ResultsFile],
    revision: str | None = None,
) -> RecordFiles:
    """Check the files of a run.

    Args:
        name: As the user wrote it.
        chosen: The selected run of each task.
        results: The results files, read.
        revision: The commit of a dataset on the hub; None for a digest of the files.

    Raises:
        SourceError: A name is not that of a task.
        ResultsError: The runs are of several models.
    """
    for task in chosen:
        if not is_name(task):
            raise SourceError(f"{quoted(task)} is not a valid task name", where=name, hint=RULE)
    used = {run.results for runs in chosen.values() for run in runs}
    files = OutputIndex(chosen, {file: tree for file, tree in results.items() if file in used})
    check_one_model({task: _provenance(files, runs[0], task) for task, runs in chosen.items()})
    return RecordFiles(name, revision or _revision(files), files, _groups_of(files))


def _provenance(files: OutputIndex, run: TaskOutput, task: str) -> Provenance:
    return read_provenance(files.results[run.results] if run.results else None, "", task)


def _revision(files: OutputIndex) -> str:
    """The SHA-256 of names and contents of the files that are read; the path of their folder does not count."""
    paths = {run.samples for runs in files.tasks.values() for run in runs} | set(files.results)
    lines = []
    for file in sorted(path for path in paths if path is not None):
        with suppress(OSError):  # the task is left out
            lines.append(f"{file.name}\t{hash_file(file)}\n")
    return f"sha256:{hash_text(''.join(lines))}"


def _groups_of(files: OutputIndex) -> dict[str, tuple[str, ...]]:
    """The groups of the run, each with its tasks that have samples. Names that are also task names are skipped."""
    groups: dict[str, tuple[str, ...]] = {}
    for results in files.results.values():
        children = as_mapping(results.tree.get("group_subtasks"))
        for name in children:
            members = tuple(task for task in list_leaf_tasks(name, children) if task in files.tasks)
            if members and name not in files.tasks and is_name(name):
                groups[name] = members
    return {**groups, ALL: tuple(files.tasks)}


def _runs(repository: Repository) -> dict[str, list[TaskOutput]]:
    """The runs of each task, by file names. Paths are those inside the dataset."""
    runs: dict[str, list[TaskOutput]] = {}
    results = {
        (PurePosixPath(name).parent, parsed[1]): Path(name)
        for name in repository.names
        if (parsed := parse_file_name(PurePosixPath(name).name)) and parsed[0] is None
    }
    for name in sorted(repository.names):
        path = PurePosixPath(name)
        task, time = parse_file_name(path.name) or (None, "")
        if task is not None:
            runs.setdefault(task, []).append(TaskOutput(task, time, Path(name), results.get((path.parent, time))))
    return runs


def _results(repository: Repository, chosen: Mapping[str, TaskOutput]) -> dict[Path, ResultsFile]:
    return {
        run.results: read_results_file(_fetched(repository, run.results))
        for run in {str(run.results): run for run in chosen.values()}.values()
        if run.results is not None
    }


def _fetched(repository: Repository, name: Path | None) -> Path:
    if name is None:
        raise SourceError("names no file", where=repository.dataset_id)
    return repository.fetch_file(name.as_posix()).path


_GENERATED = "generate_until"
_AVERAGING = {"mean": "micro", "macro": "macro", "mean of four": "mean of four"}


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
        rows.unread = sum(map(_is_unread, run.docs))
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
        version, shots = (results.version(task), results.shots(task)) if results else (None, None)
        return RecordEntry(
            model=provenance.model,
            time=self._files.outputs.tasks[task][0].time or None,
            results_file=results.path.name if results else None,
            lm_eval=provenance.lm_eval,
            backend=provenance.backend,
            bos_text=find_bos(results),
            chat_template=bool(provenance.chat_template),
            shots=None if shots is None else str(shots),
            task_version=None if version is None else str(version),
            bos_in_prompts=was_asked_with_bos(provenance, rows),
        )


def _is_unread(doc: DocResult) -> bool:
    """Whether an answer is empty, or no filter found anything in it."""
    return doc.answer_empty or all(result.is_unextracted for result in doc.filter_results.values())


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

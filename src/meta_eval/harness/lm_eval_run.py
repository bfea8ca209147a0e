"""Reads a run: the newest results of each task, with docs and provenance.

Scores come from samples if there are any. The results file has the settings, and its averages must agree.
docs/reference/files.md lists the formats of lm-eval's versions.
"""

from __future__ import annotations

import filecmp
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from meta_eval import stats
from meta_eval.base.inputs import explain_form, is_pointer
from meta_eval.base.logs import report_progress
from meta_eval.base.pack_names import join_names
from meta_eval.base.thresholds import SAME_VALUE
from meta_eval.harness.choice import Choice, Groups
from meta_eval.harness.clusters import Fields, find_field
from meta_eval.harness.doc_results import (
    LOWER_IS_BETTER,
    DocResult,
    FilterResult,
    ResultsError,
    average_answers,
)
from meta_eval.harness.output_index import (
    OutputIndex,
    TaskOutput,
    explain_missing_samples,
    find_common_folder,
    index_outputs,
)
from meta_eval.harness.provenance import Provenance, read_decoding, read_provenance
from meta_eval.harness.results_file import Aggregate, GroupTotal, as_mapping, read_template_block
from meta_eval.harness.sample_files import CountTokens, SamplesFile, open_samples, read_raw_samples, read_samples
from meta_eval.harness.sample_parser import parse_sample
from meta_eval.harness.scores import check_averages, check_log_scores
from meta_eval.harness.shared_texts import SharedTexts, TextCounts


@dataclass(frozen=True, slots=True)
class TaskRun:
    """A task as a model ran it."""

    task: str
    """Its name."""

    time: str = ""
    """The time in the file's name; for lm-eval before 0.4.3 the time in the results file."""

    docs: tuple[DocResult, ...] = ()
    """The docs by doc id; empty if no samples were logged."""

    filters: tuple[str, ...] = ()
    """The filters of its answers, in lm-eval's order; without samples, those of its averages."""

    aggregates: Mapping[str, Aggregate] = field(default_factory=dict)
    """lm-eval's own averages with standard errors, by ``metric,filter``. A task without samples, and metrics that are
    not shares (perplexity, BLEU), have only these."""

    custom_aggregation: tuple[str, ...] = ()
    """The ``metric,filter`` with the task's own aggregation (an F1 of the whole, a weighted mean). The mean over docs
    is not the score, so the docs do not keep their values."""

    samples_file: Path | None = None
    """The samples file, or the log of another harness; `open_samples` reads whole samples."""

    skipped: int = 0
    """Damaged samples and docs that were left out."""

    published_metrics: tuple[str, ...] = ()
    """Metrics with published scores, from the template."""

    primary_metric: str | None = None
    """The ``metric,filter`` that says whether an answer is right, from the template."""

    is_correct_metric: str | None = None
    """The metric with the meaning of Meta's ``is_correct``, if that is not a verdict; from the template."""

    provenance: Provenance = field(default_factory=Provenance)
    """The provenance."""

    lower_is_better: frozenset[str] = LOWER_IS_BETTER
    """Metrics where lower is better."""

    is_chat: bool = False
    """Whether its prompts are chat messages, from the template."""

    higher_is_better: Mapping[str, bool] = field(default_factory=dict)
    """Whether more is better, for the metrics of which the results file says so."""

    logged: Sequence[Mapping[str, Any]] | None = field(default=None, repr=False)
    """See `meta_eval.harness.output_index.LoggedRun`; None of a samples file."""

    shared_texts: tuple[SharedTexts, ...] = ()
    """The fields with texts that several docs share; none where the clusters are given."""

    cluster_field: str | None = None
    """Which of these fields, or of the record of its pack, makes its docs clusters."""

    uncounted_texts: tuple[TextCounts, ...] = ()
    """Further fields with texts that many docs of its pack share."""

    known: dict[str, list[str]] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What was found out of its docs once, for `meta_eval.judge.pair`."""

    def open_samples(self) -> AbstractContextManager[Callable[[FilterResult], Mapping[str, Any]]]:
        """Give a function that reads the whole sample of an answer. Only for a task with samples.

        Raises:
            ResultsError: The file cannot be read, or has changed.
        """
        return open_samples(self.samples_file or Path(), self.logged)


def find_disputed_metrics(*runs: TaskRun) -> frozenset[str]:
    """The metrics of which one results file says that more is better, and another that less is."""
    said: dict[str, set[bool]] = {}
    for run in runs:
        for metric, higher in run.higher_is_better.items():
            said.setdefault(metric, set()).add(higher)
    return frozenset(metric for metric, directions in said.items() if len(directions) > 1)


def is_same_run(a: TaskRun, b: TaskRun) -> bool:
    """Whether two runs of a task are one: one file, or a copy under any name.

    Results of two runs differ in their times. A file of another harness may hold runs of other models or times.
    """
    if a.provenance.model != b.provenance.model or (a.logged is not None and a.time != b.time):
        return False
    pairs = [(a.provenance.results_file, b.provenance.results_file), (a.samples_file, b.samples_file)]
    return pairs[0] != (None, None) and all(_are_same(*pair) for pair in pairs)


def _are_same(a: Path | None, b: Path | None) -> bool:
    if a is None or b is None or a == b:
        return a == b
    # What is read of the hub is no file here.
    return a.is_file() and b.is_file() and filecmp.cmp(a, b, shallow=False)


def check_repeat(newest: TaskRun, other: TaskRun) -> None:
    """Check that repeats differ only in answers and seeds.

    Raises:
        ResultsError: They differ otherwise, or are copies of the same run.
    """
    pairs = [
        ("limit", newest.provenance.limit, other.provenance.limit),
        ("backend", newest.provenance.backend, other.provenance.backend),
        ("generation settings", newest.provenance.gen_kwargs, other.provenance.gen_kwargs),
        ("chat template", newest.provenance.chat_template, other.provenance.chat_template),
        ("system instruction", newest.provenance.system_instruction, other.provenance.system_instruction),
        ("docs of the pack", newest.provenance.docs_sha256, other.provenance.docs_sha256),
        ("evals dataset", newest.provenance.dataset_revision, other.provenance.dataset_revision),
        ("number of docs", len(newest.docs), len(other.docs)),
    ]
    disputed = find_disputed_metrics(newest, other)
    pairs += [
        (f"higher_is_better of {metric}", newest.higher_is_better[metric], other.higher_is_better[metric])
        for metric in sorted(disputed)
    ]
    newest_args, other_args = newest.provenance.model_args, other.provenance.model_args
    pairs += [
        (name, newest_args.get(name), other_args.get(name)) for name in sorted({*newest_args, *other_args} - {"seed"})
    ]
    where, hint = f"{newest.samples_file}, {other.samples_file}", "Name runs of one model and pack alone"
    for what, value, another in pairs:
        if value != another:
            raise ResultsError(
                f"{newest.task}: these runs are not repeats, because the {what} differs: {value!s:.80} and "
                f"{another!s:.80}",
                where=where,
                hint=hint,
            )
    # A log that was graded again keeps its time.
    lists = [_list_verdicts(run) if run.time else run.docs for run in (newest, other)]
    is_alike = newest.time == other.time and lists[0] == lists[1]
    if is_alike or is_same_run(newest, other):
        raise ResultsError(f"{newest.task}: this is the same run twice, not a repeat", where=where, hint=hint)
    if any(
        (a.doc_id, a.question_hash, a.prompt_hashes) != (b.doc_id, b.question_hash, b.prompt_hashes)
        for a, b in zip(newest.docs, other.docs, strict=True)
    ):
        raise ResultsError(f"{newest.task}: these runs differ in docs or prompts", where=where, hint=hint)


def _list_verdicts(run: TaskRun) -> list[Any]:
    return [(doc.answer_hash, [result.metrics for result in doc.filter_results.values()]) for doc in run.docs]


OnNotice = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Run:
    """The results of one model."""

    tasks: Mapping[str, TaskRun] = field(default_factory=dict)
    """The newest results of each task, sorted by name."""

    notes: tuple[str, ...] = ()
    """Notes about them."""

    groups: Mapping[str, GroupTotal] = field(default_factory=dict)
    """lm-eval's totals of groups, sorted by name; only groups with exactly these results."""

    repeats: Mapping[str, tuple[TaskRun, ...]] = field(default_factory=dict)
    """Older runs of each task, newest first, if repeats were requested. They have the same model, the same docs in the
    same order, and the same settings except the seed."""

    left_out: tuple[str, ...] = ()
    """Tasks that were not chosen, or that are damaged and skipped."""

    known_groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The tasks of each group that has a score in any results file."""

    faults: Mapping[str | None, str] = field(default_factory=dict)
    """Tasks that cannot be judged, with the faults of their files; under None, faults of files with an unknown task."""

    @property
    def known_tasks(self) -> list[str]:
        """The tasks of its files, also those that are left out or cannot be judged."""
        return [*self.tasks, *self.left_out, *filter(None, self.faults)]

    def all_runs(self, task: str) -> tuple[TaskRun, ...]:
        """All runs of a task, newest first; empty if it was not run."""
        return (self.tasks[task], *self.repeats.get(task, ())) if task in self.tasks else ()


def read_run(
    paths: Sequence[Path],
    *,
    skip_damaged: bool = False,
    repeats: bool = False,
    count_tokens: CountTokens | None = None,
    clusters: Fields | None = None,
    choice: Choice | None = None,
    groups: Groups | None = None,
    files: OutputIndex | None = None,
) -> Run:
    """Read the output of lm_eval.

    Args:
        paths: Folders, searched to any depth, and files.
        skip_damaged: Leave out damaged data, with a note; an older run of the task replaces an unreadable file.
            Otherwise a damaged task is in `Run.faults`.
        repeats: Keep all runs of a task for averaging, not only the newest.
        count_tokens: See `read_samples`.
        clusters: The field with the cluster of each doc, by task or by a pattern such as ``mmlu_*``.
        choice: The tasks to read; None for all.
        groups: Further groups that the choice may name, such as those of a pack.
        files: What is in the paths; None to look for lm_eval's files there.

    Raises:
        ConfigError: ``clusters`` names a field that no doc has.
        ResultsError: There is no output, no task can be read, or the files are of several models.
    """
    files = files or index_outputs(paths, skip_damaged=skip_damaged)
    notes = [f"left out: {error}" for error in files.damaged.values() if skip_damaged]
    if not files.tasks and not notes:
        for file in (file for path in paths for file in sorted(path.rglob("*"))):
            if form := explain_form(file):
                raise ResultsError(form, where=str(file), hint="Name the --output_path of a run")
        raise ResultsError(
            "no lm_eval files found (results_<time>.json, samples_<task>_<time>.jsonl)",
            where=", ".join(map(str, paths)),
            hint="Name the --output_path of a run",
        )
    if not repeats:
        _check_models(files)
    known_groups = {name: group.tasks for file in files.results.values() for name, group in file.groups().items()}
    names = (choice or Choice()).of(files.tasks, {**(groups or {}), **known_groups})
    runs: dict[str, list[TaskRun]] = {}
    faults: dict[str | None, ResultsError] = {}
    for task in names:
        report_progress(f"reading {task}")
        try:
            runs[task] = _read_task(
                files, task, repeats=repeats, skip_damaged=skip_damaged, count_tokens=count_tokens,
                cluster_field=find_field(clusters or {}, task), on_note=notes.append, name_newest=False,
            )  # fmt: skip
        except ResultsError as error:
            faults[task] = error
    tasks = {task: read[0] for task, read in runs.items() if read}
    if not tasks and (names or not files.tasks):
        raise next(iter(faults.values()), ResultsError("every file is damaged", where=", ".join(map(str, paths))))
    if not skip_damaged and (unknown := files.unknown_damage()):
        faults[None] = unknown[0]
    unchosen = [name for name in files.tasks if name not in names]
    damaged = [name for name, read in runs.items() if not read]
    notes += files.notes
    notes += [f"left out by name: {', '.join(unchosen)}"] if unchosen else []
    notes += [f"left out, since all files of it are damaged: {', '.join(damaged)}"] if damaged else []
    check_one_model({task: result.provenance for task, result in tasks.items()})
    counts = {task: len(files.tasks[task]) for task in tasks if len(files.tasks[task]) > 1}
    if counts and not repeats:
        listed = _list_counts(counts)
        notes.append(f"{listed}: the newest counts; with --repeats, runs of a task are averaged")
    older = {task: tuple(read[1:]) for task, read in runs.items() if read[1:]}
    if older:
        listed = _list_counts({task: 1 + len(others) for task, others in older.items()})
        notes.append(f"{listed} are averaged, doc by doc")
    return Run(
        tasks, (*notes, *_without_samples(tasks)), _groups(files, tasks), older, (*unchosen, *damaged), known_groups,
        explain_faults(faults),
    )  # fmt: skip


def check_choice(choice: Choice, runs: Sequence[Run], tasks: Iterable[str] = (), groups: Groups | None = None) -> None:
    """Refuse names that no run has, and a choice of nothing.

    Args:
        choice: The names.
        runs: The runs that were read with it.
        tasks, groups: Further known ones, such as those of a pack.

    Raises:
        ConfigError: A name is unknown, or no task is left.
    """
    names = [name for run in runs for name in run.known_tasks]
    of_runs = {name: members for run in runs for name, members in run.known_groups.items()}
    choice.check([*names, *tasks], {**(groups or {}), **of_runs})


def _read_task(files: OutputIndex, task: str, *, repeats: bool, **reading: Any) -> list[TaskRun]:
    """Read the newest run of a task, or all, newest first; empty if all are damaged and skipped.

    Raises:
        ResultsError: As of `read_newest`, or the runs are not repeats.
    """
    candidates = files.tasks[task]
    runs = [
        read_newest(files, chosen, **reading) for chosen in ([[run] for run in candidates] if repeats else [candidates])
    ]
    task_runs = [task_run for task_run in runs if task_run is not None]
    for newer, older in combinations(task_runs, 2):
        check_repeat(newer, older)
    return task_runs


def explain_faults(faults: Mapping[str | None, ResultsError]) -> dict[str | None, str]:
    """The reasons of faults by task, each without a full stop."""
    return {task: str(error).rstrip(".") for task, error in faults.items()}


def _list_counts(counts: Mapping[str, int]) -> str:
    """Summarise the number of runs of tasks: ``7 runs of each of 22 tasks``."""
    if len(counts) > 1 and len(set(counts.values())) == 1:
        return f"{next(iter(counts.values()))} runs of each of {len(counts)} tasks"
    return join_names([f"{count} runs of {task}" for task, count in counts.items()])


def _check_models(files: OutputIndex) -> None:
    """Refuse runs of a task by several models; the newest would hide the others.

    Raises:
        ResultsError: A task has runs of several models.
    """
    for task, candidates in files.tasks.items():
        models: dict[str, tuple[str | None, Path]] = {}
        folders: set[Path] = set()
        # Samples without results are of the model of the results beside them, else of the one that names the folder.
        for candidate in sorted(candidates, key=lambda one: one.results is None):
            folder = (candidate.results or candidate.samples or Path()).parent
            model = _read_provenance(candidate, files).model
            if candidate.results or candidate.of_log or folder not in folders:
                models.setdefault(str(model).replace("/", "__"), (model, folder))
            folders.add(folder)
        if len(models) > 1:
            listed = ", ".join(f"{name} ({folder})" for name, folder in models.values())
            raise ResultsError(
                f"{task} was run with {len(models)} models: {listed}",
                where=str(find_common_folder(folder for _, folder in models.values())),
                hint="Name the folder or files of one of them; `meta-eval compare A B` compares two",
            )


def read_newest(
    files: OutputIndex,
    candidates: Sequence[TaskOutput],
    *,
    skip_damaged: bool = False,
    count_tokens: CountTokens | None = None,
    cluster_field: str | None = None,
    on_note: OnNotice = lambda _: None,
    name_newest: bool = True,
) -> TaskRun | None:
    """Read the newest of several runs of a task; None if all are damaged and damage is skipped.

    Args:
        files: The outputs from `index_outputs`.
        candidates: The runs of the task, newest first.
        skip_damaged: See `read_run`.
        count_tokens, cluster_field: See `read_samples`.
        on_note: Called with notes.
        name_newest: Report which file is the newest of several runs.

    Raises:
        ResultsError: Its files are damaged or contradictory, or the newest run is unknown.
    """
    if len(candidates) > 1 and not candidates[0].time:
        first, second = (str(candidate.samples or candidate.results) for candidate in candidates[:2])
        raise ResultsError(
            f"{candidates[0].task}: there are {len(candidates)} runs, and lm-eval before 0.4.2 does not record "
            "which is the newest",
            where=f"{first}, {second}",
            hint="Name one of them",
        )
    for other in candidates[1:]:
        pair = [path for one in (candidates[0], other) if (path := one.samples or one.results) and path.is_file()]
        if other.time == candidates[0].time and len(pair) > 1 and not _are_same(*pair):
            what = f"{other.task}: there are two runs of one time, which differ: {other.time}"
            raise ResultsError(what, where=", ".join(map(str, pair)), hint="Name one of them")
    for candidate in candidates:
        try:
            if candidate.damage is not None and not skip_damaged:
                raise candidate.damage
            task_run = _read(candidate, files, skip_damaged, count_tokens, cluster_field, on_note)
        except ResultsError as error:
            if not skip_damaged:
                raise
            on_note(f"skipped: {error}")
            continue
        file = candidate.samples or candidate.results
        if candidate is not candidates[0]:
            on_note(f"{candidate.task}: {len(candidates)} runs; using an older run: {file}")
        elif name_newest and len(candidates) > 1:
            on_note(f"{candidate.task}: {len(candidates)} runs; using the newest: {file}")
        return task_run
    return None


# Reading


def _read(
    task_files: TaskOutput,
    files: OutputIndex,
    skip_damaged: bool,
    count_tokens: CountTokens | None,
    cluster_field: str | None,
    on_note: OnNotice,
) -> TaskRun:
    log = task_files.of_log
    results = files.results[task_files.results] if task_files.results else None
    provenance = _read_provenance(task_files, files)
    aggregates = results.aggregates(task_files.task) if results else {}
    if log:
        aggregates = {key: Aggregate(value, None, 0 <= value <= 1) for key, value in log.scores.items()}
    config = results.config(task_files.task) if results else {}
    block = read_template_block(config)
    filters = tuple(dict.fromkeys(metric_key.partition(",")[2] for metric_key in aggregates))
    samples = SamplesFile(Path(), (), filters, 0, 0, None, ())
    custom_aggregation: tuple[str, ...] = ()
    if task_files.samples is not None:
        others = (
            {name for name, how in results.aggregations(task_files.task).items() if how != "mean"} if results else set()
        )
        samples = read_samples(
            task_files.samples,
            offset=task_files.offset,
            logged=log.samples if log else None,
            skip_damaged=skip_damaged,
            filters=filters,
            may_be_nan=others,
            count_tokens=count_tokens,
            cluster_field=cluster_field,
        )
        for note in samples.notes:
            on_note(note)
        if log:
            check_log_scores(task_files.task, samples, log.scores)
        elif results is None:
            file = task_files.samples
            on_note(f"{task_files.task}: {file} has no results file next to it, so its model and limit are unknown")
        else:
            custom_aggregation = check_averages(
                task_files.task,
                samples,
                results,
                skip_damaged,
                on_note,
                is_pack_task=bool(block),
                is_recorded_task=bool(block.get("record")),
            )
        if not log and provenance.harness is None and "generation_kwargs" not in config:
            asked = {**samples.settings, **provenance.gen_kwargs}
            provenance = replace(provenance, decoding=read_decoding(asked, has_default=True))
    average_answers(samples.docs)
    published, primary, is_correct = (block.get(key) for key in ("published", "primary_metric", "is_correct_metric"))
    metrics = [as_mapping(entry).get("metric") for entry in published] if isinstance(published, list) else []
    return TaskRun(
        task=task_files.task,
        time=task_files.time,
        docs=samples.docs,
        filters=samples.filters,
        aggregates=aggregates,
        custom_aggregation=custom_aggregation,
        samples_file=task_files.samples,
        skipped=samples.skipped,
        published_metrics=tuple(dict.fromkeys(metric for metric in metrics if isinstance(metric, str))),
        primary_metric=primary if isinstance(primary, str) else None,
        is_correct_metric=is_correct if isinstance(is_correct, str) else None,
        provenance=provenance,
        lower_is_better=results.lower_is_better(task_files.task) if results else LOWER_IS_BETTER,
        is_chat=block.get("asked_as") == "chat",
        higher_is_better=results.read_directions(task_files.task) if results else {},
        logged=log.samples if log else None,
        shared_texts=samples.shared_texts,
    )


def _read_provenance(task: TaskOutput, files: OutputIndex) -> Provenance:
    if task.of_log:
        return task.of_log.provenance
    folder = (task.samples or task.results or Path()).parent.resolve().name
    return read_provenance(files.results[task.results] if task.results else None, folder, task.task)


def refuse_without_samples(tasks: Mapping[str, TaskRun]) -> ResultsError:
    """The error of runs none of whose tasks has samples."""
    task, file = next((task, file) for task, run in tasks.items() if (file := run.provenance.results_file) is not None)
    what, hint = explain_missing_samples(file, task)
    return ResultsError(what, where=str(file), hint=hint)


def _without_samples(tasks: Mapping[str, TaskRun]) -> list[str]:
    """Make a note for each results file that lacks samples of some tasks."""
    lacking: dict[tuple[Path, str], list[str]] = {}
    for task, result in tasks.items():
        file = result.provenance.results_file
        if result.samples_file is None and file is not None:
            lacking.setdefault((file, explain_missing_samples(file, task)[0]), []).append(task)
    return [f"{_some(names)}: {path} {what}" for (path, what), names in lacking.items()]


def _groups(files: OutputIndex, tasks: Mapping[str, TaskRun]) -> dict[str, GroupTotal]:
    used = {result.provenance.results_file for result in tasks.values()}
    groups: dict[str, GroupTotal] = {}
    for path in sorted(path for path in files.results if path in used):
        for name, group in files.results[path].groups().items():
            here = [task for task in group.tasks if task in tasks and tasks[task].provenance.results_file == path]
            if here and len(here) == len(group.tasks):
                groups[name] = group
    return dict(sorted(groups.items()))


def check_one_model(provenances: Mapping[str, Provenance]) -> None:
    """Refuse a run with tasks of several models: its numbers cannot be compared.

    Args:
        provenances: Where the results of each task came from.

    Raises:
        ResultsError: They are of several models.
    """
    models: dict[tuple[str, ...], tuple[str, Provenance]] = {}
    for task, provenance in provenances.items():
        if provenance.identity is not None:
            models.setdefault(provenance.identity, (task, provenance))
    if len(models) > 1:
        listed = "; ".join(f"{' '.join(model)} ({task})" for model, (task, _) in models.items())
        raise ResultsError(
            f"these results come from {len(models)} models: {listed}",
            where=", ".join(str(provenance.results_file) for _, provenance in models.values()),
            hint="Name the folders of one model",
        )


def _some(names: Sequence[str]) -> str:
    """All of up to four tasks; of more the first three, and how many more."""
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more tasks"


def weighs_docs(parts: Sequence[TaskRun], metric_key: str, value: float) -> bool | None:
    """Whether lm-eval's average of a group is over docs (True) or tasks (False); None if neither.

    Args:
        parts: The tasks of the group.
        metric_key: The ``metric,filter``.
        value: The average.
    """
    if any(metric_key not in part.aggregates for part in parts):
        return None
    if math.isclose(_average(parts, metric_key, by_docs=True), value, abs_tol=SAME_VALUE):
        return True
    return False if math.isclose(_average(parts, metric_key, by_docs=False), value, abs_tol=SAME_VALUE) else None


def average_groups_again(run: Run, tasks: Mapping[str, TaskRun]) -> dict[str, GroupTotal]:
    """The groups of a run over other scores of its tasks, averaged as before. Groups that lack a task are left out."""
    groups = {}
    for name, group in run.groups.items():
        if not set(group.tasks) <= tasks.keys():
            continue
        old, new = ([of[task] for task in group.tasks] for of in (run.tasks, tasks))
        aggregates = {}
        for metric_key, aggregate in group.aggregates.items():
            by_docs = weighs_docs(old, metric_key, aggregate.value)
            if by_docs is not None and all(metric_key in part.aggregates for part in new):
                value = _average(new, metric_key, by_docs=by_docs)
                aggregates[metric_key] = Aggregate(value, None, aggregate.is_fraction)
        if aggregates:
            groups[name] = replace(group, aggregates=aggregates)
    return groups


def _average(parts: Sequence[TaskRun], metric_key: str, *, by_docs: bool) -> float:
    values = [part.aggregates[metric_key].value for part in parts]
    if not by_docs:
        return stats.mean(values)
    sizes = [len(part.docs) or part.provenance.docs_run or 0 for part in parts]
    return math.fsum(size * score for size, score in zip(sizes, values, strict=True)) / (sum(sizes) or 1)


def has_samples(run: TaskOutput) -> bool:
    """Whether the samples file of a run begins with a sample of lm-eval."""
    try:
        for piece in read_raw_samples(run.samples, run.offset) if run.samples else ():
            return {"doc_id", "doc", "resps", "arguments"} <= set(parse_sample(piece.content, cut=False))
    except ResultsError:
        pass
    return False


def should_have_samples(run: TaskOutput) -> bool:
    """Whether a samples file that does not begin with a sample is a damaged one: something else says that it is one."""
    return run.samples is not None and (run.results is not None or run.damage is not None or _is_pointer(run))


def _is_pointer(run: TaskOutput) -> bool:
    try:
        return run.samples is not None and is_pointer(run.samples)
    except OSError:
        return False

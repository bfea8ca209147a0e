"""Grades the recorded answers of runs again, all with one grader: nothing is asked.

The grader is that of a pack, or else the task of the same name in the user's folder or the installed lm-eval. The
latter grades over the docs in the run's own samples, so it needs no dataset.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from meta_eval.base.apart import apart
from meta_eval.base.errors import ConfigError, PackError, UserError, locating
from meta_eval.base.logs import report_progress
from meta_eval.base.outputs import write_file
from meta_eval.base.pack_names import join_names
from meta_eval.base.thresholds import SAME_VALUE
from meta_eval.harness.doc_results import LOWER_IS_BETTER, UNBOUNDED_METRICS, DocResult, FilterResult
from meta_eval.harness.each_answer import add_each_answer
from meta_eval.harness.evaluator import Evaluated, Evaluator
from meta_eval.harness.lm_eval_run import Run, TaskRun, average_groups_again
from meta_eval.harness.provenance import find_installed_lm_eval, make_grader_facts
from meta_eval.harness.replay import RecordedResponses, read_recorded
from meta_eval.harness.results_file import Aggregate, as_mapping, read_results_file
from meta_eval.harness.sample_files import read_graded
from meta_eval.harness.scores import compute_scores
from meta_eval.pack.manifest import Manifest
from meta_eval.pack.pack_options import ScoringOptions
from meta_eval.pack.records.pack_task import check_rows
from meta_eval.pack.records.recorded_docs import read_rows
from meta_eval.pack.records.task_code import find_allowed_code
from meta_eval.pack.records.task_files import make_task_files
from meta_eval.pack.verify.pack_verification import refresh_baseline
from meta_eval.pack.verify.saved_answers import read_responses

_GENERATED = "generate_until"


@apart
def regrade_runs(
    runs: Sequence[Run], pack: Path | None, manifest: Manifest | None, template_dir: Path, *, allow_code: bool = False
) -> list[Run]:
    """Grade runs again, and first the recorded answers of the pack, if another lm-eval graded them.

    Args:
        runs: The runs.
        pack, manifest, template_dir, allow_code: As of `Regrader`.

    Raises:
        UserError: The pack cannot grade.
    """
    if pack and manifest:
        tasks = [name for name in manifest.tasks if any(name in run.tasks for run in runs)]
        refresh_baseline(pack, tasks, ScoringOptions(allow_code=allow_code, edited=True))
    regrader = Regrader(pack, manifest, template_dir, allow_code=allow_code)
    return [regrader.regrade(run) for run in runs]


class Regrader:
    """Grades runs again.

    Args:
        pack: The pack, which the docs of the runs are matched with; None for the tasks of lm-eval.
        manifest: Its manifest.
        template_dir: The user's own tasks, which come before lm-eval's.
        allow_code: Whether scoring may run programs that the model wrote.
    """

    def __init__(
        self, pack: Path | None, manifest: Manifest | None, template_dir: Path, *, allow_code: bool = False
    ) -> None:
        self._manifest, self._template_dir, self._allow_code = manifest, template_dir, allow_code
        self._evaluator = None if pack is None else Evaluator(pack)

    def regrade(self, run: Run) -> Run:
        """Grade every task of a run again. Tasks that cannot be graded are in `Run.faults`.

        Raises:
            UserError: No task can be graded.
        """
        graded: dict[str, list[TaskRun]] = {}
        faults: dict[str | None, UserError] = {}
        graders: dict[str, list[str]] = {}
        for name in run.tasks:
            report_progress(f"grading {name} again")
            try:
                with locating(name):
                    graded[name], grader = self._regrade_task(run.all_runs(name))
            except UserError as error:
                faults[name] = error
            else:
                graders.setdefault(grader, []).append(name)
        if faults and not graded:
            raise next(iter(faults.values()))
        tasks = {name: runs[0] for name, runs in graded.items()}
        return replace(
            run,
            tasks=tasks,
            repeats={name: tuple(runs[1:]) for name, runs in graded.items() if runs[1:]},
            groups=average_groups_again(run, tasks),
            faults={**run.faults, **{task: str(error).rstrip(".") for task, error in faults.items()}},
            notes=(*run.notes, *(f"{join_names(names)}: graded again by {by}" for by, names in graders.items())),
        )

    def _regrade_task(self, runs: tuple[TaskRun, ...]) -> tuple[list[TaskRun], str]:
        """The runs of a task with new verdicts, and what graded them, in words."""
        entry = self._manifest.tasks.get(runs[0].task) if self._manifest else None
        if entry is not None and entry.unsafe_code and not self._allow_code:
            raise ConfigError("scoring it runs code that a model wrote", hint="Add --allow-code where that is safe")
        graded, grader = [], "the pack"
        for run in runs:
            if not run.docs or run.samples_file is None:  # what verify stored is graded by the pack
                graded.append(run)
            elif entry is not None and self._evaluator is not None:
                graded.append(_take_verdicts(run, self._grade_in_pack(self._evaluator, run)))
            else:
                evaluated, grader = self._grade_over_own_docs(run)
                # The docs are numbered anew; their order is that of the run.
                graded.append(_take_verdicts(run, evaluated, dict(enumerate(doc.doc_id for doc in run.docs))))
        installed = f"lm-eval {find_installed_lm_eval()}"
        return graded, grader if grader == installed else f"{grader} with {installed}"

    def _grade_in_pack(self, evaluator: Evaluator, run: TaskRun) -> Evaluated:
        task = evaluator.load(run.task)
        numbers, answers = [doc.doc_id for doc in run.docs], _read_answers(run)
        indices = numbers if len(numbers) < len(task.eval_docs) else None
        return _evaluate(evaluator, run.task, task, answers, indices, self._allow_code)

    def _grade_over_own_docs(self, run: TaskRun) -> tuple[Evaluated, str]:
        try:
            code = find_allowed_code(run.task, self._template_dir, allow_code=self._allow_code)
        except ConfigError as error:
            hint = "Add --allow-code, but only on a disposable machine"
            raise ConfigError(error.what, where=error.where, hint=hint) from None
        grader = str(self._template_dir) if code.root == self._template_dir else code.source_label
        file = run.provenance.results_file
        rows = read_rows(
            run,
            None if file is None or run.logged is not None else read_results_file(file),
            str(code.settings.get("output_type", _GENERATED)),
        )
        clusters = [None] * len(rows.rows)
        check_rows(rows, clusters)
        made = make_task_files(code, rows, run.primary_metric or "none,none", clusters)
        with tempfile.TemporaryDirectory(prefix="meta-eval-regrade-") as folder:
            for name, content in {**code.files(), **made.files}.items():
                write_file(Path(folder) / name, content)
            evaluator = Evaluator(Path(folder))
            try:
                task = evaluator.load(run.task)
                answers = read_recorded(task.eval_docs)
                return _evaluate(evaluator, run.task, task, answers, None, self._allow_code), grader
            except PackError as error:
                raise PackError(
                    f"the task of {grader} cannot grade the docs of this run: {error.what}",
                    where=str(run.samples_file),
                    hint="Name the folder of the task that was run with --include-path, or its pack with --pack",
                ) from None


def _read_answers(run: TaskRun) -> list[RecordedResponses]:
    with run.open_samples() as read_whole:
        return [read_responses(read_whole(next(iter(doc.filter_results.values())))["resps"]) for doc in run.docs]


def _evaluate(
    evaluator: Evaluator,
    name: str,
    task: object,
    answers: list[RecordedResponses],
    indices: list[int] | None,
    allow_code: bool,
) -> Evaluated:
    evaluated = evaluator.evaluate(
        name, task=task, answers=answers, indices=indices, allow_code=allow_code, hashed=False
    )
    add_each_answer(evaluator, name, answers, evaluated, indices=indices, allow_code=allow_code)
    return evaluated


def _take_verdicts(run: TaskRun, evaluated: Evaluated, numbers: Mapping[int, int] | None = None) -> TaskRun:
    """A run with new verdicts.

    Args:
        run: The run.
        evaluated: Its answers, graded again.
        numbers: The run's number of each graded doc; None if they are the same.
    """
    graded = {(numbers or {}).get(doc.doc_id, doc.doc_id): doc.filter_results for doc in read_graded(evaluated.samples)}
    docs = tuple(_with_verdicts(doc, graded[doc.doc_id]) for doc in run.docs)
    aggregates = {
        metric_key: Aggregate(value, None, 0 <= value <= 1 and metric_key.partition(",")[0] not in UNBOUNDED_METRICS)
        for metric_key, value in evaluated.scores.items()
        if math.isfinite(value)
    }
    custom_aggregation = tuple(key for key, average in aggregates.items() if _has_own_aggregation(docs, key, average))
    for doc in docs:
        for metric, _, name in (metric_key.partition(",") for metric_key in custom_aggregation):
            doc.filter_results[name].metrics.pop(metric, None)
    higher = as_mapping(as_mapping(evaluated.results.get("higher_is_better")).get(run.task))
    flags = {metric: flag for metric, flag in higher.items() if isinstance(flag, bool)}
    lower = {metric for metric, flag in flags.items() if not flag} | (LOWER_IS_BETTER - flags.keys())
    config = as_mapping(as_mapping(evaluated.results.get("configs")).get(run.task))
    version = as_mapping(evaluated.results.get("versions")).get(run.task)
    grader = make_grader_facts(config, find_installed_lm_eval(), version)
    return replace(
        run,
        docs=docs,
        filters=evaluated.filters,
        aggregates=aggregates,
        custom_aggregation=custom_aggregation,
        provenance=replace(run.provenance, grader=grader),
        lower_is_better=frozenset(lower),
    )


def _with_verdicts(doc: DocResult, results: Mapping[str, FilterResult]) -> DocResult:
    """A doc with other results by filter. Its samples, which pages show, stay where they are."""
    first = next(iter(doc.filter_results.values()))
    places = {name: doc.filter_results.get(name, first) for name in results}
    return replace(
        doc,
        filter_results={
            name: replace(result, offset=places[name].offset, length=places[name].length)
            for name, result in results.items()
        },
    )


def _has_own_aggregation(docs: Sequence[DocResult], metric_key: str, aggregate: Aggregate) -> bool:
    """Whether a task's score is no mean over docs. With several answers a doc, lm-eval's score is of the first."""
    metric, _, name = metric_key.partition(",")
    scores = compute_scores(docs, metric_key)
    if scores is None or any(metric in doc.filter_results[name].verdict_of_each for doc in docs):
        return False
    return not math.isclose(scores.value, aggregate.value, abs_tol=SAME_VALUE, rel_tol=0)

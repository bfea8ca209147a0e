"""--stop-when-decided: asks docs in a planned order, grades after each batch, and stops once DON'T SHIP is proven.

`meta_eval.stats.sequential` has the statistics, guarantees and limits. This module provides the scores: the pack's
graders grade the recorded and the new answer of each doc.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from meta_eval.ask.answer_files import Answers
from meta_eval.ask.grading import Grading
from meta_eval.ask.pending_requests import keep_beginnings_together
from meta_eval.ask.request import Request
from meta_eval.base.errors import ConfigError
from meta_eval.base.logs import report_progress
from meta_eval.base.thresholds import Weighting
from meta_eval.harness.answer import Answer
from meta_eval.harness.doc_results import DocResult, find_cluster_names, find_shared_questions
from meta_eval.harness.results_file import ResultsFile
from meta_eval.harness.sample_files import read_graded
from meta_eval.harness.scores import ScoredRun, Scores
from meta_eval.harness.settings import RunSettings
from meta_eval.pack.baseline import read_baseline
from meta_eval.pack.manifest import Manifest, TaskEntry
from meta_eval.stats.sequential import PairableDocs, Sequential, State, plan_rounds

# Docs of the first batch; each later batch is a quarter of the docs so far. That keeps an engine busy, and at most a
# fifth is asked after the decision.
_FIRST, _GROWTH = 64, 0.25


@dataclass(frozen=True, slots=True)
class StopRules:
    """What is to be decided before a run may stop."""

    tasks: Sequence[str]
    """The tasks that decide; others are not asked."""

    margins: Mapping[str, float | None]
    """By task its own margin, from 0 to 1; None where it has none."""

    margin: float
    """That of the mean."""

    weights: Weighting
    """What a task counts in the mean."""


# Reads the rules, from the pack, its tasks that are asked, and the settings of the run.
ReadRules = Callable[[Manifest, Sequence[str], RunSettings], StopRules]


@dataclass(slots=True)
class _Task:
    """A task of the gate: the metric of its drop, its recorded docs (of several runs the first's), and the new docs."""

    metric_key: str
    docs: tuple[DocResult, ...]
    recorded: Scores
    new: dict[int, DocResult]


class Stopping:
    """The gate of a run.

    Args:
        pack: The folder of the pack; verify must have kept its baseline.
        manifest: Its manifest.
        grading: The grading of the tasks.
        requests: All requests by task and doc.
        rules: What is to be decided.
        seed: Of the order of docs.

    Attributes:
        places: By task and doc its place in the order.

    Raises:
        ConfigError: A task lacks a recorded answer to a doc, so nothing can be decided.
    """

    def __init__(
        self,
        pack: Path,
        manifest: Manifest,
        grading: Grading,
        requests: Mapping[str, Mapping[int, Sequence[Request]]],
        rules: StopRules,
        seed: str,
    ) -> None:
        self._grading, self._requests = grading, requests
        baseline = read_baseline(pack, manifest)
        self._tasks: dict[str, _Task] = {}
        for name in rules.tasks:
            # Of a baseline of several runs, docs count with their mean. How the runs differ is no part of a round.
            runs = [
                tuple(doc for doc in run.docs if doc.doc_id in requests[name]) for run in baseline.graded.all_runs(name)
            ] or [()]
            docs = runs[0]
            scores = _metric(runs, manifest.tasks[name])
            if scores is None or len(scores.doc_indices) < len(requests[name]):
                why = baseline.missing_reasons.get(name, "some docs have no recorded answer")
                raise ConfigError(
                    f"{name} cannot be stopped early: {why}",
                    where="--stop-when-decided",
                    hint="Leave the task out with --tasks, or run all of its docs",
                )
            self._tasks[name] = _Task(scores.metric_key, docs, scores, {})
        shared = find_shared_questions([task.docs for task in self._tasks.values()])
        self._plan = plan_rounds(
            [
                replace(
                    list_task_docs(name, task.docs, task.recorded, shared),
                    margin=rules.margins.get(name),
                )
                for name, task in self._tasks.items()
            ],
            seed,
            weighting=rules.weights,
        )
        self.places = {doc: place for place, doc in enumerate(self._plan.order)}
        self._gate = Sequential(self._plan, rules.margin)
        self.margin = rules.margin

    def batches(self) -> Iterator[list[Request]]:
        """The next requests, until DON'T SHIP is proven or all are asked. Call `grade_new` between batches."""
        left = iter(self._plan.order)
        docs_asked = 0
        while self._gate.read_state().outcome is None:
            docs = list(itertools.islice(left, max(_FIRST, int(docs_asked * _GROWTH))))
            if not docs:
                return
            docs_asked += len(docs)
            # A look counts whole rounds, in whatever order their docs were asked.
            yield keep_beginnings_together(
                [request for task, doc in docs for request in self._requests[task][int(doc)]]
            )

    @property
    def early_docs(self) -> list[tuple[str, int]]:
        """The first half of the docs that have a new answer, in the order in which they were asked."""
        done = [(task, int(doc)) for task, doc in self._plan.order if int(doc) in self._tasks[task].new]
        return done[: (len(done) + 1) // 2]

    def grade_new(self, answers: Answers) -> State:
        """Grade new answers, and decide.

        Args:
            answers: All answers so far. Requests that failed for good count as lost.
        """
        for name, task in self._tasks.items():
            fresh: dict[int, list[Answer]] = {}
            for doc, requests in self._requests[name].items():
                if doc in task.new:
                    continue
                keys = [answers.key(request.id, request.sha256) for request in requests]
                if all(key in answers.by_key for key in keys):
                    fresh[doc] = [answers.by_key[key] for key in keys]
                elif any(key in answers.failed for key in keys):
                    self._gate.add_doc(name, doc, _share(task, doc), 0.0)
            if fresh:
                report_progress(f"{name}: looking at {len(fresh):,} new answers")
                evaluated = self._grading.evaluate(name, fresh)
                lower = ResultsFile(Path(), {"configs": {}, **evaluated.results}).lower_is_better(name)
                task.recorded = replace(task.recorded, lower_is_better=task.metric_key.partition(",")[0] in lower)
                task.new.update({doc.doc_id: doc for doc in read_graded(evaluated.samples)})
                self._add(name, task, fresh)
        return self._gate.read_state()

    def _add(self, name: str, task: _Task, fresh: Mapping[int, object]) -> None:
        # Scores with unequal weights of docs need all docs; unasked docs use the recorded answers.
        mixed = [task.new.get(doc.doc_id, doc) for doc in task.docs]
        scores = ScoredRun([mixed]).scores(task.metric_key)
        scores = replace(scores, lower_is_better=task.recorded.lower_is_better) if scores else None
        contributions = dict(zip(scores.doc_indices, scores.comparable_contributions, strict=True)) if scores else {}
        for position, recorded in zip(task.recorded.doc_indices, task.recorded.comparable_contributions, strict=True):
            doc = task.docs[position].doc_id
            if doc in fresh:
                self._gate.add_doc(name, doc, recorded, contributions.get(position, 0.0))

    @property
    def docs(self) -> int:
        """Number of docs in the plan."""
        return len(self._plan.order)


def _share(task: _Task, doc: int) -> float:
    places = {task.docs[position].doc_id: at for at, position in enumerate(task.recorded.doc_indices)}
    return task.recorded.comparable_contributions[places[doc]]


def _metric(runs: Sequence[Sequence[DocResult]], entry: TaskEntry) -> Scores | None:
    """The metric of the drop, chosen as in report: a metric with a published score, else the verdict."""
    published = sorted(entry.reference_scores, key=lambda number: not number.same_settings)
    for metric_key in (*(number.metric for number in published), entry.primary_metric):
        scores = ScoredRun(runs).scores(metric_key)
        if scores is not None:
            return scores
    return None


def list_task_docs(name: str, docs: Sequence[DocResult], recorded: Scores, shared: frozenset[str]) -> PairableDocs:
    """Describe a task for a plan.

    Args:
        name: Its name.
        docs: Its docs, as the baseline answered them.
        recorded: Their scores, in the metric of the drop.
        shared: See `doc_results.find_shared_questions`.
    """
    scored = [docs[position] for position in recorded.doc_indices]
    right = ScoredRun([[_all_right(doc) for doc in docs]]).scores(recorded.metric_key)
    clusters = find_cluster_names(name, scored, shared)
    return PairableDocs(
        name,
        [doc.doc_id for doc in scored],
        labels=recorded.labels,
        clusters=None if clusters is None else [str(cluster) for cluster in clusters],
        reach=None if right is None or recorded.averaging in ("mean", "macro") else right.paired_contributions,
    )


def _all_right(doc: DocResult) -> DocResult:
    """A doc with every verdict right. Its contribution is the largest possible difference."""
    answers = {
        name: replace(answer, metrics={metric: _right(value) for metric, value in answer.metrics.items()})
        for name, answer in doc.filter_results.items()
    }
    return replace(doc, filter_results=answers)


def _right(value: Any) -> Any:
    if isinstance(value, bool):
        return True
    if isinstance(value, tuple):
        return tuple(part if isinstance(part, str) else _right(part) for part in value)
    return 1.0 if isinstance(value, (int, float)) else value

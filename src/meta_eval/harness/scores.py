"""Computes scores of docs in a metric. The logged value of a doc shows how a metric is averaged: a number over docs; a
number with a subtask first within, then over subtasks; verdicts on instructions over all instructions; strict and loose
verdicts of IFEval as the mean of its four accuracies. Every average is compared with lm-eval's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, cast

from meta_eval import stats
from meta_eval.base.thresholds import SAME_VALUE
from meta_eval.harness.doc_results import (
    LOWER_IS_BETTER,
    UNBOUNDED_METRICS,
    DocResult,
    MetricValue,
    PerplexityParts,
    ResultsError,
)

if TYPE_CHECKING:
    from meta_eval.harness.results_file import ResultsFile
    from meta_eval.harness.sample_files import SamplesFile

_Averaging = Literal["mean", "macro", "pooled", "mean of four"]

_NUMBERS = frozenset((float, int, bool))


@dataclass(frozen=True, slots=True)
class Scores:
    """The values of a metric under a filter."""

    metric_key: str
    """``metric,filter``, as lm-eval writes it."""

    averaging: _Averaging
    """How they are averaged."""

    doc_indices: tuple[int, ...]
    """Indices of the docs with the metric."""

    contributions: tuple[float, ...]
    """The contribution of each doc; their average is the score."""

    labels: tuple[str | None, ...] | None
    """The subtask of each doc, if the average is over subtasks."""

    doc_scores: tuple[float, ...]
    """The metric of each doc, 0 to 1; differs from ``contributions`` if docs have different weights."""

    paired_contributions: tuple[float, ...]
    """Contributions for comparing two runs over the same docs: a doc with the same answers has difference 0. They
    differ from ``contributions`` if docs have different weights. See `stats.instruction_shares`."""

    clusters: tuple[Hashable, ...] | None = None
    """The cluster of each doc, as `Doc.cluster`; None if all docs are independent."""

    lower_is_better: bool = False
    """Whether a lower score is the better one."""

    @property
    def verdicts(self) -> tuple[float, ...]:
        """The quality of each doc's answer, 1 for best: its value, inverted if lower is better."""
        return tuple(1 - value for value in self.doc_scores) if self.lower_is_better else self.doc_scores

    @property
    def comparable_contributions(self) -> tuple[float, ...]:
        """The shares, inverted if lower is better, so that lower is always worse."""
        return (
            tuple(1 - share for share in self.paired_contributions)
            if self.lower_is_better
            else self.paired_contributions
        )

    @property
    def value(self) -> float:
        """The score, 0 to 1."""
        return stats.macro_mean(self.contributions, self.labels) if self.labels else stats.mean(self.contributions)

    @property
    def interval(self) -> stats.Interval:
        """The interval of the score at `LEVEL`, clustered."""
        return stats.score_interval(self.contributions, self.labels, clusters=self.clusters)


def compute_scores(docs: Sequence[DocResult], metric_key: str, lower_is_better: Container[str] = ()) -> Scores | None:
    """Compute the scores of docs in ``metric,filter``; None if no doc has it or it is not a share (perplexity, BLEU).

    Args:
        docs: The docs.
        metric_key: The metric and its filter.
        lower_is_better: Metrics where lower is better.
    """
    metric, _, filter_name = metric_key.partition(",")
    doc_indices: list[int] = []
    values: list[MetricValue] = []
    for index, doc in enumerate(docs):
        answer = doc.filter_results.get(filter_name)
        if answer is not None and metric in answer.metrics:
            doc_indices.append(index)
            values.append(answer.metrics[metric])
    all_numbers = _NUMBERS.issuperset(map(type, values))  # the usual case, found faster
    averagings = {_find_averaging(value) for value in (values[:1] if all_numbers else values)}
    averaging = averagings.pop() if len(averagings) == 1 and metric not in UNBOUNDED_METRICS else None
    if averaging is None:
        return None
    scored = replace(
        _scores(metric_key, averaging, doc_indices, values),
        clusters=_clusters([docs[at] for at in doc_indices]),
        lower_is_better=metric in lower_is_better,
    )
    return scored if all(0 <= value <= 1 for value in set(scored.doc_scores)) else None


def is_fraction(docs: Sequence[DocResult], metric_key: str) -> bool:
    """Whether `compute_scores` gives scores, told without them in the usual case of plain numbers."""
    metric, _, filter_name = metric_key.partition(",")
    results = [doc.filter_results.get(filter_name) for doc in docs]
    values = {result.metrics[metric] for result in results if result is not None and metric in result.metrics}
    if values and _NUMBERS.issuperset(map(type, values)):
        return metric not in UNBOUNDED_METRICS and all(0 <= value <= 1 for value in values)  # type: ignore[operator]
    return compute_scores(docs, metric_key) is not None


def _clusters(docs: Sequence[DocResult]) -> tuple[Hashable, ...] | None:
    if {doc.cluster for doc in docs} <= {None}:
        return None
    return tuple(doc.doc_id if doc.cluster is None else doc.cluster for doc in docs)


def list_metric_keys(docs: Sequence[DocResult]) -> tuple[str, ...]:
    """List every ``metric,filter`` of a run, in lm-eval's order."""
    return tuple(
        dict.fromkeys(
            f"{metric},{name}"
            for name, *metrics in dict.fromkeys(
                [(name, *answer.metrics) for doc in docs for name, answer in doc.filter_results.items()]
            )
            for metric in metrics
        )
    )


def leaves_unit_interval(docs: Sequence[DocResult], metric_key: str) -> bool:
    """Whether a doc has a number below 0 or above 1, as the points of a rubric may be. The metric is no share then,
    even where its mean is from 0 to 1."""
    metric, _, filter_name = metric_key.partition(",")
    answers = (doc.filter_results.get(filter_name) for doc in docs)
    values = (answer.metrics.get(metric) for answer in answers if answer is not None)
    return any(isinstance(value, float | int) and math.isfinite(value) and not 0 <= value <= 1 for value in values)


def check_averages(
    task: str,
    samples: SamplesFile,
    results: ResultsFile,
    skip_damaged: bool,
    on_note: Callable[[str], None],
    *,
    is_pack_task: bool,
    is_recorded_task: bool = False,
) -> tuple[str, ...]:
    """Check that samples and results of an invocation agree on docs, filters and averages.

    If damage is to be skipped, missing docs or filters are only a note.

    Returns:
        The ``metric,filter`` with the task's own aggregation; their values are removed from the docs.

    Raises:
        ResultsError: They disagree.
    """
    where, hint = str(samples.path), "Take the files of one run that ended"
    aggregates = results.aggregates(task)
    if not aggregates:
        on_note(f"{task}: {results.path} has no score of it, so its samples are not checked against one")
    missing = []
    effective = results.count(task, "effective")
    # With --samples, lm-eval up to 0.4.11 counts docs that it did not run; the hash of all samples is more reliable.
    has_all_samples = samples.task_hash is not None and samples.task_hash == results.task_hash(task)
    if effective is not None and effective != len(samples.docs) and not has_all_samples:
        missing.append(f"holds {len(samples.docs)} docs, and {results.path} says {effective}")
    averaged = dict.fromkeys(metric_key.partition(",")[2] for metric_key in aggregates)
    if absent := [name for name in averaged if name not in samples.filters]:
        missing.append(f"has nothing of the filter {', '.join(absent)}, of which {results.path} has averages")
    if missing and not skip_damaged:
        raise ResultsError(missing[0], where=where, hint=hint)
    if missing or samples.skipped:
        for problem in missing:
            on_note(f"{where}: {problem}")
        on_note(f"{task}: not checked against lm-eval's averages, because docs or filters are missing")
        return ()
    logged, plain = set(list_metric_keys(samples.docs)), results.aggregations(task)
    is_pack_task = is_pack_task or any(doc.prompt_matches is not None for doc in samples.docs)
    is_pack_task = is_pack_task and not is_recorded_task  # the aggregation of a record's tasks is unknown
    custom_aggregation = []
    for metric_key, aggregate in aggregates.items():
        scores = compute_scores(samples.docs, metric_key) if metric_key in logged else None
        if scores is None or math.isclose(scores.value, aggregate.value, abs_tol=SAME_VALUE, rel_tol=0):
            continue
        disagreement = (
            f"{metric_key} is {scores.value:.6f} over these samples, and {aggregate.value:.6f} in {results.path}"
        )
        if is_pack_task or plain.get(metric_key.partition(",")[0]) == "mean":
            raise ResultsError(disagreement, where=where, hint=hint)
        on_note(f"{task}: {disagreement}: the task has its own aggregation, so lm-eval's average is used")
        custom_aggregation.append(metric_key)
    for doc in samples.docs:
        for metric, _, name in (metric_key.partition(",") for metric_key in custom_aggregation):
            if name in doc.filter_results:
                doc.filter_results[name].metrics.pop(metric, None)
    return tuple(custom_aggregation)


def check_log_scores(task: str, samples: SamplesFile, scores: Mapping[str, float]) -> None:
    """Check that the means of a log are those of its verdicts.

    Raises:
        ResultsError: One is another.
    """
    for metric_key, value in scores.items():
        found = compute_scores(samples.docs, metric_key)
        if found is not None and not math.isclose(found.value, value, abs_tol=SAME_VALUE, rel_tol=0):
            raise ResultsError(
                f"{task}: {metric_key} is {found.value:.6f} over its verdicts, and {value:.6f} by its own score",
                where=str(samples.path), hint="Take the log as it was written",
            )  # fmt: skip


def _find_averaging(value: MetricValue) -> _Averaging | None:
    if isinstance(value, PerplexityParts):
        return None
    if not isinstance(value, tuple):
        return "mean"
    if isinstance(value[-1], tuple):
        return "mean of four"
    return "pooled" if isinstance(value[-1], bool) else "macro"


def _scores(
    metric_key: str, averaging: _Averaging, doc_indices: Sequence[int], values: Sequence[MetricValue]
) -> Scores:
    contributions: Sequence[float]
    doc_scores: Sequence[float]
    paired_contributions: Sequence[float] | None = None
    labels: tuple[str | None, ...] | None = None
    if averaging == "mean":
        contributions = doc_scores = cast(Sequence[float], values)
    elif averaging == "macro":
        pairs = cast(Sequence[tuple[str | None, float]], values)
        labels = tuple(label for label, _ in pairs)
        contributions = doc_scores = [value for _, value in pairs]
    elif averaging == "pooled":
        verdicts = cast(Sequence[tuple[bool, ...]], values)
        counts = [(sum(doc), len(doc)) for doc in verdicts]
        contributions, paired_contributions = stats.pooled_contributions(counts), stats.instruction_shares(counts)
        doc_scores = [sum(doc) / len(doc) for doc in verdicts]
    else:
        strict_and_loose = cast(Sequence[tuple[tuple[bool, ...], tuple[bool, ...]]], values)
        contributions, paired_contributions = (
            stats.mean_of_four_contributions(strict_and_loose),
            stats.mean_of_four_shares(strict_and_loose),
        )
        doc_scores = [sum(all(way) + sum(way) / len(way) for way in doc) / 4 for doc in strict_and_loose]
    paired = contributions if paired_contributions is None else paired_contributions
    return Scores(
        metric_key, averaging, tuple(doc_indices), tuple(contributions), labels, tuple(doc_scores), tuple(paired)
    )


class ScoredRun:
    """The answers of one model to the docs of a task, with every score of them computed once.

    Attributes:
        runs: The docs of each run, the newest run first; the same docs in the same order.
        lower_is_better: The metrics of which less is better.
        counted: What was counted of the docs of a run, by run and by what was asked.
    """

    def __init__(self, runs: Sequence[Sequence[DocResult]], lower_is_better: frozenset[str] = LOWER_IS_BETTER) -> None:
        self.runs, self.lower_is_better = tuple(runs), lower_is_better
        self._known: dict[tuple[int, str], Scores | None] = {}
        self._averaged: dict[str, Scores | None] = {}
        self.counted: dict[Hashable, tuple[int, int]] = {}
        self._metrics: dict[int, set[str]] = {}

    @property
    def docs(self) -> Sequence[DocResult]:
        """Those of the newest run."""
        return self.runs[0] if self.runs else ()

    def list_metrics(self, run: int) -> set[str]:
        """The names of all metrics of the docs of a run."""
        if run not in self._metrics:
            results = [result for doc in self.runs[run] for result in doc.filter_results.values()]
            self._metrics[run] = {name for names in {tuple(result.metrics) for result in results} for name in names}
        return self._metrics[run]

    def scores_of_run(self, run: int, metric_key: str) -> Scores | None:
        """The scores of one run; see `compute_scores`."""
        if (run, metric_key) not in self._known:
            self._known[run, metric_key] = compute_scores(self.runs[run], metric_key, self.lower_is_better)
        return self._known[run, metric_key]

    def scores_by_run(self, metric_key: str) -> list[Scores]:
        """The scores of every run; none unless every run has them of the same docs."""
        all_runs = [
            scores for run in range(len(self.runs)) if (scores := self.scores_of_run(run, metric_key)) is not None
        ]
        docs = {(scores.doc_indices, scores.labels) for scores in all_runs}
        return all_runs if len(all_runs) == len(self.runs) and len(docs) == 1 else []

    def scores(self, metric_key: str) -> Scores | None:
        """The mean of all runs, doc by doc."""
        if metric_key not in self._averaged:
            scores_by_run = self.scores_by_run(metric_key)
            self._averaged[metric_key] = _averaged(scores_by_run) if scores_by_run else None
        return self._averaged[metric_key]

    def select_docs(self, places: Sequence[int]) -> ScoredRun:
        """The same of these docs alone, in this order."""
        if list(places) == list(range(len(self.docs))):
            return self
        return ScoredRun([[docs[place] for place in places] for docs in self.runs], self.lower_is_better)


def _averaged(scores_by_run: Sequence[Scores]) -> Scores:
    if len(scores_by_run) == 1:
        return scores_by_run[0]
    contributions, doc_scores, paired = (
        tuple(stats.average_runs([getattr(run_scores, name) for run_scores in scores_by_run]).tolist())
        for name in ("contributions", "doc_scores", "paired_contributions")
    )
    return replace(scores_by_run[0], contributions=contributions, doc_scores=doc_scores, paired_contributions=paired)

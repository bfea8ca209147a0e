"""Computes scores of docs in a metric. The logged value of a doc shows how a metric is averaged: a number over docs; a
number with a subtask first within, then over subtasks; verdicts on instructions over all instructions; strict and loose
verdicts of IFEval as the mean of its four accuracies. Every average is compared with lm-eval's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

from meta_eval import stats
from meta_eval.results.doc_results import Doc, ResultsError
from meta_eval.results.metrics import NO_SHARE, Value, Weighted
from meta_eval.results.results_file import ResultsFile
from meta_eval.results.sample_files import SamplesFile
from meta_eval.thresholds import SAME_VALUE

Kind = Literal["mean", "macro", "pooled", "mean of four"]


@dataclass(frozen=True, slots=True)
class Scores:
    """The values of a metric under a filter.

    Attributes:
        spec: ``metric,filter``, as lm-eval writes it.
        kind: How they are averaged.
        positions: Indices of the docs with the metric.
        values: The contribution of each doc; their average is the score.
        labels: The subtask of each doc, if the average is over subtasks.
        raw: The metric of each doc, 0 to 1; differs from ``values`` if docs have different weights.
        shares: Contributions for comparing two runs over the same docs: a doc with the same answers has difference 0.
            They differ from ``values`` if docs have different weights. See `stats.instruction_shares`.
        clusters: The cluster of each doc, as `Doc.cluster`; None if all docs are independent.
        lower_is_better: Whether a lower score is the better one.
    """

    spec: str
    kind: Kind
    positions: tuple[int, ...]
    values: tuple[float, ...]
    labels: tuple[str | None, ...] | None
    raw: tuple[float, ...]
    shares: tuple[float, ...]
    clusters: tuple[Hashable, ...] | None = None
    lower_is_better: bool = False

    @property
    def verdicts(self) -> tuple[float, ...]:
        """The quality of each doc's answer, 1 for best: its value, inverted if lower is better."""
        return tuple(1 - value for value in self.raw) if self.lower_is_better else self.raw

    @property
    def good_shares(self) -> tuple[float, ...]:
        """The shares, inverted if lower is better, so that lower is always worse."""
        return tuple(1 - share for share in self.shares) if self.lower_is_better else self.shares

    @property
    def value(self) -> float:
        """The score, 0 to 1."""
        return stats.macro_mean(self.values, self.labels) if self.labels else stats.mean(self.values)

    @property
    def interval(self) -> stats.Interval:
        """The interval of the score at `LEVEL`, clustered."""
        return stats.score_interval(self.values, self.labels, clusters=self.clusters)


def compute_scores(docs: Sequence[Doc], spec: str, lower_is_better: Container[str] = ()) -> Scores | None:
    """Compute the scores of docs in ``metric,filter``; None if no doc has it or it is not a share (perplexity, BLEU).

    Args:
        docs: The docs.
        spec: The metric and its filter.
        lower_is_better: Metrics where lower is better.
    """
    metric, _, filter_name = spec.partition(",")
    positions: list[int] = []
    values: list[Value] = []
    for index, doc in enumerate(docs):
        answer = doc.answers.get(filter_name)
        if answer is not None and metric in answer.metrics:
            positions.append(index)
            values.append(answer.metrics[metric])
    kinds = {_kind(value) for value in values}
    kind = kinds.pop() if len(kinds) == 1 and metric not in NO_SHARE else None
    if kind is None:
        return None
    scored = replace(
        _scores(spec, kind, positions, values),
        clusters=_clusters([docs[at] for at in positions]),
        lower_is_better=metric in lower_is_better,
    )
    return scored if all(0 <= value <= 1 for value in scored.raw) else None


def _clusters(docs: Sequence[Doc]) -> tuple[Hashable, ...] | None:
    if all(doc.cluster is None for doc in docs):
        return None
    return tuple(doc.doc_id if doc.cluster is None else doc.cluster for doc in docs)


def list_metric_keys(docs: Sequence[Doc]) -> tuple[str, ...]:
    """List every ``metric,filter`` of a run, in lm-eval's order."""
    return tuple(
        dict.fromkeys(
            f"{metric},{name}" for doc in docs for name, answer in doc.answers.items() for metric in answer.metrics
        )
    )


def check_averages(
    task: str,
    samples: SamplesFile,
    results: ResultsFile,
    skip_damaged: bool,
    say: Callable[[str], None],
    *,
    of_pack: bool,
    of_record: bool = False,
) -> tuple[str, ...]:
    """Check that samples and results of an invocation agree on docs, filters and averages.

    If damage is to be skipped, missing docs or filters are only a notice.

    Returns:
        The ``metric,filter`` with the task's own aggregation; their values are removed from the docs.

    Raises:
        ResultsError: They disagree.
    """
    where, hint = str(samples.path), "Take the files of one run that ended"
    aggregates = results.aggregates(task)
    missing = []
    effective = results.count(task, "effective")
    # With --samples, lm-eval up to 0.4.11 counts docs that it did not run; the hash of all samples is more reliable.
    whole = samples.task_hash is not None and samples.task_hash == results.task_hash(task)
    if effective is not None and effective != len(samples.docs) and not whole:
        missing.append(f"holds {len(samples.docs)} docs, and {results.path} says {effective}")
    averaged = dict.fromkeys(spec.partition(",")[2] for spec in aggregates)
    if absent := [name for name in averaged if name not in samples.filters]:
        missing.append(f"has nothing of the filter {', '.join(absent)}, of which {results.path} has averages")
    if missing and not skip_damaged:
        raise ResultsError(missing[0], where=where, hint=hint)
    if missing or samples.skipped:
        for problem in missing:
            say(f"{where}: {problem}")
        say(f"{task}: not checked against lm-eval's averages, because docs or filters are missing")
        return ()
    logged, plain = set(list_metric_keys(samples.docs)), results.aggregations(task)
    of_pack = of_pack or any(doc.prompt_unchanged is not None for doc in samples.docs)
    of_pack = of_pack and not of_record  # the aggregation of a record's tasks is unknown
    own = []
    for spec, theirs in aggregates.items():
        ours = compute_scores(samples.docs, spec) if spec in logged else None
        if ours is None or math.isclose(ours.value, theirs.value, abs_tol=SAME_VALUE, rel_tol=0):
            continue
        both = f"{spec} is {ours.value:.6f} over these samples, and {theirs.value:.6f} in {results.path}"
        if of_pack or plain.get(spec.partition(",")[0]) == "mean":
            raise ResultsError(both, where=where, hint=hint)
        say(f"{task}: {both}: the task has its own aggregation, so lm-eval's average is used")
        own.append(spec)
    for doc in samples.docs:
        for metric, _, name in (spec.partition(",") for spec in own):
            if name in doc.answers:
                doc.answers[name].metrics.pop(metric, None)
    return tuple(own)


def _kind(value: Value) -> Kind | None:
    if isinstance(value, Weighted):
        return None
    if not isinstance(value, tuple):
        return "mean"
    if isinstance(value[-1], tuple):
        return "mean of four"
    return "pooled" if isinstance(value[-1], bool) else "macro"


def _scores(spec: str, kind: Kind, positions: Sequence[int], values: Sequence[Value]) -> Scores:
    contributions: Sequence[float]
    raw: Sequence[float]
    shares: Sequence[float] | None = None
    labels: tuple[str | None, ...] | None = None
    if kind == "mean":
        contributions = raw = cast(Sequence[float], values)
    elif kind == "macro":
        pairs = cast(Sequence[tuple[str | None, float]], values)
        labels = tuple(label for label, _ in pairs)
        contributions = raw = [value for _, value in pairs]
    elif kind == "pooled":
        verdicts = cast(Sequence[tuple[bool, ...]], values)
        counts = [(sum(doc), len(doc)) for doc in verdicts]
        contributions, shares = stats.pooled_contributions(counts), stats.instruction_shares(counts)
        raw = [sum(doc) / len(doc) for doc in verdicts]
    else:
        both = cast(Sequence[tuple[tuple[bool, ...], tuple[bool, ...]]], values)
        contributions, shares = stats.mean_of_four_contributions(both), stats.mean_of_four_shares(both)
        raw = [sum(all(way) + sum(way) / len(way) for way in doc) / 4 for doc in both]
    beside = contributions if shares is None else shares
    return Scores(spec, kind, tuple(positions), tuple(contributions), labels, tuple(raw), tuple(beside))

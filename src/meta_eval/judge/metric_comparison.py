"""All metrics of a task beside that of its drop, each with its interval and its own drop.

Tasks of chat requests have several figures that say different things, such as whether a tool was called at all. A
metric that pools verdicts over docs, as precision or F1 do, is a ratio of two sums over docs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence, Set
from dataclasses import dataclass

from meta_eval import stats
from meta_eval.harness.doc_results import COUNTED, DocResult
from meta_eval.harness.scores import list_metric_keys

# The docs of each run of a model; the same docs in the same order.
Runs = Sequence[Sequence[DocResult]]

# What a doc adds to a metric: a sum of verdicts, and their number; 0 and 0 where the metric is not about the doc.
_Counts = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class MetricComparison:
    """A metric of a task.

    Attributes:
        metric: ``metric,filter``.
        docs: Docs that it is about.
        value: Its value, 0 to 1.
        interval: Of it, at `LEVEL`.
        baseline: That of the baseline, over the docs of both; None without one.
        drop: From the baseline, positive for worse; None without one.
        drop_interval: Of the drop, at `LEVEL`.
    """

    metric: str
    docs: int
    value: float
    interval: stats.Interval
    baseline: float | None = None
    drop: float | None = None
    drop_interval: stats.Interval | None = None


def compare_metrics(
    runs: Runs,
    pair: tuple[Runs, Runs] | None,
    metric_key: str,
    lower_is_better: Set[str],
    clusters: Callable[[Sequence[DocResult]], Sequence[Hashable] | None],
    disputed: Set[str] = frozenset(),
) -> tuple[MetricComparison, ...]:
    """Compare all metrics under the filter of the drop's metric; none unless there are several.

    Args:
        runs: The candidate.
        pair: The baseline and the candidate over the same docs; None without a baseline.
        metric_key: The ``metric,filter`` of the drop.
        lower_is_better: The metrics of which less is better.
        clusters: The clusters of docs.
        disputed: Metrics that have no drop, because the files do not agree on whether less is better.
    """
    filter_name = metric_key.partition(",")[2]
    names = [
        metric
        for metric, _, name in (key.partition(",") for key in list_metric_keys(runs[0] if runs else ()))
        if name == filter_name and metric not in COUNTED
    ]
    compared = [
        _compare(runs, None if name in disputed else pair, name, filter_name, name in lower_is_better, clusters)
        for name in names
    ]
    return tuple(filter(None, compared)) if len(names) > 1 else ()


def _compare(
    runs: Runs,
    pair: tuple[Runs, Runs] | None,
    metric: str,
    filter_name: str,
    lower_is_better: bool,
    clusters: Callable[[Sequence[DocResult]], Sequence[Hashable] | None],
) -> MetricComparison | None:
    counts = _count(runs, metric, filter_name)
    if counts is None or not any(of for _, of in counts):
        return None
    used = [place for place, (_, of) in enumerate(counts) if of]
    values, docs = [counts[place] for place in used], [runs[0][place] for place in used]
    is_plain = all(of == 1 for _, of in values)
    contributions = [value for value, _ in values] if is_plain else stats.pooled_contributions(values)
    found = MetricComparison(
        f"{metric},{filter_name}",
        len(used),
        _divide(counts),
        stats.score_interval(contributions, clusters=clusters(docs)),
    )
    sides = [_count(side, metric, filter_name) for side in pair or ()]
    if pair is None or not all(side and any(of for _, of in side) for side in sides):
        return found
    baseline, candidate = (side or [] for side in sides)
    used = [place for place in range(len(baseline)) if baseline[place][1] or candidate[place][1]]
    losses = stats.ratio_losses([baseline[place] for place in used], [candidate[place] for place in used])
    names = clusters([pair[1][0][place] for place in used])
    drop = stats.paired_drop(losses, [0.0] * len(losses), clusters=names)
    drop = drop.invert() if lower_is_better else drop
    return MetricComparison(
        found.metric, found.docs, found.value, found.interval, _divide(baseline), drop.value, drop.interval()
    )


def _count(runs: Runs, metric: str, filter_name: str) -> _Counts | None:
    """What each doc adds, the mean over runs; None if a value is neither a share nor a list of verdicts."""
    by_run: list[_Counts] = []
    for docs in runs:
        counts: _Counts = []
        for doc in docs:
            result = doc.filter_results.get(filter_name)
            value = result.metrics.get(metric) if result else None
            if value is None:
                counts.append((0.0, 0.0))
            elif isinstance(value, float) and 0 <= value <= 1:
                counts.append((value, 1.0))
            elif isinstance(value, tuple) and all(isinstance(verdict, bool) for verdict in value):
                counts.append((float(sum(map(bool, value))), float(len(value))))
            else:
                return None
        by_run.append(counts)
    return [
        (math.fsum(value for value, _ in of_doc) / len(by_run), math.fsum(of for _, of in of_doc) / len(by_run))
        for of_doc in zip(*by_run, strict=True)
    ]


def _divide(counts: _Counts) -> float:
    return math.fsum(value for value, _ in counts) / math.fsum(of for _, of in counts)

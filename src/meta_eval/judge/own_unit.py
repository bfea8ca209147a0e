"""The drop of a task that is no share from 0 to 1 (a perplexity, BLEU, a judge's score), in the unit of its metric.

A mean of shares cannot include it, so it has its own interval and limit. The limit is its margin, in its own unit; else
a tenth of the baseline's score. Where lm-eval's average is the mean over docs, or the exponential of a mean likelihood,
the drop is paired doc by doc with Student's interval (clustered). Else it is the difference of the two averages, with
their standard errors as if they were independent, which is too wide and safe.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from meta_eval import stats
from meta_eval.base.thresholds import ALPHA, LEVEL, LEVEL_TEXT, OWN_UNIT_LIMIT, SAME_VALUE, Outcome
from meta_eval.harness.doc_results import DocResult, MetricValue, PerplexityParts
from meta_eval.harness.lm_eval_run import TaskRun
from meta_eval.harness.scores import leaves_unit_interval, list_metric_keys
from meta_eval.judge.doc_pairs import Clusters
from meta_eval.stats import Interval
from meta_eval.stats.clustered_mean import average_docs
from meta_eval.stats.intervals import normal_quantile, t_quantile

_Runs = Sequence[Sequence[DocResult]]

# The largest exponent of a perplexity, and the largest value of a doc, whose sums and squares are numbers.
_MOST, _LARGEST = 300.0, 1e100


@dataclass(frozen=True, slots=True)
class OwnUnitDrop:
    """A drop in the unit of its metric."""

    metric: str
    """``metric,filter``."""

    baseline: float
    """The score of the baseline."""

    candidate: float
    """That of the candidate."""

    value: float
    """The drop, positive for worse."""

    interval: Interval | None
    """Of the drop, at `LEVEL`; None without docs and standard errors."""

    p: float
    """Two-sided p value of a true drop equal to ``limit``; 1 unless the interval is beyond it."""

    limit: float
    """The largest allowed drop."""

    has_margin: bool
    """Whether ``limit`` is a stated margin; else it is a tenth of the baseline's score."""

    lower_is_better: bool
    """Whether a lower score is better."""

    outcome: Outcome = "undecided"
    """``worse`` if it is proven larger than the limit (Holm over such tasks), ``within margin`` if the whole interval
    is below a stated margin, else ``undecided``.
    """

    def describe(self) -> str:
        """``judge_score,none fell from 79.6 to 39.6, a drop of 40 (95 % interval 39.5 to 40.5), margin 2``."""
        moved = "rose" if self.candidate > self.baseline else "fell" if self.candidate < self.baseline else "stayed"
        scores = f"from {self.baseline:.4g} to {self.candidate:.4g}" if moved != "stayed" else f"at {self.baseline:.4g}"
        bounds = f"{LEVEL_TEXT} interval {_bounds(self.interval)}" if self.interval else "no standard error is known"
        limit = f"margin {self.limit:g}" if self.has_margin else f"a tenth of the baseline is {self.limit:.3g}"
        return f"{self.metric} {moved} {scores}, a drop of {_signed(self.value)} ({bounds}), {limit}"


class _Estimate(NamedTuple):
    """Scores of baseline and candidate, their drop, a function from the deviation in standard errors to the drop that
    far off, and degrees of freedom; None for those of a normal distribution."""

    baseline: float
    candidate: float
    at: Callable[[float], float] | None
    freedom: float | None


def measure_own_unit(
    baseline_runs: Sequence[TaskRun],
    candidate_runs: Sequence[TaskRun],
    pair: tuple[_Runs, _Runs] | None,
    first: str | None,
    lower_is_better: frozenset[str],
    margin: float | None,
    clusters: Clusters,
) -> OwnUnitDrop | None:
    """Measure the drop of a task in its first metric that is no share; None where there is none that both have.

    Args:
        baseline_runs, candidate_runs: The runs of each side; no baseline runs where it is what was recorded.
        pair: The docs of each run of baseline and candidate, the same docs in one order.
        first: The ``metric,filter`` that goes before others.
        lower_is_better: The metrics of which less is better.
        margin: The largest allowed drop, in the metric's unit.
        clusters: The clusters of docs.
    """
    aggregates = [item for run in (candidate_runs[0], *baseline_runs[:1]) for item in run.aggregates.items()]
    docs = candidate_runs[0].docs
    keys = [key for key, aggregate in aggregates if not aggregate.is_fraction]
    keys += [key for key in list_metric_keys(docs) if leaves_unit_interval(docs, key)]
    for metric_key in dict.fromkeys([*([first] if first else ()), *keys]):
        estimate = _pair_docs(metric_key, baseline_runs, candidate_runs, pair, clusters) or _compare_averages(
            metric_key, baseline_runs, candidate_runs
        )
        if estimate:
            lower = metric_key.partition(",")[0] in lower_is_better
            return _make_drop(metric_key, estimate, margin, lower_is_better=lower)
    return None


def explain_scales(baseline: TaskRun, candidate: TaskRun, metric_keys: Iterable[str]) -> str | None:
    """That one of these metrics is a share on one side and a percent on the other, a clause; None where none is.

    A side of shares has a value above 0 and none above 1; a side of percents has one above 10 and none above 100.
    """
    for key in metric_keys:
        a, b = (_list_numbers(side, key) for side in (baseline, candidate))
        if a and b and min(*a, *b) >= 0 and any(0 < max(x) <= 1 and 10 < max(y) <= 100 for x, y in ((a, b), (b, a))):
            means = [f"{stats.mean(side):.4g} in {name}" for name, side in (("A", a), ("B", b))]
            return f"{key} is {' and '.join(means)}: a share on one side and a percent on the other"
    return None


def _list_numbers(run: TaskRun, metric_key: str) -> list[float]:
    """The values of its docs, else its average; empty where they are no numbers."""
    values = _read_values(run.docs, metric_key) if run.docs else None
    if values is None:
        aggregate = run.aggregates.get(metric_key)
        values = [aggregate.value] if aggregate and not run.docs else []
    return [value for value in values if isinstance(value, float) and math.isfinite(value)]


def decide_own_units(drops: Mapping[str, OwnUnitDrop]) -> dict[str, Outcome]:
    """The outcome of each task: a drop beyond its limit by Holm's correction over these tasks is worse."""
    corrected = stats.correct_by_holm([drop.p for drop in drops.values()])
    outcomes: dict[str, Outcome] = {}
    for (name, drop), p in zip(drops.items(), corrected, strict=True):
        is_within = drop.has_margin and drop.interval is not None and drop.interval.upper < drop.limit
        outcomes[name] = "worse" if p < ALPHA else "within margin" if is_within else "undecided"
    return outcomes


def _make_drop(metric_key: str, estimate: _Estimate, margin: float | None, *, lower_is_better: bool) -> OwnUnitDrop:
    sign = -1 if lower_is_better else 1
    value = sign * (estimate.baseline - estimate.candidate)
    limit = OWN_UNIT_LIMIT * abs(estimate.baseline) if margin is None else margin
    if estimate.at is None:
        p, interval = (0.0 if value > limit else 1.0), None
    else:
        reach = normal_quantile(LEVEL) if estimate.freedom is None else t_quantile(LEVEL, estimate.freedom)
        ends = [sign * (estimate.baseline - estimate.at(deviation)) for deviation in (-reach, reach)]
        interval = Interval(min(ends), max(ends))
        p = _find_p(estimate, limit, sign) if interval.lower > limit else 1.0
    return OwnUnitDrop(
        metric_key,
        estimate.baseline,
        estimate.candidate,
        value,
        interval,
        p,
        limit,
        margin is not None,
        lower_is_better,
    )


def _find_p(estimate: _Estimate, limit: float, sign: int) -> float:
    """The two-sided p value of a true drop of ``limit``: the level at which the interval touches it."""
    from scipy.special import ndtr, stdtr

    assert estimate.at is not None  # noqa: S101 (the caller has its interval)
    low, high = 0.0, 40.0
    for _ in range(60):
        middle = (low + high) / 2
        ends = [sign * (estimate.baseline - estimate.at(deviation)) for deviation in (-middle, middle)]
        low, high = (middle, high) if min(ends) > limit else (low, middle)
    return float(2 * (ndtr(-low) if estimate.freedom is None else stdtr(estimate.freedom, -low)))


def _pair_docs(
    metric_key: str,
    baseline_runs: Sequence[TaskRun],
    candidate_runs: Sequence[TaskRun],
    pair: tuple[_Runs, _Runs] | None,
    clusters: Clusters,
) -> _Estimate | None:
    """The estimate doc by doc; None unless lm-eval's averages are those of the docs."""
    if pair is None or not pair[1] or not pair[1][0]:
        return None
    if not all(_is_mean(run, metric_key) for run in (*baseline_runs, *candidate_runs)):
        return None
    first, second = (_average([_read_values(docs, metric_key) for docs in runs]) for runs in pair)
    if first is None or second is None:
        return None
    used = [place for place, doc in enumerate(zip(first, second, strict=True)) if all(map(_is_finite, doc))]
    before, after = ([side[place] for place in used] for side in (first, second))
    weights = _list_weights(before)
    # Otherwise words or bytes are counted in another way, and the docs are not alike.
    if not used or type(before[0]) is not type(after[0]) or weights != _list_weights(after):
        return None
    scores = _summarise(before, metric_key), _summarise(after, metric_key)
    names = clusters([pair[1][0][place] for place in used])
    size = math.fsum(weights) / len(weights)
    rises = [_amount(b) - _amount(a) for a, b in zip(before, after, strict=True)]
    rise = math.fsum(rises) / math.fsum(weights)
    average = average_docs(
        [(value - rise * weight) / size for value, weight in zip(rises, weights, strict=True)], None, names
    )
    if not average.freedom:
        return _Estimate(scores[0], scores[1], None, None)
    error = math.sqrt(average.variance)

    def at(deviation: float) -> float:
        return _transform(
            _mean(before) + rise + deviation * error, metric_key, is_parts=isinstance(before[0], PerplexityParts)
        )

    return _Estimate(scores[0], scores[1], at, average.freedom)


def _is_mean(run: TaskRun, metric_key: str) -> bool:
    """Whether lm-eval's average of a run, where it is known, is that of its docs."""
    values, aggregate = _average([_read_values(run.docs, metric_key)]), run.aggregates.get(metric_key)
    known = [value for value in values or () if _is_finite(value)]
    if not known or aggregate is None:
        return bool(known)
    return math.isclose(_summarise(known, metric_key), aggregate.value, rel_tol=SAME_VALUE, abs_tol=SAME_VALUE)


def _compare_averages(
    metric_key: str, baseline_runs: Sequence[TaskRun], candidate_runs: Sequence[TaskRun]
) -> _Estimate | None:
    sides = [[run.aggregates.get(metric_key) for run in runs] for runs in (baseline_runs, candidate_runs)]
    known = [[aggregate for aggregate in side if aggregate is not None] for side in sides]
    if not all(known) or any(len(side) < len(part) for side, part in zip(known, sides, strict=True)):
        return None
    before, after = (stats.mean([aggregate.value for aggregate in side]) for side in known)
    errors = [aggregate.stderr for side in known for aggregate in side]
    if None in errors:
        return _Estimate(before, after, None, None)
    # Runs of one side share their docs, so their mean is no more precise than the least precise of them.
    error = math.hypot(*(max(aggregate.stderr or 0.0 for aggregate in side) for side in known))
    return _Estimate(before, after, lambda deviation: after + deviation * error, None)


def _read_values(docs: Sequence[DocResult], metric_key: str) -> list[MetricValue] | None:
    """The value of each doc: numbers, or the parts of a perplexity; None unless all have one kind."""
    metric, _, name = metric_key.partition(",")
    values = [
        result.metrics[metric] for doc in docs if (result := doc.filter_results.get(name)) and metric in result.metrics
    ]
    if not values or len(values) < len(docs):
        return None
    if metric == "perplexity":  # of each doc the log-likelihood of its text
        values = [PerplexityParts(value, 1.0) if isinstance(value, float) else value for value in values]
    kinds = {type(value) for value in values}
    return values if kinds in ({float}, {PerplexityParts}) else None


def _average(by_run: Sequence[list[MetricValue] | None]) -> list[float | PerplexityParts] | None:
    """The mean over runs, doc by doc."""
    averaged: list[float | PerplexityParts] = []
    known = [values for values in by_run if values is not None]
    if not known or len(known) < len(by_run):
        return None
    for values in zip(*known, strict=True):
        amounts = [_amount(value) for value in values if isinstance(value, (float, PerplexityParts))]
        mean = math.fsum(amounts) / len(amounts) if all(map(math.isfinite, amounts)) else math.nan
        first = values[0]
        averaged.append(PerplexityParts(-mean, first.weight) if isinstance(first, PerplexityParts) else mean)
    return averaged


def _amount(value: float | PerplexityParts) -> float:
    """What a doc adds to the sum: its value, or its negative log-likelihood."""
    return -value.log_likelihood if isinstance(value, PerplexityParts) else value


def _is_finite(value: float | PerplexityParts) -> bool:
    return abs(_amount(value)) <= _LARGEST and not (isinstance(value, PerplexityParts) and value.weight <= 0)


def _mean(values: Sequence[float | PerplexityParts]) -> float:
    return math.fsum(map(_amount, values)) / math.fsum(_list_weights(values))


def _list_weights(values: Sequence[float | PerplexityParts]) -> list[float]:
    """The words or bytes of each doc; 1 of a doc that has a number alone."""
    return [value.weight if isinstance(value, PerplexityParts) else 1.0 for value in values]


def _summarise(values: Sequence[float | PerplexityParts], metric_key: str) -> float:
    return _transform(_mean(values), metric_key, is_parts=isinstance(values[0], PerplexityParts))


def _transform(mean: float, metric_key: str, *, is_parts: bool) -> float:
    """The score from the mean of docs: itself, or of nats per word or byte the perplexity or bits."""
    if not is_parts:
        return mean
    return mean / math.log(2) if metric_key.startswith("bits_per_byte,") else math.exp(min(mean, _MOST))


def _bounds(interval: Interval) -> str:
    return f"{_signed(interval.lower)} to {_signed(interval.upper)}"


def _signed(value: float) -> str:
    return f"{value + 0.0:.3g}".replace("-", chr(0x2212))

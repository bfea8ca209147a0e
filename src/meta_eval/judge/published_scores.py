"""The scores of a task, its published numbers, and why a score cannot be compared with a number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from meta_eval.base.thresholds import MIN_BASELINE_DOCS, ROUNDING
from meta_eval.harness.lm_eval_run import TaskRun
from meta_eval.harness.metrics import UNBOUNDED_METRICS
from meta_eval.harness.results_file import Aggregate
from meta_eval.harness.scores import ScoredRun
from meta_eval.judge.alarms import explain_unfinished, find_other_settings
from meta_eval.judge.decision import BaselineDifference, LmEvalAverage, ReferenceScore, Score
from meta_eval.judge.pair import find_verdict_metric, list_fraction_metrics
from meta_eval.pack.manifest import KnownGapEntry, ReferenceScoreEntry, TaskEntry


def list_scores(
    name: str, result: TaskRun, candidate: ScoredRun, entry: TaskEntry | None,
    baseline: ScoredRun | None, metric_key: str | None = None,
) -> tuple[Score, ...]:  # fmt: skip
    """The scores of a task with its published numbers; without a pack the one in the metric of its drop.

    Args:
        name: The task.
        result: What was read of it.
        candidate: The scores of its docs.
        entry: What the pack says of it; None without a pack.
        baseline: The recorded answers; None where there are none.
        metric_key: The ``metric,filter`` of the drop; None where there is none.
    """
    published = [number for number in entry.reference_scores if is_fraction(number)] if entry else []
    if published:
        published_scores = tuple(
            _score(name, result, candidate, entry, number, number.metric, baseline) for number in published
        )
        # A record has a score in each of its metrics, of which several are averaged alike.
        return (
            tuple(replace(score, averaging=score.metric) for score in published_scores)
            if entry and entry.record
            else published_scores
        )
    fraction_metrics = list_fraction_metrics(result) if entry is None and _is_plain(result) else []
    verdict_metric = metric_key if entry is None and metric_key else find_verdict_metric(result, entry)
    chosen = fraction_metrics or [verdict_metric or ""]
    scores = tuple(_score(name, result, candidate, entry, None, metric, None) for metric in chosen)
    # Of a task of no pack nothing says which metric matters, so each is named.
    return tuple(replace(score, averaging=score.metric) for score in scores) if len(scores) > 1 else scores


def _score(
    name: str,
    result: TaskRun,
    candidate: ScoredRun,
    entry: TaskEntry | None,
    number: ReferenceScoreEntry | None,
    metric_key: str,
    baseline: ScoredRun | None,
) -> Score:
    scores = candidate.scores(metric_key) if metric_key else None
    value, interval = (scores.value, scores.interval) if scores else (None, None)
    n = len(scores.contributions) if scores else len(result.docs) if not metric_key else 0
    reason = explain_incomparable(result, candidate, entry, number)
    aggregate = result.aggregates.get(metric_key) if not scores else None
    if aggregate and aggregate.is_fraction:
        value, interval = aggregate.value, aggregate.interval
        n = len(result.docs) or result.provenance.docs_run or 0
        if result.docs:
            reason = "this is lm-eval's own average, which the docs' scores do not give"
    published = None if number is None else ReferenceScore(
        round(number.value / 100, 8), number.benchmark, number.source_metric, number.averaging, number.shots,
        number.source, number.note, number.origin,
    )  # fmt: skip
    comparable = published is not None and reason is None and value is not None
    macro = metric_key.partition(",")[0].endswith("_macro")
    return Score(
        metric=metric_key,
        averaging=(published and published.averaging) or ("macro" if macro else "micro"),
        docs=n or (0 if value is None else None),
        value=value,
        interval=interval,
        reference=published,
        candidate_minus_reference=value - published.value if comparable and published and value is not None else None,
        not_comparable_reason=reason,
        baseline_difference=_distance(name, entry, number, baseline) if entry and number and baseline else None,
    )


def _distance(
    name: str, entry: TaskEntry, number: ReferenceScoreEntry, baseline: ScoredRun
) -> BaselineDifference | None:
    scores = baseline.scores(number.metric)
    if entry.invented or scores is None or len(baseline.docs) < MIN_BASELINE_DOCS * entry.docs:
        return None
    reason = next((gap.text.rstrip(".") for gap in _known_gaps(entry, None) if gap.recorded), None)
    if not number.same_settings:
        reason = f"the published number was measured in another way{_note(number)}"
    decimals = len(repr(number.value).partition(".")[2])
    return measure_baseline_distance(name, number.metric, scores.value, number.value / 100, reason, decimals)


def measure_baseline_distance(
    task: str, metric: str, baseline: float | None, published: float, reason: str | None = None, decimals: int = 1
) -> BaselineDifference:
    """The distance between Meta's recorded answers under our graders and the published number.

    Args:
        task: Its name.
        metric: Our metric, ``metric,filter``.
        baseline: The score of the recorded answers, 0 to 1; None where there are none.
        published: The published number, 0 to 1.
        reason: Where the distance comes from.
        decimals: Of the published number in percent: 0.1 percent leaves 0.0005 open.
    """
    distance = None if baseline is None else baseline - published
    within = distance is not None and abs(distance) <= 0.5 * 10.0 ** (-2 - decimals) + ROUNDING
    return BaselineDifference(task, metric, baseline, published, distance, within, reason)


def explain_incomparable(
    result: TaskRun, candidate: ScoredRun, entry: TaskEntry | None, number: ReferenceScoreEntry | None
) -> str | None:
    """The first reason why a score cannot be compared with a published number; None when it can."""
    if not result.docs:
        return "there are no samples: run lm_eval with --log_samples"
    if entry is None or number is None:
        return "no number was published for this subset" if entry else "no pack says what was published for this task"
    reason = None
    if not number.same_settings:
        reason = f"the published number was measured in another way{_note(number)}"
    elif candidate.scores(number.metric) is None:
        reason = f"the run has no score in {number.metric}"
    elif entry.invented:
        reason = "these are the rows of the embedded sample, not of the benchmark"
    return reason or explain_unfinished(result, entry) or find_other_settings(result)


def _note(number: ReferenceScoreEntry) -> str:
    return f": {number.note.rstrip('.')}" if number.note else ""


def list_averages(name: str, aggregates: Mapping[str, Aggregate]) -> tuple[LmEvalAverage, ...]:
    """lm-eval's own averages."""
    return tuple(
        LmEvalAverage(name, metric_key, aggregate.value, aggregate.interval, aggregate.is_fraction)
        for metric_key, aggregate in aggregates.items()
    )


def list_other_averages(
    name: str, result: TaskRun, entry: TaskEntry | None, baseline: TaskRun | None = None
) -> tuple[LmEvalAverage, ...]:
    """lm-eval's averages that are not fractions (perplexity, BLEU), with those of run A or the recorded run."""
    if baseline:
        owner, baseline_values = (
            "A",
            {metric_key: aggregate.value for metric_key, aggregate in baseline.aggregates.items()},
        )
    else:
        owner = "recorded"
        baseline_values = (
            {number.metric: number.value / 100 for number in entry.reference_scores} if entry and entry.record else {}
        )
    averages = []
    for metric_key, aggregate in result.aggregates.items():
        value = baseline_values.get(metric_key)
        if not aggregate.is_fraction or (value is not None and not 0 <= value <= 1):
            lower = metric_key.partition(",")[0] in result.lower_is_better
            averages.append(
                LmEvalAverage(
                    name, metric_key, aggregate.value, aggregate.interval, is_fraction=False, baseline=value,
                    baseline_label=owner if value is not None else "", lower_is_better=lower,
                )
            )  # fmt: skip
    return tuple(averages)


def is_fraction(number: ReferenceScoreEntry) -> bool:
    """Whether a published number is a share; a record has its perplexities and BLEU among them."""
    return number.metric.partition(",")[0] not in UNBOUNDED_METRICS and 0 <= number.value <= 100


def _is_plain(result: TaskRun) -> bool:
    """Whether a task comes from a plain lm-eval run, where nothing tells which metric matters."""
    return result.primary_metric is None and all(doc.prompt_matches is None for doc in result.docs)


def list_known_gaps(entry: TaskEntry | None, result: TaskRun) -> tuple[str, ...]:
    """The reasons that apply to a task as it was run, each with its source."""
    if entry is None:
        return ()
    gaps = _known_gaps(entry, result.provenance.backend)
    return tuple(f"{gap.text} ({gap.source})" if gap.source else gap.text for gap in gaps)


def _known_gaps(entry: TaskEntry, backend: str | None) -> list[KnownGapEntry]:
    return [gap for gap in entry.known_gaps if not gap.backends or backend in gap.backends]

"""Figures of a task beside its drop: scores and published numbers, subtasks, other metrics, sampled answers.

pass@k and maj@k replace the score of a doc. Average, interval and paired drop are then those of every metric.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from meta_eval import stats
from meta_eval.base.thresholds import ALPHA, MIN_BASELINE_DOCS, ROUNDING
from meta_eval.harness.doc_results import COUNTED, UNBOUNDED_METRICS, DocResult, replace_verdict
from meta_eval.harness.lm_eval_run import TaskRun
from meta_eval.harness.provenance import Provenance
from meta_eval.harness.results_file import Aggregate
from meta_eval.harness.scores import ScoredRun, list_metric_keys
from meta_eval.judge.decision import (
    RUN_A,
    BaselineDifference,
    LmEvalAverage,
    Measure,
    ReferenceScore,
    Sampling,
    Score,
    TaskDecision,
)
from meta_eval.judge.doc_pairs import Clusters, RunPair, measure_drop, pair_scores
from meta_eval.judge.pair import find_verdict_metric, list_fraction_metrics
from meta_eval.judge.run_alarms import explain_unfinished, find_other_settings
from meta_eval.pack.manifest import KnownGapEntry, ReferenceScoreEntry, TaskEntry
from meta_eval.stats import Drop


def list_scores(
    name: str, result: TaskRun, candidate: ScoredRun, entry: TaskEntry | None,
    baseline: ScoredRun | None, metric_key: str | None = None, baseline_runs: ScoredRun | None = None,
) -> tuple[Score, ...]:  # fmt: skip
    """The scores of a task with its published numbers; without a pack the one in the metric of its drop.

    Args:
        name: The task.
        result: What was read of it.
        candidate: The scores of its docs.
        entry: What the pack says of it; None without a pack.
        baseline: The recorded answers; None where there are none.
        metric_key: The ``metric,filter`` of the drop; None where there is none.
        baseline_runs: The scores of run A, where runs are compared.
    """
    if baseline_runs is not None:
        alone = list_scores(name, result, candidate, entry, baseline, metric_key)
        of_a = [baseline_runs.scores(score.metric) if score.metric else None for score in alone]
        return tuple(
            replace(score, score_of_baseline=scores.value if scores else None)
            for score, scores in zip(alone, of_a, strict=True)
        )
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
    # Nothing tells which metric of a plain run of lm-eval matters.
    is_plain = result.primary_metric is None and all(doc.prompt_matches is None for doc in result.docs)
    fraction_metrics = list_fraction_metrics(result) if entry is None and is_plain else []
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


def list_known_gaps(entry: TaskEntry | None, result: TaskRun) -> tuple[str, ...]:
    """The reasons that apply to a task as it was run, each with its source."""
    if entry is None:
        return ()
    gaps = _known_gaps(entry, result.provenance.backend)
    return tuple(f"{gap.text} ({gap.source})" if gap.source else gap.text for gap in gaps)


def _known_gaps(entry: TaskEntry, backend: str | None) -> list[KnownGapEntry]:
    return [gap for gap in entry.known_gaps if not gap.backends or backend in gap.backends]


@dataclass(frozen=True, slots=True)
class _Docs:
    """The docs of one subtask: the candidate's values, the baseline's where there are any, and what docs share."""

    values: list[float]
    baseline_values: list[float | None]
    clusters: list[Hashable]


def compute_subtask_drops(candidate: ScoredRun, metric_key: str, pair: RunPair | None) -> dict[str, Drop]:
    """The drop of each subtask all of whose docs are paired; empty where a task has not two subtasks.

    Args:
        candidate: The run.
        metric_key: ``metric,filter`` of single verdicts.
        pair: The baseline and the candidate over the same docs; None where there is no baseline.
    """
    scores = candidate.scores(metric_key)
    drops = {}
    for name, docs in _grouped(candidate, metric_key, pair).items():
        baseline = [value for value in docs.baseline_values if value is not None]
        if scores and len(baseline) == len(docs.values):
            clusters = docs.clusters if scores.clusters else None
            drop = stats.paired_drop(baseline, docs.values, clusters=clusters)
            drops[name] = drop.invert() if scores.lower_is_better else drop
    return drops


def describe_subtasks(candidate: ScoredRun, metric_key: str, pair: RunPair | None) -> tuple[Measure, ...]:
    """List the subtasks by name, each with its score and the baseline's; arguments as of `compute_subtask_drops`."""
    drops = compute_subtask_drops(candidate, metric_key, pair)
    corrected = stats.correct_by_holm([drop.p_value() for drop in drops.values()])
    clear = {name: p < ALPHA for name, p in zip(drops, corrected, strict=True)}
    return tuple(
        Measure(
            name,
            len(docs.values),
            stats.mean(docs.values),
            None,
            drops[name].baseline if name in drops else None,
            drops[name].part if name in drops else None,
            clear.get(name, False),
        )
        for name, docs in sorted(_grouped(candidate, metric_key, pair).items())
    )


def _grouped(candidate: ScoredRun, metric_key: str, pair: RunPair | None) -> dict[str, _Docs]:
    scores = candidate.scores(metric_key)
    if scores is None:
        return {}
    baseline: dict[Hashable, float] = {}
    paired = pair_scores(pair, metric_key) if pair else None
    if pair and paired:
        docs = pair.candidate.docs
        values = zip(paired.baseline.doc_indices, paired.baseline.doc_scores, strict=True)
        baseline = {docs[at].doc_id: value for at, value in values}
    groups: dict[str, _Docs] = {}
    names = scores.clusters or scores.doc_indices
    for position, value, cluster in zip(scores.doc_indices, scores.doc_scores, names, strict=True):
        doc = candidate.docs[position]
        if doc.subtask is not None:
            group = groups.setdefault(doc.subtask, _Docs([], [], []))
            group.values.append(value)
            group.baseline_values.append(baseline.get(doc.doc_id))
            group.clusters.append(cluster)
    return groups if len(groups) > 1 else {}


# The docs of each run of a model; the same docs in the same order.
_Runs = Sequence[Sequence[DocResult]]

# What a doc adds to a metric: a sum of verdicts, and their number; 0 and 0 where the metric is not about the doc.
_Counts = list[tuple[float, float]]


def compare_metrics(
    runs: _Runs,
    pair: tuple[_Runs, _Runs] | None,
    metric_key: str,
    lower_is_better: Set[str],
    clusters: Callable[[Sequence[DocResult]], Sequence[Hashable] | None],
    disputed: Set[str] = frozenset(),
) -> tuple[Measure, ...]:
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
    runs: _Runs,
    pair: tuple[_Runs, _Runs] | None,
    metric: str,
    filter_name: str,
    lower_is_better: bool,
    clusters: Callable[[Sequence[DocResult]], Sequence[Hashable] | None],
) -> Measure | None:
    counts = _count(runs, metric, filter_name)
    if counts is None or not any(of for _, of in counts):
        return None
    used = [place for place, (_, of) in enumerate(counts) if of]
    values, docs = [counts[place] for place in used], [runs[0][place] for place in used]
    is_plain = all(of == 1 for _, of in values)
    contributions = [value for value, _ in values] if is_plain else stats.pooled_contributions(values)
    interval = stats.score_interval(contributions, clusters=clusters(docs))
    found = Measure(f"{metric},{filter_name}", len(used), _divide(counts), interval)
    sides = [_count(side, metric, filter_name) for side in pair or ()]
    if pair is None or not all(side and any(of for _, of in side) for side in sides):
        return found
    baseline, candidate = (side or [] for side in sides)
    used = [place for place in range(len(baseline)) if baseline[place][1] or candidate[place][1]]
    losses = stats.ratio_losses([baseline[place] for place in used], [candidate[place] for place in used])
    names = clusters([pair[1][0][place] for place in used])
    drop = stats.paired_drop(losses, [0.0] * len(losses), clusters=names)
    drop = drop.invert() if lower_is_better else drop
    return replace(found, baseline=_divide(baseline), drop=drop.part)


def _count(runs: _Runs, metric: str, filter_name: str) -> _Counts | None:
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


# The score of a doc, by the verdict on each answer and the number of the most frequent one; None if it has none.
_Combine = Callable[[Sequence[float], int | None], float | None]


def measure_sampling(
    candidate: ScoredRun, baseline: ScoredRun | None, metric_key: str, provenance: Provenance, clusters: Clusters
) -> Sampling | None:
    """Describe sampled answers in the metric of the drop; None for a single greedy answer to each doc.

    Args:
        candidate: The run in question.
        baseline: What it is compared with; None for a published score.
        metric_key: The ``metric,filter``.
        provenance: The settings of the run.
        clusters: What docs share with others.
    """
    answers = count_answers(candidate, metric_key)
    is_sampled = "temperature" in provenance.decoding or "do_sample" in provenance.decoding
    baseline_count = count_answers(baseline, metric_key) if baseline else None
    if answers == 1 and (baseline_count or 1) == 1 and not is_sampled:
        return None
    scores: list[Measure | None] = []
    if metric_key.partition(",")[0] not in candidate.lower_is_better:
        powers = [2**power for power in range(1, int(math.log2(answers)) + 1)]
        ways = [(f"pass@{k}", _pass_at(k), answers / k) for k in dict.fromkeys([*powers, answers]) if k > 1]
        ways.append((f"maj@{answers}", _majority_of(answers), 1))
        scores = [_measure(name, candidate, baseline, metric_key, clusters, way, size) for name, way, size in ways]
    return Sampling(answers, baseline_count, is_sampled, tuple(score for score in scores if score))


def count_answers(scored: ScoredRun, metric_key: str) -> int:
    """Count the graded answers to each doc, the fewest of any doc."""
    metric, _, name = metric_key.partition(",")
    counts = [
        len(doc.filter_results[name].verdict_of_each.get(metric, (0,)))
        for doc in scored.docs
        if name in doc.filter_results
    ]
    return min(counts, default=1)


def count_needed(task: TaskDecision) -> int | None:
    """Count the answers to each doc that would show an identical copy within the task's margin; None if none would."""
    sampling = task.sampling
    if sampling is None or not task.is_decided:
        return None
    shares = 1 / sampling.answers + 1 / (sampling.baseline_answers or 1)
    fixed = None if task.baseline_label == RUN_A else sampling.baseline_answers or 1
    return stats.count_needed_answers(
        task.drop.seen_variance / shares, task.margin, baseline_answers=fixed
    )  # fmt: skip


def _measure(
    name: str,
    candidate: ScoredRun,
    baseline: ScoredRun | None,
    metric_key: str,
    clusters: Clusters,
    combine: _Combine,
    answers: float,
) -> Measure | None:
    """A score that combines the answers to each doc, and its drop, which is paired like any other."""
    combined = _combine_answers(candidate, metric_key, combine)
    scores = combined.scores(metric_key) if combined else None
    if combined is None or scores is None:
        return None
    baseline_scores = _combine_answers(baseline, metric_key, combine) if baseline else None
    drop = measure_drop(RunPair(baseline_scores, combined), metric_key, clusters) if baseline_scores else None
    interval = stats.sampled_interval(scores.contributions, answers, scores.labels, scores.clusters)
    measure = Measure(name, len(scores.contributions), scores.value, interval)
    return replace(measure, baseline=drop.baseline, drop=drop.part) if drop else measure


def _combine_answers(scored: ScoredRun, metric_key: str, combine: _Combine) -> ScoredRun | None:
    """The same with another score of each doc; None if a doc has none."""
    metric, _, name = metric_key.partition(",")
    runs: list[list[DocResult]] = [[] for _ in scored.runs]
    for docs, combined in zip(scored.runs, runs, strict=True):
        for doc in docs:
            result = doc.filter_results.get(name)
            share = combine(result.verdict_of_each.get(metric, ()), result.majority) if result else None
            if result is None or share is None:
                return None
            metrics = {**result.metrics, metric: replace_verdict(result.metrics[metric], share)}
            combined.append(replace(doc, filter_results={name: replace(result, metrics=metrics)}))
    return ScoredRun(runs, scored.lower_is_better)


def _pass_at(k: int) -> _Combine:
    """pass@k of a doc; None if a verdict is neither right nor wrong, or it has fewer answers."""

    def combine(verdicts: Sequence[float], _: int | None) -> float | None:
        sure = len(verdicts) >= k and all(verdict in (0, 1) for verdict in verdicts)
        return stats.pass_at_k(sum(verdicts), len(verdicts), k) if sure else None

    return combine


def _majority_of(answers: int) -> _Combine:
    """The verdict on the most frequent of so many answers; None if it is unknown."""

    def combine(verdicts: Sequence[float], majority: int | None) -> float | None:
        return verdicts[majority] if majority is not None and majority < len(verdicts) == answers else None

    return combine

"""What a task's drop is taken of: the candidate, its baseline, and which doc of one is which doc of the other.

The candidate is the model in question. Its baseline is another run, or what Meta or a recorded run recorded: recorded
answers and verdicts are docs like any other. Several runs of a model have the same docs in the same order; their scores
are averaged doc by doc.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from meta_eval import stats
from meta_eval.base.thresholds import SAME_VERDICT
from meta_eval.harness.doc_results import COUNTED, LOWER_IS_BETTER, DocResult, FilterResult, MetricValue
from meta_eval.harness.lm_eval_run import TaskRun
from meta_eval.harness.sample_parser import read_recorded_verdicts, restore_recorded_docs
from meta_eval.harness.scores import ScoredRun, Scores, compute_scores, list_metric_keys
from meta_eval.judge.judgement import SampleSource
from meta_eval.pack.baseline import Baseline
from meta_eval.pack.manifest import TaskEntry

Key = Callable[[DocResult], Hashable]


class RunPair(NamedTuple):
    """A baseline and a candidate over the same docs, in one order."""

    baseline: ScoredRun
    candidate: ScoredRun

    @property
    def docs(self) -> Sequence[DocResult]:
        """Those of the candidate."""
        return self.candidate.docs


class ScorePair(NamedTuple):
    """The scores of both in one metric."""

    baseline: Scores
    candidate: Scores


@dataclass(slots=True)
class TaskComparison:
    """All that a task is judged by.

    Attributes:
        name: The task.
        entry: What the pack says of it.
        candidate_runs: Runs of the candidate, the newest first; none where the task was not run.
        baseline_runs: Runs of the baseline, where two runs are compared.
        metric_key: The ``metric,filter`` of single verdicts; None where there is none.
        candidate: The scores of ``candidate_runs``.
        regraded_answers: The recorded answers, as the pack grades them.
        recorded_verdicts: The recorded verdicts, in the metric of single verdicts.
        recorded_run: The scores that a recorded run was given then, in every metric.
        missing_reason: Why there are no recorded answers, a clause.
        baseline: What the candidate is compared with doc by doc: the baseline's runs, else what was recorded.
        pair: ``baseline`` and ``candidate``, of the docs that both have.
        source: Where the samples are.
        regraded_by: The version of lm-eval that graded ``regraded_answers``; None if unknown.
    """

    name: str
    entry: TaskEntry | None
    candidate_runs: tuple[TaskRun, ...]
    baseline_runs: tuple[TaskRun, ...]
    metric_key: str | None
    candidate: ScoredRun
    regraded_answers: ScoredRun | None = None
    recorded_verdicts: ScoredRun | None = None
    recorded_run: ScoredRun | None = None
    missing_reason: str | None = None
    baseline: ScoredRun | None = None
    pair: RunPair | None = None
    source: SampleSource | None = None
    regraded_by: str | None = None

    @property
    def baseline_answers(self) -> ScoredRun | None:
        """Answers of the baseline: of its runs, else the recorded answers as the pack grades them."""
        return self.baseline if self.baseline_runs else self.regraded_answers


def build_task_comparison(
    name: str,
    runs: Sequence[TaskRun],
    entry: TaskEntry | None,
    stored: Baseline | None,
    baseline_runs: Sequence[TaskRun] = (),
) -> TaskComparison:
    """Find what a task is compared with, and pair the docs.

    Args:
        name: The task.
        runs: Of the candidate, the newest first.
        entry: What the pack says of the task.
        stored: What verify stored of the pack.
        baseline_runs: Of the baseline, where two runs are compared.
    """
    result = runs[0] if runs else None
    metric_key = find_verdict_metric(result, entry)
    lower = _find_lower_is_better([*runs, *baseline_runs])
    candidate = ScoredRun([run.docs for run in runs], lower)
    compared = TaskComparison(name, entry, tuple(runs), tuple(baseline_runs), metric_key, candidate)
    if result is None:
        return compared
    if stored and stored.regraded.get(name):
        runs_docs = stored.regraded[name]
        if name not in stored.as_recorded:
            runs_docs = tuple(_with_endings(docs, result.docs) for docs in runs_docs)
        compared.regraded_answers = ScoredRun(_keep_common_docs(runs_docs), lower)
        compared.regraded_by = stored.lm_eval.get(name)
    baseline_run_docs = _keep_common_docs(stored.as_recorded.get(name, ())) if stored else ()
    if any(baseline_run_docs):
        compared.recorded_run = compared.recorded_verdicts = ScoredRun(baseline_run_docs, lower)
    elif metric_key:
        compared.recorded_verdicts = read_verdict_run(
            result.docs, metric_key, entry, find_reading(result, entry), lower
        )
    if (
        not any(baseline_run_docs)
        and entry is not None
        and entry.record is not None
        and (recorded_docs := restore_recorded_docs(result.docs))
    ):
        compared.recorded_run = ScoredRun([recorded_docs], lower)
    compared.missing_reason = stored.missing_reasons.get(name) if stored and not baseline_runs else None
    compared.baseline = compared.regraded_answers or compared.recorded_verdicts
    if baseline_runs:
        compared.baseline = ScoredRun([run.docs for run in baseline_runs], lower)
    if compared.baseline:
        content_key = _make_content_key(compared.baseline, candidate)
        keys = (make_prompt_key, make_question_key, content_key) if baseline_runs else (make_number_key,)
        compared.pair = pair_docs(compared.baseline, candidate, *keys)
    compared.source = _find_samples(compared, metric_key) if metric_key else None
    return compared


def _find_lower_is_better(runs: Sequence[TaskRun]) -> frozenset[str]:
    """The metrics of which less is better, by the first file that says so, else by their names."""
    if not runs:
        return LOWER_IS_BETTER
    said = {metric: higher for run in reversed(runs) for metric, higher in run.higher_is_better.items()}
    return runs[0].lower_is_better - said.keys() | {metric for metric, higher in said.items() if not higher}


def _keep_common_docs(runs: Sequence[Sequence[DocResult]]) -> list[list[DocResult]]:
    """Of each run the docs that all runs have, in the order of doc ids."""
    by_number = [{doc.doc_id: doc for doc in docs} for docs in runs if docs]
    common = sorted(set.intersection(*(set(docs) for docs in by_number))) if by_number else []
    return [[docs[number] for number in common] for docs in by_number]


def _with_endings(answers: Sequence[DocResult], docs: Sequence[DocResult]) -> tuple[DocResult, ...]:
    """Recorded answers with what is known of how they ended: their texts stand in the docs that were run."""
    known = {make_number_key(doc): (doc.recorded_cut, doc.is_recorded_cut_thinking) for doc in docs}
    with_endings = []
    for doc in answers:
        cut, is_thinking = known.get(make_number_key(doc), (None, False))
        is_open = doc.cuts == (None,)
        with_endings.append(replace(doc, cuts=(cut,), is_cut_thinking=is_thinking) if is_open else doc)
    return tuple(with_endings)


def pair_docs(baseline: ScoredRun, candidate: ScoredRun, *keys: Key) -> RunPair:
    """The docs that both have, in one order: docs with the same key, by the first key that finds one.

    Of several docs with one key the first goes with the first, and so on.
    """
    matches: dict[int, int] = {}
    left = list(range(len(candidate.docs)))
    for key in keys:
        waiting: dict[Hashable, list[int]] = {}
        for place in reversed(left):
            waiting.setdefault(key(candidate.docs[place]), []).append(place)
        for place, doc in enumerate(baseline.docs):
            if place not in matches and (same := waiting.get(key(doc))):
                matches[place] = same.pop()
        left = [place for places in waiting.values() for place in reversed(places)]
    pairs = sorted(matches.items())
    places, candidate_places = [place for place, _ in pairs], [place for _, place in pairs]
    return RunPair(baseline.select_docs(places), candidate.select_docs(candidate_places))


def measure_drop(
    pair: RunPair, metric_key: str, clusters: Callable[[Sequence[DocResult]], Sequence[Hashable] | None] | None = None
) -> stats.Drop | None:
    """The drop from the baseline to the candidate in one metric; None unless both have it, of the same docs."""
    scores = pair_scores(pair, metric_key)
    if scores is None:
        return None
    names = clusters([pair.candidate.docs[place] for place in scores.candidate.doc_indices]) if clusters else None
    drop = stats.paired_drop(
        scores.baseline.paired_contributions, scores.candidate.paired_contributions, scores.candidate.labels, names
    )
    return drop.invert() if scores.candidate.lower_is_better else drop


def pair_scores(pair: RunPair, metric_key: str) -> ScorePair | None:
    """The scores of both in one metric; None unless both have them, of the same docs."""
    baseline, candidate = pair.baseline.scores(metric_key), pair.candidate.scores(metric_key)
    if baseline is None or candidate is None:
        return None
    same = baseline.averaging == candidate.averaging and baseline.doc_indices == candidate.doc_indices
    return ScorePair(baseline, candidate) if same else None


def read_verdict_run(
    docs: Sequence[DocResult],
    metric_key: str,
    entry: TaskEntry | None,
    reading: str | None,
    lower_is_better: frozenset[str] = LOWER_IS_BETTER,
) -> ScoredRun | None:
    """Meta's recorded verdicts, in the metric of single verdicts and its macro average.

    Of the docs that have one. They are published with few decimals: where the candidate's is the same but for that, it
    is taken. None where there is none, or where they are no shares.
    """
    metric, _, name = metric_key.partition(",")
    verdicts, _ = read_recorded_verdicts(docs, (entry.recorded_metric if entry else None) or metric, reading)
    recorded_docs = []
    for doc, recorded in zip(docs, verdicts, strict=True):
        if recorded is None or name not in doc.filter_results:
            continue
        if not 0 <= recorded <= 1:
            return None
        metrics = doc.filter_results[name].metrics
        recorded_metrics = {
            key: _match_shape(metrics[key], recorded) for key in (metric, f"{metric}_macro") if key in metrics
        }
        recorded_docs.append(doc.with_recorded({name: FilterResult(None, recorded_metrics, 0, 0)}))
    return ScoredRun([recorded_docs], lower_is_better) if recorded_docs else None


def _match_shape(candidate: MetricValue, recorded: float) -> MetricValue:
    """The recorded verdict in the shape of the candidate's."""
    if isinstance(candidate, tuple) and len(candidate) == 2 and isinstance(candidate[1], float):
        return (candidate[0], _match_shape(candidate[1], recorded))  # type: ignore[return-value]
    return candidate if isinstance(candidate, float) and abs(candidate - recorded) <= SAME_VERDICT else recorded


def make_number_key(doc: DocResult) -> Hashable:
    return doc.doc_id, doc.question_hash


def make_question_key(doc: DocResult) -> Hashable:
    return doc.question_hash, doc.gold


def make_prompt_key(doc: DocResult) -> Hashable:
    return doc.question_hash, doc.gold, doc.prompt_hashes


def _make_content_key(baseline: ScoredRun, candidate: ScoredRun) -> Key:
    """What the model was given and the right answer, where one doc of each alone has them: a dataset that got
    another column has other docs by lm-eval's hashes, and asks the same."""
    counts = [Counter((doc.sent_hash, doc.gold) for doc in run.docs) for run in (baseline, candidate)]

    def key(doc: DocResult) -> Hashable:
        content = doc.sent_hash, doc.gold
        return content if doc.sent_hash and all(count[content] == 1 for count in counts) else object()

    return key


def find_verdict_metric(result: TaskRun | None, entry: TaskEntry | None) -> str | None:
    """The ``metric,filter`` that tells whether an answer is right: the pack's, the run's, else its first fraction.

    None where there is none, as of a task of perplexities alone.
    """
    if entry is not None:
        return entry.primary_metric
    if result is None or not result.docs:
        return None
    return result.primary_metric or next(iter(list_fraction_metrics(result)), None)


def find_reading(result: TaskRun | None, entry: TaskEntry | None) -> str | None:
    """The ``metric,filter`` that Meta's ``is_correct`` is the like of where it is no verdict; None where it is one."""
    return entry.is_correct_metric if entry is not None else result.is_correct_metric if result is not None else None


def list_fraction_metrics(result: TaskRun) -> list[str]:
    """Every ``metric,filter`` of a run that is a score from 0 to 1: of its docs, else of lm-eval's averages."""
    fractions = [
        metric_key
        for metric_key in list_metric_keys(result.docs)
        if compute_scores(result.docs, metric_key) is not None
    ]
    fractions += [
        metric_key
        for metric_key, aggregate in result.aggregates.items()
        if aggregate.is_fraction and metric_key not in fractions
    ]
    return [metric_key for metric_key in fractions if metric_key.partition(",")[0] not in COUNTED]


def _find_samples(compared: TaskComparison, metric_key: str) -> SampleSource:
    recorded = compared.regraded_answers or compared.recorded_verdicts
    recorded_scores = recorded.scores_of_run(0, metric_key) if recorded else None
    verdicts: dict[Hashable, float] = {}
    if recorded and recorded_scores:
        pairs = zip(recorded_scores.doc_indices, recorded_scores.verdicts, strict=True)
        verdicts = {make_number_key(recorded.docs[at]): value for at, value in pairs}
    if compared.baseline_runs and compared.pair:
        docs = tuple(zip(compared.pair.baseline.docs, compared.pair.candidate.docs, strict=True))
        runs = compared.baseline_runs[0], compared.candidate_runs[0]
        return SampleSource(metric_key, runs, docs, tuple(verdicts.get(make_number_key(doc)) for _, doc in docs))
    own_docs = compared.candidate.docs
    recorded_verdicts = tuple(map(verdicts.get, map(make_number_key, own_docs)))
    others = frozenset(doc.doc_id for doc in (recorded.docs if recorded else ()) if doc.prompt_matches is False)
    has_baseline_run = compared.entry is not None and compared.entry.baseline is not None
    return SampleSource(
        metric_key,
        compared.candidate_runs[:1],
        tuple((doc,) for doc in own_docs),
        recorded_verdicts,
        not has_baseline_run,
        others if has_baseline_run else frozenset(),
    )

"""Alarms that need both sides of a comparison: same answers, filters that disagree, drift.

Drift and noise: two answers of a model to the same doc differ only by noise. Baseline and candidate differ by noise and
by the candidate's loss. So noise explains a part of their flips: the share of docs that flip between two answers of the
candidate, divided by the share that flip between baseline and candidate.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence

from meta_eval import stats
from meta_eval.base.thresholds import (
    ALPHA,
    SAME_SHORT_TEXT_DOCS,
    SAME_TEXT_DOCS,
    SAME_VERDICT,
    SHORT_TEXT_CHARS,
    ZERO_POINTS,
)
from meta_eval.harness.doc_results import DocResult
from meta_eval.harness.lm_eval_run import Run, TaskRun
from meta_eval.harness.provenance import Provenance
from meta_eval.harness.scores import compute_scores
from meta_eval.judge.alarm_kinds import AlarmOccurrence, RaisedAlarm
from meta_eval.judge.decision import EngineNoise, Flips
from meta_eval.judge.doc_pairs import Clusters, FilterDrop, RunPair, TimedLosses, pair_scores

# Model arguments that say which weights run.
_OF_WEIGHTS = re.compile(r"lora|adapter|peft|quant|bnb|load_in_\d+bit|gguf|delta|revision|^dtype$", re.IGNORECASE)
_DEFAULTS = ("", "auto", "false", "none")
_CAUSES = "perhaps an adapter that was not loaded, or one model under two names"


def find_same_answers(
    baseline: Run, candidate: Run, pairs: Iterable[RunPair], sides: tuple[str, str], explained: Collection[str | None]
) -> list[RaisedAlarm]:
    """Raise an alarm if every doc of all tasks has the same answers in both, and the two claim to differ.

    Args:
        baseline, candidate: The runs.
        pairs: The paired docs of each task.
        sides: What the runs are called.
        explained: Tasks of which something else says where their answers come from.
    """
    both = (
        (baseline.tasks[task].provenance, candidate.tasks[task].provenance)
        for task in sorted((baseline.tasks.keys() & candidate.tasks.keys()) - set(explained))
    )
    claim = next(filter(None, (_describe_claim(a, b, sides) for a, b in both)), None)
    if claim is None:
        return []
    texts = likelihoods = short = 0
    for pair in pairs:
        for a, b in zip(pair.baseline.docs, pair.candidate.docs, strict=True):
            if a.answer_hash is None or a.answer_hash != b.answer_hash:
                return []
            if b.answer_empty:
                continue
            texts += bool(b.answer_tail)
            likelihoods += not b.answer_tail
            short += 0 < len(b.answer_tail) < SHORT_TEXT_CHARS
    count = texts + likelihoods
    if count - short < SAME_TEXT_DOCS and count < SAME_SHORT_TEXT_DOCS:
        return []
    kinds = [f"{texts:,} of {texts:,} answers are the same text"] if texts else []
    kinds += [f"the likelihoods of {likelihoods:,} of {likelihoods:,} docs are the same"] if likelihoods else []
    note = f"{' and '.join(kinds)}, of {claim}: {_CAUSES}"
    return [("same answers", AlarmOccurrence(None, note=note, veto=False))]


def _describe_claim(a: Provenance, b: Provenance, sides: tuple[str, str]) -> str | None:
    """The models, or the arguments of one model, that the runs claim; None if they claim the same."""
    if a.results_file is None or b.results_file is None:
        return None
    if a.model != b.model:
        return f"{a.model!s:.80} in {sides[0]} and {b.model!s:.80} in {sides[1]}"
    for name in sorted(filter(_OF_WEIGHTS.search, {*a.model_args, *b.model_args})):
        values = [side.model_args.get(name, "") for side in (a, b)]
        if len({"" if value.lower() in _DEFAULTS else value for value in values}) > 1:
            return f"{a.model} with {name}: {values[0] or 'none'} in {sides[0]} and {values[1] or 'none'} in {sides[1]}"
    return None


def compute_filter_drops(
    pair: RunPair, metric_key: str, filters: Iterable[str], clusters: Clusters
) -> Iterator[FilterDrop]:
    """Compute the drops by all other filters, in the same metric and over the same docs.

    Args:
        pair: The baseline and the candidate over the same docs.
        metric_key: The ``metric,filter`` of the verdict's drop.
        filters: The filters of the task.
        clusters: The clusters of docs.
    """
    metric, _, verdict = metric_key.partition(",")
    verdict_scores = pair_scores(pair, metric_key)
    for name in filters if verdict_scores else ():
        other = pair_scores(pair, f"{metric},{name}") if name != verdict else None
        if (
            verdict_scores is None
            or other is None
            or (verdict_scores.baseline.doc_indices, verdict_scores.baseline.labels)
            != (other.baseline.doc_indices, other.baseline.labels)
        ):
            continue
        names = clusters([pair.candidate.docs[place] for place in verdict_scores.candidate.doc_indices])
        verdict_losses, losses = (
            [
                a - b
                for a, b in zip(
                    scores.baseline.comparable_contributions, scores.candidate.comparable_contributions, strict=True
                )
            ]
            for scores in (verdict_scores, other)
        )
        none, labels = [0.0] * len(losses), verdict_scores.baseline.labels
        value = stats.paired_drop(losses, none, labels, names).value
        verdict_value = stats.paired_drop(verdict_losses, none, labels, names).value
        p = stats.paired_drop(verdict_losses, losses, labels, names).p_value()
        yield FilterDrop(name, value, verdict, verdict_value, p)


def find_disagreements(drops: Mapping[str, tuple[Sequence[FilterDrop], float]]) -> Iterator[RaisedAlarm]:
    """Raise an alarm for each task with a filter that disagrees with the verdict's filter. A larger drop forbids SHIP.

    Args:
        drops: By task its drops by other filters, and its margin. Holm's correction is over all of them.
    """
    corrected = iter(stats.correct_by_holm([drop.p for of_task, _ in drops.values() for drop in of_task]))
    for task, (of_task, margin) in drops.items():
        tested = list(zip(of_task, corrected, strict=False))
        if disagreeing := [drop for drop, p in tested if p < ALPHA and drop.is_far(margin)]:
            yield _raise_alarm(task, disagreeing)


def _raise_alarm(task: str, disagreeing: Sequence[FilterDrop]) -> RaisedAlarm:
    worst = max(disagreeing, key=lambda drop: drop.value - drop.verdict_value)
    note = (
        f"{worst.verdict} {_change(worst.verdict_value)}, {worst.name} {_change(worst.value)}: the format of the "
        "answers changed"
    )
    return "filters", AlarmOccurrence(task, note=note, veto=worst.value > worst.verdict_value)


def _change(drop: float) -> str:
    if abs(drop) < ZERO_POINTS:
        return "did not change"
    return f"{'lost' if drop > 0 else 'gained'} {100 * abs(drop):.1f} points"


def measure_noise(result: TaskRun, flips: Flips | None, clusters: Clusters) -> tuple[EngineNoise, list[float]] | None:
    """Count docs that flip between two answers of a run, and list the loss of each unit; None without second answers.

    Args:
        result: The run.
        flips: Flips from the baseline to the run.
        clusters: The clusters of docs.
    """
    pairs = pair_second_answers(result)
    if pairs is None:
        return None
    docs, losses = pairs
    names = clusters(docs)
    changed = [float(abs(loss) > SAME_VERDICT) for loss in losses]
    interval = stats.score_interval(changed, clusters=names)
    flip_rate = (flips.compared - flips.agreed) / flips.compared if flips and flips.compared else 0.0
    noise = EngineNoise(
        docs=len(docs),
        lost=sum(loss > SAME_VERDICT for loss in losses),
        won=sum(loss < -SAME_VERDICT for loss in losses),
        interval=interval,
        explained=min(1.0, stats.mean(changed) / flip_rate) if flip_rate else None,
        explained_interval=stats.Interval(min(1.0, interval.lower / flip_rate), min(1.0, interval.upper / flip_rate))
        if flip_rate
        else None,
    )
    return noise, _add_up(losses, names)


def pair_second_answers(result: TaskRun) -> tuple[list[DocResult], list[float]] | None:
    """The docs of a run that were answered twice, and the loss of each from the first answer to the second; None
    without any."""
    second = result.provenance.rerun
    first = compute_scores(result.docs, second.metric, result.lower_is_better) if second else None
    if second is None or first is None:
        return None
    sign = -1 if first.lower_is_better else 1
    pairs = [
        (result.docs[position], sign * (value - second.values[result.docs[position].doc_id]))
        for position, value in zip(first.doc_indices, first.doc_scores, strict=True)
        if result.docs[position].doc_id in second.values
    ]
    return ([doc for doc, _ in pairs], [loss for _, loss in pairs]) if pairs else None


def list_placed_losses(pair: RunPair, metric_key: str, clusters: Clusters) -> list[tuple[int, float]]:
    """For each unit of a random order, its place and its loss against the baseline."""
    scores = pair_scores(pair, metric_key)
    if scores is None:
        return []
    placed = [
        (pair.candidate.docs[position], baseline_value - candidate_value)
        for position, baseline_value, candidate_value in zip(
            scores[1].doc_indices, scores[0].comparable_contributions, scores[1].comparable_contributions, strict=True
        )
        if pair.candidate.docs[position].place is not None
    ]
    docs = [doc for doc, _ in placed]
    names = clusters(docs) if docs else None
    places: dict[Hashable, int] = {}
    for name, doc in zip(names or range(len(docs)), docs, strict=True):
        places[name] = min(places.get(name, doc.place or 0), doc.place or 0)
    return list(zip(places.values(), _add_up([loss for _, loss in placed], names), strict=True))


def find_drift(losses: Iterable[TimedLosses]) -> list[RaisedAlarm]:
    """Raise an alarm if late answers of a run differ from early answers beyond chance; see `stats.drift`."""
    everything = list(losses)
    second = [loss for task in everything for loss in task.second]
    placed = [loss for _, loss in sorted(pair for task in everything for pair in task.by_place)]
    p_again, p_order = stats.repeat_p_value(second), stats.order_p_value(placed)
    if not stats.is_drift([p_again, p_order]):
        return []
    notes = []
    if stats.is_drift([p_again, 1.0]):
        lost, won = sum(loss > 0 for loss in second), sum(loss < 0 for loss in second)
        notes.append(f"asked again, {lost:,} docs were lost and {won:,} won (p = {p_again:.1g})")
    if stats.is_drift([p_order, 1.0]):
        half = len(placed) // 2
        early, late = (100 * stats.mean(part) for part in (placed[:half], placed[half:]))
        notes.append(
            f"in a random order, the first half lost {early:.1f} points and the second {late:.1f} (p = {p_order:.1g})"
        )
    return [("drift", AlarmOccurrence(None, note=", ".join(notes)))]


def _add_up(losses: Sequence[float], names: Sequence[Hashable] | None) -> list[float]:
    """Losses by unit; the docs of a cluster are summed."""
    if names is None:
        return list(losses)
    sums: dict[Hashable, float] = {}
    for name, loss in zip(names, losses, strict=True):
        sums[name] = sums.get(name, 0.0) + loss
    return list(sums.values())

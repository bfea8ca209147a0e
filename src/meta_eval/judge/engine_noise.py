"""Measures the engine's noise from second answers to the same docs, and drift: whether late answers are worse than
early.

Two answers of a model to the same doc differ only by noise. Baseline and candidate differ by noise and by the
candidate's loss. So noise explains a part of their flips: the share of docs that flip between two answers of the
candidate, divided by the share that flip between baseline and candidate.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from meta_eval import stats
from meta_eval.base.thresholds import SAME_VERDICT
from meta_eval.harness.doc_results import DocResult
from meta_eval.harness.scores import compute_scores
from meta_eval.harness.task_run import TaskRun
from meta_eval.judge.decision import AlarmOccurrence, EngineNoise, Flips, RaisedAlarm
from meta_eval.judge.pair import Clusters, RunPair, pair_scores


@dataclass(frozen=True, slots=True)
class TimedLosses:
    """Losses from early to late answers.

    Attributes:
        second: For each doc or cluster with a second answer, its loss against the first.
        by_place: For each doc or cluster, its place in the random order, and its loss against the baseline.
    """

    second: Sequence[float] = ()
    by_place: Sequence[tuple[int, float]] = field(default_factory=tuple)


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

"""Finds filters of a task that disagree in a comparison: the format of answers changed, not the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from meta_eval import stats
from meta_eval.base.thresholds import ALPHA, ZERO_POINTS
from meta_eval.judge.decision import AlarmOccurrence, RaisedAlarm
from meta_eval.judge.pair import Clusters, RunPair, pair_scores


@dataclass(frozen=True, slots=True)
class FilterDrop:
    """The drop of a task by another filter than the verdict's.

    Attributes:
        name: The filter.
        value: Its drop.
        verdict: The verdict's filter.
        verdict_value: The drop by that filter.
        p: Two-sided p value of no difference between the two, doc by doc.
    """

    name: str
    value: float
    verdict: str
    verdict_value: float
    p: float

    def is_far(self, margin: float) -> bool:
        """Whether the two differ in sign, or by more than the margin."""
        return abs(self.value - self.verdict_value) > margin or self.value * self.verdict_value < 0


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

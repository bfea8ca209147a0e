"""Filters of a task that say different things of one comparison: the format of the answers changed, not the model."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from meta_eval import stats
from meta_eval.judging.alarms import Raised
from meta_eval.judging.judgement import Alarmed
from meta_eval.judging.sides import ScoredRun, paired_scores
from meta_eval.results.doc_results import Doc
from meta_eval.thresholds import ALPHA, ZERO_POINTS

Clusters = Callable[[Sequence[Doc]], Sequence[Hashable] | None]


@dataclass(frozen=True, slots=True)
class FilterDrop:
    """The drop of a task by another filter than the verdict's.

    Attributes:
        name: The filter.
        value: Its drop.
        verdict: The verdict's filter.
        verdict_value: The drop by that one.
        p: Two-sided, of no difference between the two, doc by doc.
    """

    name: str
    value: float
    verdict: str
    verdict_value: float
    p: float

    def disagrees(self, margin: float) -> bool:
        """Whether the two differ beyond chance, and about the sign or by more than the margin."""
        apart = abs(self.value - self.verdict_value) > margin or self.value * self.verdict_value < 0
        return apart and self.p < ALPHA


def filter_drops(
    before: ScoredRun, after: ScoredRun, spec: str, filters: Iterable[str], clusters: Clusters
) -> Iterator[FilterDrop]:
    """The drops by all other filters, in the same metric and over the same docs.

    Args:
        before, after: Two sides, aligned.
        spec: The ``metric,filter`` of the verdict's drop.
        filters: Those of the task.
        clusters: What docs share with others.
    """
    metric, _, verdict = spec.partition(",")
    own = paired_scores(before, after, spec)
    for name in filters if own else ():
        other = paired_scores(before, after, f"{metric},{name}") if name != verdict else None
        if own is None or other is None or (own[0].positions, own[0].labels) != (other[0].positions, other[0].labels):
            continue
        names = clusters([after.docs[place] for place in own[1].positions])
        ours, theirs = (
            [a - b for a, b in zip(pair[0].good_shares, pair[1].good_shares, strict=True)] for pair in (own, other)
        )
        none = [0.0] * len(ours)
        value, verdict_value = (stats.paired_drop(lost, none, own[0].labels, names).value for lost in (theirs, ours))
        yield FilterDrop(
            name, value, verdict, verdict_value, stats.paired_drop(ours, theirs, own[0].labels, names).p_value()
        )


def find_disagreement(task: str, drops: Iterable[FilterDrop], margin: float) -> list[Raised]:
    """What to say where a filter disagrees with the verdict's; one that finds a larger drop forbids SHIP."""
    disagreeing = [drop for drop in drops if drop.disagrees(margin)]
    if not disagreeing:
        return []
    worst = max(disagreeing, key=lambda drop: drop.value - drop.verdict_value)
    note = (
        f"{worst.verdict} {_change(worst.verdict_value)}, {worst.name} {_change(worst.value)}: the format of the "
        "answers changed"
    )
    return [("filters", Alarmed(task, note=note, veto=worst.value > worst.verdict_value))]


def _change(drop: float) -> str:
    if abs(drop) < ZERO_POINTS:
        return "did not change"
    return f"{'lost' if drop > 0 else 'gained'} {100 * abs(drop):.1f} points"

"""A drop from a recorded run told apart: the recorded verdicts, today's on the same answers, today's on the new ones.

`meta_eval.stats.decomposition` has the formulas; here stands which docs and values go into them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from meta_eval import stats
from meta_eval.judging.sides import Side, aligned, by_number
from meta_eval.results.model import Doc
from meta_eval.results.scores import Scores
from meta_eval.thresholds import SAME_VALUE

Clusters = Callable[[Sequence[Doc]], Sequence[Hashable] | None]


def apart(recorded: Side, answers: Side, ours: Side, spec: str, clusters: Clusters) -> stats.Apart | None:
    """A task's drop told apart; None where no doc has all three values in this metric.

    Args:
        recorded: What was recorded.
        answers: The recorded answers as the pack grades them.
        ours: The run.
        spec: ``metric,filter`` of the drop.
        clusters: What docs share with others, see `judge.cluster_names`.
    """
    _, middle = aligned(recorded, answers, by_number)
    middle, after = aligned(middle, ours, by_number)
    before, middle = aligned(recorded, middle, by_number)
    found = [side.scores(spec) for side in (before, middle, after)]
    known = [one for one in found if one is not None]
    if len(known) < 3 or len({(one.kind, one.positions) for one in known}) > 1:
        return None
    first, second, third = known
    then = [b if abs(a - b) <= SAME_VALUE else a for a, b in zip(first.good_shares, second.good_shares, strict=True)]
    docs = [after.docs[position] for position in third.positions]
    return stats.tell_apart(
        then, second.good_shares, third.good_shares, _same_prompts(middle, after, third), third.labels, clusters(docs)
    )


def _same_prompts(before: Side, after: Side, scored: Scores) -> list[bool]:
    """Whether all runs asked with the recorded prompt, to the letter."""
    return [
        all(docs[place].prompt_unchanged is not False for side in (before, after) for docs in side.runs)
        for place in scored.positions
    ]


def mean_apart(parts: Sequence[tuple[stats.Apart, float]]) -> stats.Apart | None:
    """The mean over tasks, with the weights of the decision; None where there are not two tasks."""
    total = sum(weight for _, weight in parts)
    if len(parts) < 2 or total <= 0:
        return None
    return stats.mean_apart([one for one, _ in parts], [weight / total for _, weight in parts])

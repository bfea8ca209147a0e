"""The decomposition of a drop from a recorded run: recorded verdicts, recorded answers regraded, new answers.

`meta_eval.stats.decomposition` has the formulas; here stands which docs and values go into them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from meta_eval import stats
from meta_eval.judging.sides import ScoredRun, align_sides, number_key
from meta_eval.results.doc_results import Doc
from meta_eval.results.scores import Scores
from meta_eval.thresholds import SAME_VALUE

Clusters = Callable[[Sequence[Doc]], Sequence[Hashable] | None]


def decompose_task_drop(
    recorded: ScoredRun, answers: ScoredRun, ours: ScoredRun, spec: str, clusters: Clusters
) -> stats.Decomposition | None:
    """Decompose a task's drop; None where no doc has all three values in this metric.

    Args:
        recorded: What was recorded.
        answers: The recorded answers as the pack grades them.
        ours: The run.
        spec: ``metric,filter`` of the drop.
        clusters: What docs share with others, see `judge.cluster_names`.
    """
    _, middle = align_sides(recorded, answers, number_key)
    middle, after = align_sides(middle, ours, number_key)
    before, middle = align_sides(recorded, middle, number_key)
    all_scores = [side.scores(spec) for side in (before, middle, after)]
    scores = [side_scores for side_scores in all_scores if side_scores is not None]
    if len(scores) < 3 or len({(side_scores.kind, side_scores.positions) for side_scores in scores}) > 1:
        return None
    first, second, third = scores
    then = [b if abs(a - b) <= SAME_VALUE else a for a, b in zip(first.good_shares, second.good_shares, strict=True)]
    docs = [after.docs[position] for position in third.positions]
    return stats.decompose_drop(
        then, second.good_shares, third.good_shares, _same_prompts(middle, after, third), third.labels, clusters(docs)
    )


def _same_prompts(before: ScoredRun, after: ScoredRun, scored: Scores) -> list[bool]:
    """Whether all runs asked with exactly the recorded prompt, doc by doc."""
    return [
        all(docs[place].prompt_unchanged is not False for side in (before, after) for docs in side.runs)
        for place in scored.positions
    ]


def decompose_mean_drop(parts: Sequence[tuple[stats.Decomposition, float]]) -> stats.Decomposition | None:
    """The mean over tasks, with the weights of the decision; None where there are not two tasks."""
    total = sum(weight for _, weight in parts)
    if len(parts) < 2 or total <= 0:
        return None
    return stats.average_decompositions([part for part, _ in parts], [weight / total for _, weight in parts])

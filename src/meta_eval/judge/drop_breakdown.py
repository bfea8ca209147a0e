"""The breakdown of a drop from a recorded run: recorded verdicts, recorded answers regraded, new answers.

`meta_eval.stats.breakdown` has the formulas; this module selects their docs and values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from meta_eval import stats
from meta_eval.base.thresholds import SAME_VALUE
from meta_eval.harness.doc_results import DocResult, replace_verdict
from meta_eval.harness.scores import ScoredRun
from meta_eval.judge.doc_pairs import Clusters, RunPair, make_number_key, pair_docs, pair_scores


def break_down_task_drop(
    recorded: ScoredRun, regraded: ScoredRun, candidate: ScoredRun, metric_key: str, clusters: Clusters
) -> stats.DropBreakdown | None:
    """Break down a task's drop; None if no doc has all three values in this metric.

    Args:
        recorded: The recorded scores.
        regraded: The recorded answers as the pack grades them.
        candidate: The candidate.
        metric_key: ``metric,filter`` of the drop.
        clusters: What docs share with others, see `judge.find_cluster_names`.
    """
    _, regraded = pair_docs(recorded, regraded, make_number_key)
    regraded, candidate = pair_docs(regraded, candidate, make_number_key)
    recorded, regraded = pair_docs(recorded, regraded, make_number_key)
    first_answers = _take_first_answers(regraded, metric_key)
    all_scores = [scored.scores(metric_key) for scored in (recorded, first_answers, regraded, candidate)]
    scores = [run_scores for run_scores in all_scores if run_scores is not None]
    if len(scores) < 4 or len({(run_scores.averaging, run_scores.doc_indices) for run_scores in scores}) > 1:
        return None
    then, first, now, new = scores
    # lm_eval logs the verdict on the first of several answers. That the others count too is no part of the drop.
    then_shares = [
        c if abs(a - b) <= SAME_VALUE else a - b + c
        for a, b, c in zip(*(run_scores.comparable_contributions for run_scores in (then, first, now)), strict=True)
    ]
    docs = [candidate.docs[position] for position in new.doc_indices]
    # Whether all runs asked with exactly the recorded prompt and its tools, doc by doc.
    prompt_matches = [
        all(
            docs[place].prompt_matches is not False and not docs[place].tools_lost
            for scored in (regraded, candidate)
            for docs in scored.runs
        )
        for place in new.doc_indices
    ]
    return stats.break_down_drop(
        then_shares,
        now.comparable_contributions,
        new.comparable_contributions,
        prompt_matches,
        new.labels,
        clusters(docs),
    )


def break_down_regraded_drop(
    before: RunPair, after: RunPair, metric_key: str, clusters: Clusters
) -> stats.DropBreakdown | None:
    """Break down the drop between two runs whose answers were graded again: the grader's part is what that took away.

    Args:
        before: Both runs with the verdicts in their files.
        after: The same docs with new verdicts.
        metric_key, clusters: As of `break_down_task_drop`.
    """
    new = pair_scores(after, metric_key)
    # That all answers to a doc count, and not the first alone, is no part of the grader's.
    firsts = [RunPair(*(_take_first_answers(side, metric_key) for side in pair)) for pair in (before, after)]
    old, first = (pair_scores(pair, metric_key) for pair in firsts)
    if new is None or old is None or first is None or old.candidate.doc_indices != new.candidate.doc_indices:
        return None
    baseline, candidate = new.baseline.comparable_contributions, new.candidate.comparable_contributions
    shares = [side.comparable_contributions for side in (old.baseline, old.candidate, first.baseline, first.candidate)]
    then = [share + (a - b) - (c - d) for share, a, b, c, d in zip(baseline, *shares, strict=True)]
    docs = [after.candidate.docs[place] for place in new.candidate.doc_indices]
    same_prompts = [
        after.baseline.docs[place].shares_prompt_with(doc)
        for place, doc in zip(new.candidate.doc_indices, docs, strict=True)
    ]
    return stats.break_down_drop(then, baseline, candidate, same_prompts, new.candidate.labels, clusters(docs))


def _take_first_answers(scored: ScoredRun, metric_key: str) -> ScoredRun:
    """The same with the verdict on the first of several answers to a doc."""
    metric, _, name = metric_key.partition(",")

    def take_first(doc: DocResult) -> DocResult:
        result = doc.filter_results.get(name)
        if result is None or not (verdicts := result.verdict_of_each.get(metric)):
            return doc
        metrics = {**result.metrics, metric: replace_verdict(result.metrics[metric], verdicts[0])}
        return replace(doc, filter_results={name: replace(result, metrics=metrics)})

    return ScoredRun([[take_first(doc) for doc in docs] for docs in scored.runs], scored.lower_is_better)


def break_down_mean_drop(parts: Sequence[tuple[stats.DropBreakdown, float]]) -> stats.DropBreakdown | None:
    """Average over tasks, with the weights of the decision; None with fewer than two tasks."""
    total = sum(weight for _, weight in parts)
    if len(parts) < 2 or total <= 0:
        return None
    return stats.average_breakdowns([part for part, _ in parts], [weight / total for _, weight in parts])

"""Scores of sampled answers: several answers to each doc, or one answer that was drawn at a temperature."""

from __future__ import annotations

import math

from meta_eval import stats
from meta_eval.judging.judgement import SampledScore, Sampling, Task
from meta_eval.judging.task_comparison import ScoredRun
from meta_eval.results.provenance import Provenance

# Nothing else can be run again; recorded answers are what they are.
_RUN = "run A"


def describe_sampling(
    candidate: ScoredRun, baseline: ScoredRun | None, spec: str, provenance: Provenance
) -> Sampling | None:
    """Describe sampled answers in the metric of the drop; None for a single greedy answer to each doc.

    Args:
        candidate: The run in question.
        baseline: What it is compared with; None for a published score.
        spec: The ``metric,filter``.
        provenance: The settings of the run.
    """
    answers = count_answers(candidate, spec)
    is_sampled = "temperature" in provenance.decoding or "do_sample" in provenance.decoding
    known = count_answers(baseline, spec) if baseline else None
    if answers == 1 and (known or 1) == 1 and not is_sampled:
        return None
    powers = [2**power for power in range(1, int(math.log2(answers)) + 1)]
    passes = [_pass_at(candidate, baseline, spec, k) for k in dict.fromkeys([*powers, answers]) if k > 1]
    return Sampling(answers, known, is_sampled, tuple(score for score in passes if score))


def count_answers(scored: ScoredRun, spec: str) -> int:
    """Count the graded answers to each doc, the fewest of any doc."""
    metric, _, name = spec.partition(",")
    counts = [len(doc.answers[name].each.get(metric, (0,))) for doc in scored.docs if name in doc.answers]
    return min(counts, default=1)


def count_needed(task: Task) -> int | None:
    """Count the answers to each doc that would show an identical copy within the task's margin; None if none would."""
    decision, sampling = task.decision, task.sampling
    if decision is None or sampling is None:
        return None
    shares = 1 / sampling.answers + 1 / (sampling.baseline_answers or 1)
    fixed = None if task.baseline_label == _RUN else sampling.baseline_answers or 1
    return stats.count_needed_answers(
        decision.drop.seen_variance / shares, decision.margin, baseline_answers=fixed
    )  # fmt: skip


def _pass_at(candidate: ScoredRun, baseline: ScoredRun | None, spec: str, k: int) -> SampledScore | None:
    values = _passes(candidate, spec, k)
    scores = candidate.scores(spec)
    if values is None or scores is None:
        return None
    answers = count_answers(candidate, spec)
    interval = stats.sampled_interval(values, answers / k, None, scores.clusters)
    known = _passes(baseline, spec, k) if baseline else None
    return SampledScore(
        f"pass@{k}", math.fsum(values) / len(values), interval, math.fsum(known) / len(known) if known else None
    )


def _passes(scored: ScoredRun, spec: str, k: int) -> list[float] | None:
    """pass@k of each doc; None if a verdict is neither right nor wrong, or a doc has fewer answers."""
    metric, _, name = spec.partition(",")
    values = []
    for doc in scored.docs:
        each = doc.answers[name].each.get(metric, ()) if name in doc.answers else ()
        if len(each) < k or any(verdict not in (0, 1) for verdict in each):
            return None
        values.append(stats.pass_at_k(sum(each), len(each), k))
    return values or None

"""Chooses what a task is compared with, and in which metric.

The baseline of a task is the first of these that exists:

1. **Meta's recorded answers**, graded by the pack's own graders (`meta_eval.pack.baseline`): doc by doc, in the
   published metric.
2. **Meta's recorded verdicts**, doc by doc, if they are in that metric and come from a program. With a judge model's
   verdicts, differences between graders would count as losses of the run.
3. **The published score** alone, if it was measured under the same settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from meta_eval.base.thresholds import MIN_RECORDED
from meta_eval.harness.lm_eval_run import TaskRun
from meta_eval.harness.scores import ScoredRun
from meta_eval.judge.decision import META
from meta_eval.judge.gate import GateTask
from meta_eval.judge.pair import (
    RunPair,
    TaskPair,
    find_verdict_metric,
    make_number_key,
    pair_docs,
    pair_scores,
)
from meta_eval.judge.published_scores import explain_incomparable
from meta_eval.pack.manifest import TaskEntry

ANSWERS = f"{META} recorded answers, graded by the pack"
VERDICTS = f"{META} recorded verdicts"
NUMBER = "the published number alone"
RUN_A = "run A"


@dataclass(frozen=True, slots=True)
class ChosenBaseline:
    """The pair in ``metric_key``, over the same docs; for a published score alone, all docs of the candidate."""

    label: str
    metric_key: str
    candidate: ScoredRun
    baseline: ScoredRun | None = None
    published: float = 0.0

    @property
    def sides(self) -> RunPair | None:
        """Both; None for a published score."""
        return RunPair(self.baseline, self.candidate) if self.baseline else None


def choose_baseline(pair: TaskPair, rule: GateTask) -> ChosenBaseline | str:
    """Choose the baseline among Meta's data; else return the reason why there is none."""
    result, candidate, entry = pair.candidate_runs[0], pair.candidate, pair.entry
    if entry is None:
        return "no pack says what it is to be compared with"
    if not result.docs:
        return "there are no samples: run lm_eval with --log_samples"
    metrics = list_metrics(result, entry)
    few = None
    if rule.baseline_kind != "published":
        verdicts = pair.recorded_verdicts if entry.graded_by == "program" or entry.baseline else None
        for label, baseline in ((ANSWERS, pair.regraded_answers), (VERDICTS, verdicts)):
            if baseline is not None:
                sides = pair_docs(baseline, candidate, make_number_key)
                chosen = choose_metric(sides, metrics, label.replace(f"{META} recorded", entry.baseline_owner_recorded))
                if len(sides.baseline.docs) < MIN_RECORDED * len(candidate.docs):
                    few = f"only {len(sides.baseline.docs):,} of {len(candidate.docs):,} docs have a recorded answer"
                elif not isinstance(chosen, str):
                    return chosen
        if rule.baseline_kind == "recorded":
            return few or "there are no recorded answers or verdicts to compare it with"
    nothing = "no recorded score of it is a share" if entry.record else "no number was published for this subset"
    for number in entry.reference_scores:
        if (reason := explain_incomparable(result, candidate, entry, number)) is None:
            return ChosenBaseline(NUMBER, number.metric, candidate, published=number.value / 100)
        nothing = reason
    return few or nothing


def choose_metric(sides: RunPair, metrics: Sequence[str], label: str) -> ChosenBaseline | str:
    """Choose the first metric that both sides have; else return the reason why there is none."""
    for metric_key in metrics:
        if pair_scores(sides, metric_key) is not None:
            return ChosenBaseline(label, metric_key, sides.candidate, sides.baseline)
    return "there is no metric that both have and that is a share"


def list_metrics(result: TaskRun, entry: TaskEntry | None) -> list[str]:
    """Possible metrics for the drop, in order of preference: metrics with a published score first."""
    numbers = sorted(entry.reference_scores, key=lambda number: not number.same_settings) if entry else ()
    published = [number.metric for number in numbers] if entry else list(result.published_metrics)
    verdict = find_verdict_metric(result, entry)
    return [*published, *([verdict] if verdict else ())]

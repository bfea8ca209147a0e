"""A task in two runs of which one has no samples: its two scores alone are compared.

A results file has each score with its standard error and its number of docs. The docs cannot be paired, so the drop has
the noise of both scores. Prompts and answers are not checked.
"""

from __future__ import annotations

from collections.abc import Iterator

from meta_eval import stats
from meta_eval.harness.lm_eval_run import TaskRun
from meta_eval.harness.output_index import has_packed_samples
from meta_eval.harness.results_file import Aggregate
from meta_eval.judge.alarm_kinds import AlarmOccurrence, RaisedAlarm
from meta_eval.judge.decision import RUN_A, SIDES, TaskDecision
from meta_eval.judge.gate import GateTask
from meta_eval.judge.grader_change import describe_grader_differences
from meta_eval.judge.pair import TaskPair, TaskSides
from meta_eval.judge.run_differences import describe_differences, explain_disputed_metric

_NOTE = "scores alone are compared, docs are not paired, and prompts and answers are not checked"


def is_score_alone(baseline: TaskRun, candidate: TaskRun) -> bool:
    """Whether docs cannot be paired, and both have a score in common. Samples that only need to be unpacked are none
    that are missing."""
    if baseline.docs and candidate.docs:
        return False
    for side in (baseline, candidate):
        file = side.provenance.results_file
        if not side.docs and (file is None or has_packed_samples(file, side.task)):
            return False
    return next(_list_common(baseline, candidate), None) is not None


def _list_common(baseline: TaskRun, candidate: TaskRun) -> Iterator[tuple[str, Aggregate, Aggregate, int]]:
    """The shares that both have, each with its scores and the smaller number of docs."""
    docs = min((*_count_docs(side), 0)[0] for side in (baseline, candidate))
    if docs < 2:
        return
    for key, first in baseline.aggregates.items():
        second = candidate.aggregates.get(key)
        if second is not None and first.is_fraction and second.is_fraction and key.partition(",")[0] != "unextracted":
            yield key, first, second, docs


def pair_scores_alone(read: TaskSides, rule: GateTask) -> TaskPair:
    """Measure the drop between the scores of the newest runs of a task.

    Args:
        read: The task as it was read.
        rule: The rule of the gate.
    """
    baseline, candidate = read.baseline_runs[0], read.candidate_runs[0]
    key, first, second, docs = next(_list_common(baseline, candidate))
    variance = sum(_variance(score, docs) for score in (first, second))
    drop = stats.score_drop(first.value, second.value, variance, docs)
    drop = drop.invert() if key.partition(",")[0] in candidate.lower_is_better else drop
    name = read.name
    # Without the answers nobody knows whether any was read.
    nothing = ["no answer of either is right"] if first.value == second.value == 0 else []
    alarms: list[RaisedAlarm] = [
        ("no samples", AlarmOccurrence(name, note="; ".join([_NOTE, *nothing]), veto=bool(nothing)))
    ]
    # What the results files say of shots and settings is compared all the same.
    a, b = baseline.provenance, candidate.provenance
    alarms += [
        ("unlike", AlarmOccurrence(name, note=note))
        for note in (explain_disputed_metric(read, key), describe_differences(a, b, ()))
        if note
    ]
    if lacking := _describe_lacking_docs(baseline, candidate):
        alarms.append(("unfinished", AlarmOccurrence(name, note=lacking, veto=rule.min_docs is None)))
    if graders := [*describe_grader_differences(a.grader, b.grader, key, SIDES)]:
        alarms.append(("grader", AlarmOccurrence(name, note="; ".join(graders), veto=False)))
    return TaskPair(
        name,
        measured_drop=drop,
        margin=rule.margin_fraction,
        cap=rule.cap_fraction,
        read=read,
        alarms=tuple(alarms),
        figures=TaskDecision(name, docs=docs, metric=key, baseline_label=RUN_A),
    )


def _count_docs(side: TaskRun) -> list[int]:
    """The docs that a run has, and those that its task has; without what is unknown."""
    return [count for count in (side.provenance.docs_run, side.provenance.docs_of_task) if count is not None]


def _describe_lacking_docs(baseline: TaskRun, candidate: TaskRun) -> str | None:
    """The docs of both runs, where one lacks docs; None where none does, or both state the same limit."""
    counts = [_count_docs(side) for side in (baseline, candidate)]
    is_limited = baseline.provenance.limit is not None and baseline.provenance.limit == candidate.provenance.limit
    if len({*counts[0], *counts[1]}) < 2 or (is_limited and counts[0] == counts[1]):
        return None
    return "; ".join(
        f"{' of '.join(f'{count:,}' for count in of)} docs in {side}" for side, of in zip(SIDES, counts, strict=True)
    )


def _variance(score: Aggregate, docs: int) -> float:
    """The variance of a score: that of its standard error, else of a share of so many docs, with one more of each
    verdict, as a share of 0 or 1 varies too (Agresti and Coull 1998)."""
    if score.stderr is not None and 0 < score.stderr <= 1:
        return score.stderr**2
    share = (score.value * docs + 1) / (docs + 2)
    return share * (1 - share) / (docs - 1)

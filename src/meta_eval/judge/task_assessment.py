"""Collects tasks before the decision over all, and makes that decision, including groups and filters that disagree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from meta_eval.base.thresholds import CAP, CutAnswers
from meta_eval.judge.alarms import RaisedAlarm, find_caveats, find_vetoes, group_alarms
from meta_eval.judge.caps import note_low_caps
from meta_eval.judge.cut_answers import raise_cut_more
from meta_eval.judge.decide import Outcome, TaskDrop, decide_outcome
from meta_eval.judge.drop_breakdown import break_down_mean_drop
from meta_eval.judge.engine_noise import TimedLosses, find_drift
from meta_eval.judge.filters import Clusters, FilterDrop, find_disagreements
from meta_eval.judge.gate import Gate
from meta_eval.judge.judgement import AlarmOccurrence, Judgement, Task
from meta_eval.judge.own_unit import decide_own_units
from meta_eval.judge.second_run_advice import advise_second_run
from meta_eval.judge.task_comparison import RunPair
from meta_eval.judge.unread_answers import UnreadSplit, find_unread_drop
from meta_eval.stats import Drop


@dataclass(frozen=True, slots=True)
class TaskAssessment:
    """A task before the decision over all.

    Attributes:
        task: The task for the report.
        task_drop: Its drop; None if there is none.
        alarms: Its alarms.
        pair: The paired docs of the drop; None for a published score.
        clusters: The clusters of its docs.
        filters: The drops by its other filters.
        timed: Losses from early to late answers.
        cut_rate: How much more often the candidate's answers are cut, where that is known.
        cut_answers: What the drop does with them.
        unread: The part of the drop from answers that were not read; None where that is unknown.
    """

    task: Task
    task_drop: TaskDrop | None
    alarms: tuple[RaisedAlarm, ...]
    pair: RunPair | None = None
    clusters: Clusters | None = None
    filters: tuple[FilterDrop, ...] = ()
    timed: TimedLosses | None = None
    cut_rate: Drop | None = None
    cut_answers: CutAnswers = "graded"
    unread: UnreadSplit | None = None


def conclude_judgement(
    assessments: Sequence[TaskAssessment],
    gate: Gate,
    decided_names: Sequence[str],
    run_alarms: Sequence[RaisedAlarm],
) -> Judgement:
    """Decide over the named tasks.

    A named group replaces its tasks and nested groups. Other groups are decided too, outside the mean, and can also
    forbid SHIP.
    """
    margin = gate.margin_fraction
    members = {assessment.task.name: assessment.task.members for assessment in assessments if assessment.task.members}
    drops_by_task = {
        assessment.task.name: assessment.task_drop for assessment in assessments if assessment.task_drop is not None
    }
    in_groups = {task for name in decided_names for task in members.get(name, ())}
    in_groups |= _overlapping({name: members[name] for name in decided_names if name in members})
    cut_more = list(
        raise_cut_more(
            {
                assessment.task.name: (assessment.cut_rate, assessment.task.cut, assessment.cut_answers)
                for assessment in assessments
                if assessment.cut_rate and assessment.task.cut
            }
        )
    )
    task_alarms = [
        alarmed
        for assessment in assessments
        for alarmed in (
            *assessment.alarms,
            *find_unread_drop(assessment.task.name, assessment.unread, _find_margin(assessment, margin)),
        )
    ]
    tasks_cut_more = {alarmed.task for _, alarmed in cut_more}
    task_alarms = [
        (kind, alarmed) for kind, alarmed in task_alarms if kind != "limit" or alarmed.task not in tasks_cut_more
    ]
    own_units = decide_own_units(
        {assessment.task.name: assessment.task.own_unit for assessment in assessments if assessment.task.own_unit}
    )
    task_alarms += find_disagreements(
        {
            assessment.task.name: (assessment.filters, _find_margin(assessment, margin))
            for assessment in assessments
            if assessment.filters
        }
    )
    task_alarms += _find_own_unit_alarms(assessments, own_units)
    drifts = find_drift(assessment.timed for assessment in assessments if assessment.timed)
    alarms = group_alarms([*drifts, *run_alarms, *cut_more, *task_alarms])
    averaged = [drops_by_task[name] for name in drops_by_task if name in decided_names and name not in in_groups]
    others = [task_drop for name, task_drop in drops_by_task.items() if (name in decided_names and name in in_groups)]
    if not gate.tasks:
        complete_groups = {name for name, tasks in members.items() if {*tasks} <= {*decided_names}}
        others += [task_drop for name, task_drop in drops_by_task.items() if name in complete_groups]
    decided_or_grouped = {*decided_names, *in_groups}
    vetoes = [
        replace(veto, invalid=veto.invalid | {name for name, tasks in members.items() if veto.invalid & set(tasks)})
        for veto in find_vetoes(alarms, decided_or_grouped)
    ]
    without_drop = {assessment.task.name for assessment in assessments if assessment.task_drop is None}
    decision = decide_outcome(
        averaged,
        margin,
        vetoes,
        find_caveats(alarms, decided_or_grouped),
        others,
        gate.cap_fraction or CAP,
        gate.weights or "precision",
        sum(name in without_drop for name in decided_names),
    )
    decided = {task_decision.task: task_decision for task_decision in (*decision.tasks, *decision.groups)}
    tasks = []
    for assessment in assessments:
        task = replace(assessment.task, decision=decided.get(assessment.task.name))
        if task.own_unit:
            task = replace(task, own_unit=replace(task.own_unit, outcome=own_units[task.name]))
        if assessment.task_drop is not None and task.decision is None:
            task = replace(task, not_compared_reason="it is not asked for")
        tasks.append(task)
    breakdown = break_down_mean_drop(
        [(task.drop_breakdown, task.decision.weight) for task in tasks if task.drop_breakdown and task.decision]
    )
    notes = tuple(note_low_caps([*averaged, *others], margin, gate.cap_fraction))
    if decision.outcome == "SHIP":
        notes = (*notes, *advise_second_run(averaged, margin, gate.cap_fraction or CAP))
    return Judgement(decision, alarms, tuple(sorted(tasks, key=lambda task: task.name)), notes, breakdown)


def _find_own_unit_alarms(
    assessments: Sequence[TaskAssessment], outcomes: Mapping[str, Outcome]
) -> Iterator[RaisedAlarm]:
    """What forbids SHIP in tasks that are no shares: a drop beyond the limit, or a margin that is not shown to hold."""
    for assessment in assessments:
        drop, name = assessment.task.own_unit, assessment.task.name
        if drop is None or outcomes[name] == "within margin" or (outcomes[name] == "undecided" and not drop.has_margin):
            continue
        failed = "unit failed" if drop.has_margin else "unit worse"
        kind = "unit open" if outcomes[name] == "undecided" else failed
        yield kind, AlarmOccurrence(name, note=drop.describe())


def _overlapping(groups: Mapping[str, Sequence[str]]) -> set[str]:
    """The groups that share a task with a larger group. A mean must count each doc once."""
    counted: set[str] = set()
    overlapping = set()
    for name in sorted(groups, key=lambda group: (-len(groups[group]), group)):
        if counted.isdisjoint(groups[name]):
            counted.update(groups[name])
        else:
            overlapping.add(name)
    return overlapping


def _find_margin(assessment: TaskAssessment, margin: float) -> float:
    return (assessment.task_drop.margin if assessment.task_drop else None) or margin

"""Collects tasks before the decision over all, and makes that decision, including groups and filters that disagree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from meta_eval.backends.settings import CutAnswers
from meta_eval.judging.alarms import Raised, find_caveats, find_vetoes, group_alarms
from meta_eval.judging.cut_answers import raise_cut_more
from meta_eval.judging.decide import TaskDrop, decide_outcome
from meta_eval.judging.drop_breakdown import break_down_mean_drop
from meta_eval.judging.engine_noise import TimedLosses, find_drift
from meta_eval.judging.filters import Clusters, FilterDrop, find_disagreement
from meta_eval.judging.gate import Gate
from meta_eval.judging.judgement import Judgement, Task
from meta_eval.judging.task_comparison import RunPair
from meta_eval.stats import Drop
from meta_eval.thresholds import CAP


@dataclass(frozen=True, slots=True)
class Draft:
    """A task before the decision over all.

    Attributes:
        task: The task for the report.
        evidence: Its drop; None if there is none.
        raised: Its alarms.
        pair: The paired docs of the drop; None for a published score.
        clusters: The clusters of its docs.
        filters: The drops by its other filters.
        timed: Losses from early to late answers.
        cut_rate: How much more often the candidate's answers are cut, where that is known.
        cut_answers: What the drop does with them.
    """

    task: Task
    evidence: TaskDrop | None
    raised: tuple[Raised, ...]
    pair: RunPair | None = None
    clusters: Clusters | None = None
    filters: tuple[FilterDrop, ...] = ()
    timed: TimedLosses | None = None
    cut_rate: Drop | None = None
    cut_answers: CutAnswers = "graded"


def conclude_judgement(
    drafts: Sequence[Draft],
    gate: Gate,
    decided_names: Sequence[str],
    raised: Sequence[Raised],
    notes: Sequence[str] = (),
) -> Judgement:
    """Decide over the named tasks.

    A named group replaces its tasks and nested groups. Other groups are decided too, outside the mean, and can also
    forbid SHIP.
    """
    margin = gate.share
    members = {draft.task.name: draft.task.members for draft in drafts if draft.task.members}
    evidence_by_task = {draft.task.name: draft.evidence for draft in drafts if draft.evidence is not None}
    of_groups = {task for name in decided_names for task in members.get(name, ())}
    of_groups |= _overlapping({name: members[name] for name in decided_names if name in members})
    cut_more = list(
        raise_cut_more(
            {
                draft.task.name: (draft.cut_rate, draft.task.cut, draft.cut_answers)
                for draft in drafts
                if draft.cut_rate and draft.task.cut
            }
        )
    )
    by_draft = [alarmed for draft in drafts for alarmed in (*draft.raised, *_filters(draft, margin))]
    said = {alarmed.task for _, alarmed in cut_more}
    by_draft = [(kind, alarmed) for kind, alarmed in by_draft if kind != "limit" or alarmed.task not in said]
    drifts = find_drift(draft.timed for draft in drafts if draft.timed)
    alarms = group_alarms([*drifts, *raised, *cut_more, *by_draft])
    alone = [evidence_by_task[name] for name in evidence_by_task if name in decided_names and name not in of_groups]
    beside = [evidence for name, evidence in evidence_by_task.items() if (name in decided_names and name in of_groups)]
    if not gate.tasks:
        whole = {name for name, tasks in members.items() if {*tasks} <= {*decided_names}}
        beside += [evidence for name, evidence in evidence_by_task.items() if name in whole]
    asked = {*decided_names, *of_groups}
    against = [
        replace(veto, invalid=veto.invalid | {name for name, tasks in members.items() if veto.invalid & set(tasks)})
        for veto in find_vetoes(alarms, asked)
    ]
    decision = decide_outcome(
        alone, margin, against, find_caveats(alarms, asked), beside, gate.cap_share or CAP, gate.weights or "precision"
    )
    decided = {task_decision.task: task_decision for task_decision in (*decision.tasks, *decision.groups)}
    tasks = []
    for draft in drafts:
        task = replace(draft.task, decision=decided.get(draft.task.name))
        if draft.evidence is not None and task.decision is None:
            task = replace(task, reason="it is not asked for")
        tasks.append(task)
    breakdown = break_down_mean_drop(
        [(task.drop_breakdown, task.decision.weight) for task in tasks if task.drop_breakdown and task.decision]
    )
    return Judgement(decision, alarms, tuple(sorted(tasks, key=lambda task: task.name)), tuple(notes), breakdown)


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


def _filters(draft: Draft, margin: float) -> list[Raised]:
    own = draft.evidence.margin if draft.evidence else None
    return find_disagreement(draft.task.name, draft.filters, own or margin)

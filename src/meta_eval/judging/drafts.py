"""Tasks before the decision over all, and that decision: also by filters that disagree, and over groups of tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from meta_eval.judging.alarms import Raised, by_kind, caveats, vetoes
from meta_eval.judging.apart import mean_apart
from meta_eval.judging.decide import Evidence, decide
from meta_eval.judging.filters import Clusters, FilterDrop, disagreement
from meta_eval.judging.gate import Gate
from meta_eval.judging.model import Judgement, Task
from meta_eval.judging.sides import Side


@dataclass(frozen=True, slots=True)
class Draft:
    """A task before the decision over all.

    Attributes:
        task: What is said of it.
        evidence: Its drop; None where there is none.
        raised: Its alarms.
        pair: What the drop is taken of, aligned; None of a published number.
        clusters: What its docs share with others.
        filters: The drops by its other filters.
    """

    task: Task
    evidence: Evidence | None
    raised: tuple[Raised, ...]
    pair: tuple[Side, Side] | None = None
    clusters: Clusters | None = None
    filters: tuple[FilterDrop, ...] = ()


def conclude(
    drafts: Sequence[Draft],
    gate: Gate,
    wanted: Sequence[str],
    raised: Sequence[Raised],
    notes: Sequence[str] = (),
) -> Judgement:
    """The decision over the tasks that it is wanted on.

    A group that is wanted takes the place of its tasks, and of the groups within it. One that nobody named is decided
    beside them: it has no share of the mean, and is no less a reason against SHIP.
    """
    margin = gate.share or 0.0
    members = {one.task.name: one.task.members for one in drafts if one.task.members}
    known = {one.task.name: one.evidence for one in drafts if one.evidence is not None}
    of_groups = {task for name in wanted for task in members.get(name, ())}
    of_groups |= _overlapping({name: members[name] for name in wanted if name in members})
    found = by_kind([*raised, *(one for each in drafts for one in (*each.raised, *_filters(each, margin)))])
    alone = [known[name] for name in known if name in wanted and name not in of_groups]
    beside = [one for name, one in known.items() if (name in wanted and name in of_groups)]
    beside += [one for name, one in known.items() if not gate.tasks and name in members]
    asked = {*wanted, *of_groups}
    against = [
        replace(one, invalid=one.invalid | {name for name, tasks in members.items() if one.invalid & set(tasks)})
        for one in vetoes(found, asked)
    ]
    decision = decide(alone, margin, against, caveats(found, asked), beside)
    decided = {one.task: one for one in (*decision.tasks, *decision.groups)}
    tasks = []
    for one in drafts:
        task = replace(one.task, decision=decided.get(one.task.name))
        if one.evidence is not None and task.decision is None:
            task = replace(task, reason="it is not asked for")
        tasks.append(task)
    told = mean_apart([(one.apart, one.decision.weight) for one in tasks if one.apart and one.decision])
    return Judgement(decision, found, tuple(sorted(tasks, key=lambda one: one.name)), tuple(notes), told)


def _overlapping(groups: Mapping[str, Sequence[str]]) -> set[str]:
    """The groups that share a task with a larger one: a mean counts each doc once."""
    counted: set[str] = set()
    found = set()
    for name in sorted(groups, key=lambda one: (-len(groups[one]), one)):
        if counted.isdisjoint(groups[name]):
            counted.update(groups[name])
        else:
            found.add(name)
    return found


def _filters(one: Draft, margin: float) -> list[Raised]:
    own = one.evidence.margin if one.evidence else None
    return disagreement(one.task.name, one.filters, own or margin)

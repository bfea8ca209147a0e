"""Judges groups of tasks like tasks, by lm-eval's average of the group.

A results file has a group's tasks and their average, but not whether docs or tasks have equal weights. The weighting
that reproduces lm-eval's number is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from meta_eval import stats
from meta_eval.harness.lm_eval_run import Choice, Run, weighs_docs
from meta_eval.harness.results_file import GroupTotal
from meta_eval.judge.decide import TaskDrop
from meta_eval.judge.gate import Gate
from meta_eval.judge.judgement import Score, Task
from meta_eval.judge.task_assessment import TaskAssessment
from meta_eval.judge.task_comparison import measure_drop
from meta_eval.pack.manifest import Manifest, TaskEntry
from meta_eval.stats import Drop


def assess_groups(run: Run, assessments: Sequence[TaskAssessment], gate: Gate) -> list[TaskAssessment]:
    """Assess each group with all tasks compared, in a fraction that it averages.

    Args:
        run: The run with the groups.
        assessments: The assessments of its tasks.
        gate: The rules.
    """
    assessments_by_task = {assessment.task.name: assessment for assessment in assessments}
    group_assessments = []
    for group in run.groups.values():
        parts = [
            assessments_by_task[task]
            for task in group.tasks
            if task in assessments_by_task and assessments_by_task[task].pair
        ]
        if group.name not in assessments_by_task and len(parts) == len(group.tasks):
            group_assessments.append(_assess_group(group, parts, run, gate))
    return [assessment for assessment in group_assessments if assessment is not None]


def _assess_group(group: GroupTotal, parts: Sequence[TaskAssessment], run: Run, gate: Gate) -> TaskAssessment | None:
    docs = sum(part.task.docs for part in parts)
    for metric_key, aggregate in group.aggregates.items():
        drops = [measure_drop(part.pair, metric_key, part.clusters) if part.pair else None for part in parts]
        by_docs = weighs_docs([run.tasks[task] for task in group.tasks], metric_key, aggregate.value)
        known_drops = [drop for drop in drops if drop is not None]
        if len(known_drops) < len(parts) or by_docs is None:
            continue
        sizes = [drop.docs if by_docs else 1 for drop in known_drops]
        drop = stats.mean_drop(known_drops, [size / sum(sizes) for size in sizes])
        if all(drop.lower_is_better for drop in known_drops):
            drop = replace(drop, baseline=1 - drop.baseline, candidate=1 - drop.candidate, lower_is_better=True)
        how = f"{len(parts)} tasks, {'by docs' if by_docs else 'every task the same'}"
        value, interval = (drop.candidate, None) if run.repeats else (aggregate.value, aggregate.interval)
        task = Task(
            group.name, None, docs, None, metric=metric_key, baseline_label=parts[0].task.baseline_label,
            scores=(Score(metric_key, how, docs, value, interval, None),), members=group.tasks,
            lower_is_better=drop.lower_is_better, runs=min(part.task.runs for part in parts),
        )  # fmt: skip
        return TaskAssessment(task, _combine_drops(group.name, drop, parts, gate), ())
    return None


def _combine_drops(name: str, drop: Drop, parts: Sequence[TaskAssessment], gate: Gate) -> TaskDrop:
    task_drops = [part.task_drop for part in parts if part.task_drop is not None]
    baseline_repeats = [part.baseline_repeats for part in task_drops if part.baseline_repeats is not None]
    return TaskDrop(
        name, drop, gate.task_rules(name).margin_fraction, min((task_drop.repeats for task_drop in task_drops),
        default=1), min(baseline_repeats) if len(baseline_repeats) == len(parts) else None,
    )  # fmt: skip


def choose_entries(
    runs: Sequence[Run], manifest: Manifest | None, choice: Choice
) -> tuple[dict[str, TaskEntry], dict[str, tuple[str, ...]], frozenset[str]]:
    """The chosen tasks of the pack, the tasks of each group that a gate may name, and the left-out tasks."""
    packed = dict(manifest.groups) if manifest else {}
    groups = packed | {name: group.tasks for run in runs for name, group in run.groups.items()}
    for run in runs:
        packed |= run.known_groups
    names = choice.of(manifest.tasks, packed) if manifest else []
    entries = {name: manifest.tasks[name] for name in names} if manifest else {}
    left_out = {name for run in runs for name in run.left_out} | ({*manifest.tasks} - {*entries} if manifest else set())
    chosen_groups = {name: tuple(task for task in tasks if task not in left_out) for name, tasks in groups.items()}
    return entries, {name: tasks for name, tasks in chosen_groups.items() if tasks}, frozenset(left_out)


def list_decided_names(
    gate: Gate, groups: Mapping[str, Sequence[str]], assessments: Sequence[TaskAssessment], default: Sequence[str]
) -> list[str]:
    """The names to decide on: those of the gate, with groups without a score replaced by their tasks; else the
    default."""
    figures = {assessment.task.name for assessment in assessments if assessment.task.members}
    names: dict[str, None] = {}
    for name in gate.tasks:
        names.update(dict.fromkeys(groups[name] if name in groups and name not in figures else (name,)))
    return list(names) or list(default)

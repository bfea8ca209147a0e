"""Groups of tasks: pairs of their own, by lm-eval's average of the group.

A results file has a group's tasks and their average, but not whether docs or tasks have equal weights. The weighting
that reproduces lm-eval's number is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from meta_eval import stats
from meta_eval.harness.choice import Choice
from meta_eval.harness.lm_eval_run import Run, TaskRun, weighs_docs
from meta_eval.harness.results_file import GroupTotal
from meta_eval.judge.decision import LmEvalAverage, Score, TaskDecision
from meta_eval.judge.doc_pairs import measure_drop
from meta_eval.judge.gate import Gate
from meta_eval.judge.pair import TaskPair
from meta_eval.pack.manifest import Manifest, TaskEntry
from meta_eval.pack.records.task_groups import list_task_groups


def pair_groups(run: Run, tasks: Sequence[TaskPair], gate: Gate) -> list[TaskPair]:
    """The pair of each group with all tasks compared, in a fraction that it averages.

    Args:
        run: The run with the groups.
        tasks: Its tasks.
        gate: The rules.
    """
    by_name = {pair.name: pair for pair in tasks}
    pairs = []
    for group in run.groups.values():
        parts = [by_name[task] for task in group.tasks if task in by_name and by_name[task].drop_sides]
        if group.name not in by_name and len(parts) == len(group.tasks):
            pairs.append(_pair_group(group, parts, run, gate))
    return [pair for pair in pairs if pair is not None]


def _pair_group(group: GroupTotal, parts: Sequence[TaskPair], run: Run, gate: Gate) -> TaskPair | None:
    docs = sum(part.shown.docs for part in parts)
    for metric_key, aggregate in group.aggregates.items():
        drops = [
            measure_drop(part.drop_sides, metric_key, part.clusters) if part.drop_sides else None for part in parts
        ]
        by_docs = weighs_docs([run.tasks[task] for task in group.tasks], metric_key, aggregate.value)
        known_drops = [
            replace(drop, run_variance=part.drop.run_variance if part.has_drop else 0.0)
            for drop, part in zip(drops, parts, strict=True)
            if drop is not None
        ]
        if len(known_drops) < len(parts) or by_docs is None:
            continue
        sizes = [drop.docs if by_docs else 1 for drop in known_drops]
        drop = stats.mean_drop(known_drops, [size / sum(sizes) for size in sizes])
        if all(drop.lower_is_better for drop in known_drops):
            drop = replace(drop, baseline=1 - drop.baseline, candidate=1 - drop.candidate, lower_is_better=True)
        how = f"{len(parts)} tasks, {'by docs' if by_docs else 'every task the same'}"
        value, interval = (drop.candidate, None) if run.repeats else (aggregate.value, aggregate.interval)
        task = TaskDecision(
            group.name, None, docs, None, metric=metric_key, baseline_label=parts[0].shown.baseline_label,
            scores=(Score(metric_key, how, docs, value, interval, None),), members=group.tasks,
            lower_is_better=drop.lower_is_better, runs=min(part.shown.runs for part in parts),
        )  # fmt: skip
        baseline_repeats = [
            part.baseline_repeats for part in parts if part.has_drop and part.baseline_repeats is not None
        ]
        return TaskPair(
            group.name,
            measured_drop=drop,
            margin=gate.task_rules(group.name).margin_fraction,
            repeats=min((part.repeats for part in parts if part.has_drop), default=1),
            baseline_repeats=min(baseline_repeats) if len(baseline_repeats) == len(parts) else None,
            figures=task,
        )
    return None


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
    gate: Gate, groups: Mapping[str, Sequence[str]], pairs: Sequence[TaskPair], default: Sequence[str]
) -> list[str]:
    """The names to decide on: those of the gate, with groups without a score replaced by their tasks; else the
    default."""
    figures = {pair.name for pair in pairs if pair.shown.members}
    names: dict[str, None] = {}
    for name in gate.chosen:
        names.update(dict.fromkeys(groups[name] if name in groups and name not in figures else (name,)))
    return list(names) or list(default)


def compute_group_scores(manifest: Manifest, runs: Mapping[str, TaskRun]) -> tuple[LmEvalAverage, ...]:
    """Compute the scores of the groups of a pack.

    Args:
        manifest: The manifest of the pack.
        runs: The runs by task.
    """
    return tuple(
        LmEvalAverage(score.group, score.label, score.value, None, is_fraction=True)
        for groups in list_task_groups()
        for score in groups.compute_scores(manifest, runs)
    )

"""Groups of tasks, judged as tasks are: by the average that lm-eval takes of the group.

A results file says which tasks a group has and what they average to, and not whether docs or tasks weigh the same. So
the one of both that gives lm-eval's own number is taken.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from meta_eval import stats
from meta_eval.judging.decide import Evidence
from meta_eval.judging.drafts import Draft
from meta_eval.judging.gate import Gate
from meta_eval.judging.model import Score, Task
from meta_eval.judging.sides import both
from meta_eval.pack.manifest import Manifest, TaskEntry
from meta_eval.results.choice import Choice
from meta_eval.results.results_file import Group
from meta_eval.results.run import Run
from meta_eval.stats import Drop
from meta_eval.thresholds import SAME_VALUE


def draft_groups(run: Run, drafts: Sequence[Draft], gate: Gate) -> list[Draft]:
    """A draft for each group of a run whose tasks are all compared, in a share that it averages.

    Args:
        run: Its groups.
        drafts: Of its tasks.
        gate: What is asked.
    """
    known = {one.task.name: one for one in drafts}
    found = []
    for group in run.groups.values():
        parts = [known[task] for task in group.tasks if task in known and known[task].pair]
        if group.name not in known and len(parts) == len(group.tasks):
            found.append(_draft(group, parts, run, gate))
    return [one for one in found if one is not None]


def _draft(group: Group, parts: Sequence[Draft], run: Run, gate: Gate) -> Draft | None:
    docs = sum(one.task.docs for one in parts)
    for spec, aggregate in group.aggregates.items():
        drops = [_drop(one, spec) for one in parts]
        weighs_docs = _weighs_docs(run, group.tasks, spec, aggregate.value)
        whole = [one for one in drops if one is not None]
        if len(whole) < len(parts) or weighs_docs is None:
            continue
        sizes = [one.docs if weighs_docs else 1 for one in whole]
        drop = stats.mean_drop(whole, [size / sum(sizes) for size in sizes])
        if all(one.lower_is_better for one in whole):
            drop = replace(drop, before=1 - drop.before, after=1 - drop.after, lower_is_better=True)
        how = f"{len(parts)} tasks, {'by docs' if weighs_docs else 'every task the same'}"
        value, interval = (drop.after, None) if run.repeats else (aggregate.value, aggregate.interval)
        task = Task(
            group.name, None, docs, None, metric=spec, against=parts[0].task.against,
            scores=(Score(spec, how, docs, value, interval, None),), members=group.tasks,
            lower_is_better=drop.lower_is_better, runs=min(one.task.runs for one in parts),
        )  # fmt: skip
        return Draft(task, _evidence(group.name, drop, parts, gate), ())
    return None


def _evidence(name: str, drop: Drop, parts: Sequence[Draft], gate: Gate) -> Evidence:
    known = [one.evidence for one in parts if one.evidence is not None]
    baseline_runs = [one.baseline_runs for one in known if one.baseline_runs is not None]
    return Evidence(
        name, drop, gate.rule(name).share, min((one.runs for one in known), default=1),
        min(baseline_runs) if len(baseline_runs) == len(parts) else None,
    )  # fmt: skip


def _drop(one: Draft, spec: str) -> Drop | None:
    found = both(*one.pair, spec) if one.pair else None
    if one.pair is None or found is None:
        return None
    names = one.clusters([one.pair[1].docs[place] for place in found[1].positions]) if one.clusters else None
    drop = stats.paired_drop(found[0].shares, found[1].shares, found[1].labels, names)
    return drop.turned() if found[1].lower_is_better else drop


def _weighs_docs(run: Run, tasks: Sequence[str], spec: str, value: float) -> bool | None:
    """Whether lm-eval's average of a group is one over docs, or over tasks; None where it is neither."""
    parts = [run.tasks[task] for task in tasks]
    if any(spec not in one.aggregates for one in parts):
        return None
    values = [one.aggregates[spec].value for one in parts]
    sizes = [len(one.docs) or one.provenance.docs_run or 0 for one in parts]
    by_docs = math.fsum(size * one for size, one in zip(sizes, values, strict=True)) / (sum(sizes) or 1)
    if math.isclose(by_docs, value, abs_tol=SAME_VALUE):
        return True
    return False if math.isclose(stats.mean(values), value, abs_tol=SAME_VALUE) else None


def chosen(
    runs: Sequence[Run], manifest: Manifest | None, choice: Choice
) -> tuple[dict[str, TaskEntry], dict[str, tuple[str, ...]], frozenset[str]]:
    """Of what was chosen the pack's tasks, and the tasks of each group that a gate may name; and what was left out."""
    packed = dict(manifest.groups) if manifest else {}
    groups = packed | {name: group.tasks for run in runs for name, group in run.groups.items()}
    for run in runs:
        packed |= run.known_groups
    names = choice.of(manifest.tasks, packed) if manifest else []
    entries = {name: manifest.tasks[name] for name in names} if manifest else {}
    left_out = {name for run in runs for name in run.left_out} | ({*manifest.tasks} - {*entries} if manifest else set())
    kept = {name: tuple(task for task in tasks if task not in left_out) for name, tasks in groups.items()}
    return entries, {name: tasks for name, tasks in kept.items() if tasks}, frozenset(left_out)


def decided_on(
    gate: Gate, groups: Mapping[str, Sequence[str]], drafts: Sequence[Draft], default: Sequence[str]
) -> list[str]:
    """The names to decide on: those of the gate, its groups that have no figure as their tasks; else the default."""
    figures = {one.task.name for one in drafts if one.task.members}
    found: dict[str, None] = {}
    for name in gate.tasks:
        found.update(dict.fromkeys(groups[name] if name in groups and name not in figures else (name,)))
    return list(found) or list(default)

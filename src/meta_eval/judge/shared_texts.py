"""Docs that share a long text: they become clusters where there are enough, and are named where there are not."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from meta_eval.base.pack_names import join_names
from meta_eval.base.thresholds import NAMED
from meta_eval.harness.clusters import make_given_key, name_clusters
from meta_eval.harness.doc_results import DocResult
from meta_eval.harness.lm_eval_run import Run, TaskRun
from meta_eval.harness.shared_texts import SharedTexts, TextCounts, choose_cluster_field, list_uncounted
from meta_eval.judge.alarm_kinds import AlarmOccurrence, RaisedAlarm
from meta_eval.judge.gate import Gate


def cluster_shared_texts(run: Run, gate: Gate) -> Run:
    """The run with the docs of a text as clusters, in tasks whose margin they leave enough clusters for.

    Args:
        run: The run, whose clusters are those that were given, and copies of a doc.
        gate: The rules, with the margin of each task.
    """
    if not any(task_run.shared_texts for task_run in run.tasks.values()):
        return run

    def cluster(task_run: TaskRun) -> TaskRun:
        margin = gate.task_rules(task_run.task).margin_fraction or gate.margin_fraction
        chosen = choose_cluster_field(task_run.shared_texts, len(task_run.docs), margin)
        if chosen is None:
            return task_run
        return replace(task_run, docs=_name(task_run.docs, chosen), cluster_field=chosen.name)

    return replace(
        run,
        tasks={name: cluster(task_run) for name, task_run in run.tasks.items()},
        repeats={name: tuple(map(cluster, runs)) for name, runs in run.repeats.items()},
    )


def _name(docs: Sequence[DocResult], chosen: SharedTexts) -> tuple[DocResult, ...]:
    keys = []
    for doc in docs:
        text = chosen.texts.get(doc.doc_id)
        given = [] if text is None else [make_given_key(f"{chosen.name} {text}")]
        keys.append(given if doc.cluster is None else [*given, doc.cluster])
    return tuple(replace(doc, cluster=name) for doc, name in zip(docs, name_clusters(keys), strict=True))


def note_shared_texts(tasks: Iterable[TaskRun]) -> list[str]:
    """A note on the tasks in which docs with the same text are a cluster; empty if there are none.

    Args:
        tasks: The newest run of each task that is compared, after `cluster_shared_texts`.
    """
    named = [f"{task_run.task} by {task_run.cluster_field}" for task_run in tasks if task_run.cluster_field]
    return [f"docs that share a text count as one cluster: {join_names(named, NAMED)}"] if named else []


def _describe(counts: TextCounts) -> str:
    return f"{counts.texts:,} texts in {counts.docs:,} docs"


def find_uncounted_texts(tasks: Iterable[TaskRun]) -> Iterator[RaisedAlarm]:
    """The alarm that many docs share a text and count as independent, with what takes them together.

    Args:
        tasks: The newest run of each task that is compared, after `cluster_shared_texts`.
    """
    named = []
    for task_run in tasks:
        clusters = {doc.doc_id: doc.cluster for doc in task_run.docs}
        for shared in list_uncounted(task_run.shared_texts, clusters):
            option = f"--cluster {shlex.quote(f'{task_run.task}={shared.name}')}"
            named.append(f"{option} ({_describe(shared.counts)})")
        for counts in task_run.uncounted_texts:
            key = f"cluster: {{{task_run.task}: {counts.name}}} in the configuration of the pack"
            named.append(f"{key} ({_describe(counts)})")
    if named:
        yield "texts", AlarmOccurrence(None, note=join_names(named, NAMED), veto=False)

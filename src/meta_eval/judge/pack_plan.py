"""What a pack tells of its tasks before anything is asked: docs, subtasks and clusters of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from meta_eval.base.errors import PackError
from meta_eval.base.inputs import describe_error, read_table
from meta_eval.base.thresholds import CAP, PLANNED_FLIPS, SAME_VERDICT
from meta_eval.harness.clusters import make_given_key, name_clusters
from meta_eval.harness.doc_results import DocResult, ResultsError
from meta_eval.harness.lm_eval_run import read_run
from meta_eval.harness.scores import compute_scores
from meta_eval.harness.shared_questions import find_cluster_names
from meta_eval.harness.task_run import TaskRun
from meta_eval.judge.engine_noise import pair_second_answers
from meta_eval.judge.gate import Gate
from meta_eval.judge.pair import find_verdict_metric
from meta_eval.judge.planning import PackPlan, PlannedTask, plan_answers, plan_tasks
from meta_eval.pack.manifest import Manifest, TaskEntry, read_manifest
from meta_eval.stats.identical import correlate_changes, expect_copy


@dataclass(frozen=True, slots=True)
class TaskFlips:
    """How docs of a task flip between two answers of one model.

    Attributes:
        share: The share of docs that flip, 0 to 1.
        alike: The correlation of the changes of a cluster's docs, 0 to 1; None where there are too few.
    """

    share: float
    alike: float | None = None


# The share of docs that flip, 0 to 1, of all tasks; or how those of each task flip.
Flips = float | Mapping[str, TaskFlips]

# The columns of a pack's docs that say which docs are not independent, and of which subtask each is.
_COLUMNS = ("subtask_name", "cluster", "input_question_hash", "gold")


def plan_pack(
    pack: Path,
    gate: Gate | None = None,
    flips: Flips | None = None,
    *,
    sampled_flips: Flips | None = None,
    whole: bool = True,
) -> PackPlan:
    """Plan what a run of a pack will be able to show.

    Args:
        pack: The folder that prepare wrote.
        gate: Rules to plan by; None for the pack's margin and weights.
        flips: The share of docs that an identical copy flips, 0 to 1; or of each task for which it was measured.
            None for `PLANNED_FLIPS`, which is assumed.
        sampled_flips: The same between two single answers that were drawn at a temperature; None to plan no sampled
            answers.
        whole: Whether to count how often the decision is SHIP, which takes seconds.

    Raises:
        PackError: There is no pack, or a file of docs cannot be read.
        ConfigError: The rules name an unknown task.
    """
    manifest = read_manifest(pack)
    gate = (gate or Gate()).complete(manifest, manifest.tasks, manifest.groups)
    decided = gate.margin_fraction, gate.cap_fraction or CAP, gate.weights or "precision"
    docs = _read_docs(pack, manifest, gate)
    rules = gate.expand_groups(manifest.groups)
    tasks = [_planned(*of_task, rules, flips) for of_task in docs]
    plan = plan_tasks(tasks, *decided, whole=whole)
    if any(task.is_open for task in tasks):
        together = [_planned(*of_task, rules, flips, alike=1.0) for of_task in docs]
        plan = replace(plan, alike=plan_tasks(together, *decided, whole=whole))
    if sampled_flips is None:
        return plan
    return replace(plan, sampled=plan_answers([_planned(*of_task, rules, sampled_flips) for of_task in docs], *decided))


def measure_flips(results: Sequence[Path]) -> dict[str, TaskFlips]:
    """How docs flip between two answers of one model, for each task that was answered twice.

    From second answers of a run (`run --rerun`), else from the two newest of several runs. Half a flip is added to what
    was seen, so that none among a few docs is not taken for none at all (Jeffreys).

    Args:
        results: Folders or files of one model's runs.

    Raises:
        UserError: They cannot be read, or no task was answered twice.
    """
    run = read_run(list(results), repeats=True)
    flips: dict[str, TaskFlips] = {}
    for name, task in run.tasks.items():
        pairs = pair_second_answers(task) or _pair_runs(run.all_runs(name))
        if pairs:
            docs, changes = pairs
            clusters = find_cluster_names(name, docs, frozenset())
            share = (sum(abs(change) > SAME_VERDICT for change in changes) + 0.5) / (len(docs) + 1)
            flips[name] = TaskFlips(share, None if clusters is None else correlate_changes(changes, clusters))
    if not flips:
        raise ResultsError(
            "no task was answered twice", where=str(results[0]), hint="Use `meta-eval run --rerun N`, or several runs"
        )
    return flips


def _pair_runs(runs: Sequence[TaskRun]) -> tuple[list[DocResult], list[float]] | None:
    """The docs of the two newest runs, and the loss of each from one to the other."""
    metric_key = find_verdict_metric(runs[0], None) if len(runs) > 1 else None
    if metric_key is None:
        return None
    first, second = (compute_scores(run.docs, metric_key, run.lower_is_better) for run in runs[:2])
    if first is None or second is None or first.doc_indices != second.doc_indices:
        return None
    docs = [runs[0].docs[position] for position in first.doc_indices]
    return docs, [a - b for a, b in zip(first.doc_scores, second.doc_scores, strict=True)]


def _read_docs(
    pack: Path, manifest: Manifest, gate: Gate
) -> list[tuple[str, TaskEntry, Mapping[str, Sequence[str | None]]]]:
    """The tasks to plan, with the columns of their docs."""
    gate, names = gate.choose(list(manifest.tasks), manifest.groups)
    names_to_plan = gate.expand_groups(manifest.groups).tasks or names
    return [
        (name, entry, _read_columns(pack, entry)) for name, entry in manifest.tasks.items() if name in names_to_plan
    ]


def _planned(
    name: str, entry: TaskEntry, columns: Mapping[str, Sequence[str | None]], gate: Gate,
    flips: Flips | None, *, alike: float = 0.0,
) -> PlannedTask:  # fmt: skip
    """A task as its docs tell. ``alike`` is the correlation within clusters where none was measured."""
    rule = gate.task_rules(name)
    measured = flips.get(name) if isinstance(flips, Mapping) else None if flips is None else TaskFlips(flips)
    share, correlation = (measured.share, measured.alike) if measured else (PLANNED_FLIPS, None)
    alike = alike if correlation is None else correlation
    column = columns.get("subtask_name", ())
    labels = [label for label in column if label is not None]
    several = len(set(labels)) > 1 and len(labels) == len(column)
    macro = several and _averages_subtasks(entry)
    clusters = _clusters(columns)
    expected = expect_copy(entry.docs, share, labels if macro else None, clusters, alike)
    parts, subtask_weights = {}, {}
    places: dict[str, list[int]] = {}
    for place, label in enumerate(labels if several else ()):
        places.setdefault(label, []).append(place)
    for subtask, docs in places.items():
        of_docs = clusters and [clusters[place] for place in docs]
        parts[subtask] = expect_copy(len(docs), share, clusters=of_docs, alike=alike)
        subtask_weights[subtask] = 1 / len(places) if macro else len(docs) / entry.docs
    return PlannedTask(
        name,
        expected,
        parts,
        subtask_weights if clusters is None else {},
        rule.margin_fraction,
        rule.cap_fraction,
        measured is not None,
        alike,
        correlation is not None,
    )


def _averages_subtasks(entry: TaskEntry) -> bool:
    """Whether the metric of the drop weighs subtasks alike: the first that is published for such docs."""
    published = sorted(entry.reference_scores, key=lambda number: not number.same_settings)
    return bool(published) and published[0].averaging == "macro"


def _clusters(columns: Mapping[str, Sequence[str | None]]) -> list[str] | None:
    """The cluster of each doc; None where no doc shares anything with another."""
    stored = columns.get("cluster", ())
    questions = list(zip(columns.get("input_question_hash", ()), columns.get("gold", ()), strict=False))
    keys = [
        [
            *([make_given_key(stored[place] or "")] if stored and stored[place] else []),
            *([f"{questions[place][0]} {questions[place][1]}"] if questions and questions[place][0] else []),
        ]
        for place in range(max(len(stored), len(questions)))
    ]
    names = name_clusters(keys)
    if all(name is None for name in names):
        return None
    return [f"doc {place}" if name is None else f"cluster {name}" for place, name in enumerate(names)]


def _read_columns(pack: Path, entry: TaskEntry) -> dict[str, list[str | None]]:
    if entry.docs_file is None:
        return {}
    names = [name for name in _COLUMNS if name in entry.columns]
    path = pack / entry.docs_file
    try:
        table = read_table(path, columns=names)
    except Exception as error:  # arrow raises its own kinds
        raise PackError(f"cannot be read: {describe_error(error)}", where=str(path)) from None
    return {
        name: [None if value is None else str(value) for value in table.column(name).to_pylist()] for name in names
    }  # fmt: skip

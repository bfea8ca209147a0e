"""Two runs over the same docs, such as a model and its quantised twin, doc by doc. All scores in percent.

A doc of one run is the doc of the other that has the same question and gold by Meta's hashes, or lm-eval's of the whole
doc, whatever its number is; of several the one with the same prompt. What only one run has is left out, and counted.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from meta_eval import stats
from meta_eval.judging.alarms import changed_prompts
from meta_eval.judging.judge import reading_of, verdict_spec
from meta_eval.pack.manifest import Manifest
from meta_eval.results.answers import Doc, ResultsError
from meta_eval.results.recorded import SAME_VERDICT
from meta_eval.results.run import Run, TaskRun
from meta_eval.results.scores import Scores, scores


@dataclass(frozen=True, slots=True)
class Difference:
    """Two scores over the same docs.

    Attributes:
        n: Docs.
        before, after: The scores of the first and of the second run.
        difference: Second less first, in points, with its 95 % interval.
        lost: Positions in ``TaskComparison.pairs`` of the docs that only the first run has right, or more right.
        won: The reverse.
        p: Two-sided, of no difference, from the same statistic as the difference and its interval: under 5 % exactly
            where the interval leaves out 0. See `stats.Drop`.
        p_corrected: The same after Holm's correction: of a task for the number of tasks, of a subtask for the number of
            subtasks of its task.
        recovery: The second score in percent of the first, with its 95 % interval; None where there is none.
        detectable: The smallest drop that docs like these find with 80 % power.
    """

    n: int
    before: float
    after: float
    difference: float
    interval: stats.Interval
    lost: tuple[int, ...]
    won: tuple[int, ...]
    p: float
    p_corrected: float
    recovery: float | None
    recovery_interval: stats.Interval | None
    detectable: float


@dataclass(frozen=True, slots=True)
class TaskComparison:
    """One task of both runs.

    Attributes:
        task: Its name.
        metric: The score, ``metric,filter``; ``verdict`` the metric of flips and p.
        reading: The metric that Meta's ``is_correct`` is the like of where it is no verdict; None where it is one.
        pairs: The docs of both, first run first.
        only_before, only_after: Docs that only one run has.
        docs_of_task: How many docs the task has; None where nobody wrote it down.
        unlike: What was not the same in both runs beside the model, in one sentence; None when nothing is known.
        total: All docs.
        subtasks: By name, in the verdict's metric.
    """

    task: str
    metric: str
    verdict: str
    reading: str | None
    pairs: tuple[tuple[Doc, Doc], ...]
    only_before: int
    only_after: int
    docs_of_task: int | None
    unlike: str | None
    total: Difference
    subtasks: tuple[tuple[str, Difference], ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Every task of both runs, by name; the tasks that only one has samples of; those without a share to compare."""

    tasks: tuple[TaskComparison, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    without_share: tuple[str, ...] = ()


def compare(before: Run, after: Run, manifest: Manifest | None = None) -> Comparison:
    """Compare two runs, task by task.

    Args:
        before: The baseline.
        after: What is held against it.
        manifest: The pack of both, which names each task's published metric; else the runs say it.

    Raises:
        ResultsError: The runs have no task in common, or a task has no doc or no metric in common.
    """
    first = {task for task, result in before.tasks.items() if result.docs}
    second = {task for task, result in after.tasks.items() if result.docs}
    if not first & second:
        raise ResultsError(
            f"the runs have no task in common: {', '.join(sorted(first)) or 'none'}, and "
            f"{', '.join(sorted(second)) or 'none'}",
            hint="Both need samples of the same task: run lm_eval with --log_samples",
        )
    both = sorted(first & second)
    entries = manifest.tasks if manifest else {}
    bare = [task for task in both if verdict_spec(before.tasks[task], entries.get(task)) is None]
    chosen = [task for task in both if task not in bare] or both
    found = [_task(task, before.tasks[task], after.tasks[task], manifest) for task in chosen]
    corrected = stats.holm([one.total.p for one in found])
    tasks = tuple(
        replace(one, total=replace(one.total, p_corrected=p)) for one, p in zip(found, corrected, strict=True)
    )
    return Comparison(tasks, tuple(sorted(first - second)), tuple(sorted(second - first)), tuple(bare))


def _task(task: str, before: TaskRun, after: TaskRun, manifest: Manifest | None) -> TaskComparison:
    entry = manifest.tasks.get(task) if manifest else None
    verdict = verdict_spec(before, entry)
    published = [number.our_metric for number in entry.published] if entry else before.published_metrics
    pairs = _pairs(before.docs, after.docs)
    where = f"{before.samples_file} and {after.samples_file}"
    if not pairs:
        raise ResultsError(f"{task}: the runs have no doc in common", where=where, hint="Run both with one pack")
    for metric in (*published, verdict):
        if metric is None or verdict is None:
            continue
        scored = _both(pairs, metric), _both(pairs, verdict)
        if scored[0] is not None and scored[1] is not None:
            break
    else:
        raise ResultsError(f"{task}: the runs have no metric in common that is a share", where=where)
    total = _difference(scored[0], scored[1], range(len(pairs)))
    return TaskComparison(
        task=task,
        metric=metric,
        verdict=verdict,
        reading=reading_of(before, entry),
        pairs=tuple(pairs),
        only_before=len(before.docs) - len(pairs),
        only_after=len(after.docs) - len(pairs),
        docs_of_task=entry.docs if entry else before.provenance.docs_of_task,
        unlike=_unlike(before, after, pairs),
        total=total,
        subtasks=_subtasks(pairs, verdict),
    )


def _unlike(before: TaskRun, after: TaskRun, pairs: Sequence[tuple[Doc, Doc]]) -> str | None:
    for what, one, other in (
        ("generation settings", before.provenance.gen_kwargs, after.provenance.gen_kwargs),
        ("a chat template", before.provenance.chat_template, after.provenance.chat_template),
        ("a system instruction", before.provenance.system_instruction, after.provenance.system_instruction),
        ("changed prompts", changed_prompts(before.docs), changed_prompts(after.docs)),
    ):
        if one != other:
            return f"{what}: {one or 'none'} in the first run, {other or 'none'} in the second"
    prompts = sum(a.prompt_hashes != b.prompt_hashes for a, b in pairs)
    return f"{prompts} of {len(pairs)} docs had another prompt in the second run" if prompts else None


def _pairs(before: Sequence[Doc], after: Sequence[Doc]) -> list[tuple[Doc, Doc]]:
    """Docs that are the same, those with the same prompt first; of several the first with the first, and so on."""
    found: dict[int, Doc] = {}
    left = list(after)
    for key in (_key_with_prompt, _key):
        waiting: dict[Hashable, list[Doc]] = {}
        for doc in reversed(left):
            waiting.setdefault(key(doc), []).append(doc)
        for index, doc in enumerate(before):
            if index not in found and (same := waiting.get(key(doc))):
                found[index] = same.pop()
        left = [doc for docs in waiting.values() for doc in reversed(docs)]
    return [(doc, found[index]) for index, doc in enumerate(before) if index in found]


def _key(doc: Doc) -> Hashable:
    return doc.question_hash, doc.gold


def _key_with_prompt(doc: Doc) -> Hashable:
    return doc.question_hash, doc.gold, doc.prompt_hashes


def _both(pairs: Sequence[tuple[Doc, Doc]], spec: str) -> tuple[Scores, Scores] | None:
    first, second = scores([a for a, _ in pairs], spec), scores([b for _, b in pairs], spec)
    return (first, second) if first and second and first.positions == second.positions else None


def _subtasks(pairs: Sequence[tuple[Doc, Doc]], verdict: str) -> tuple[tuple[str, Difference], ...]:
    groups: dict[str, list[int]] = {}
    for index, (doc, _) in enumerate(pairs):
        if doc.subtask is not None:
            groups.setdefault(doc.subtask, []).append(index)
    found = []
    for name, indices in sorted(groups.items()):
        both = _both([pairs[index] for index in indices], verdict)
        if both is not None:
            found.append((name, _difference(both, both, indices)))
    corrected = stats.holm([one.p for _, one in found])
    return tuple((name, replace(one, p_corrected=p)) for (name, one), p in zip(found, corrected, strict=True))


def _difference(score: tuple[Scores, Scores], verdict: tuple[Scores, Scores], indices: Sequence[int]) -> Difference:
    """``indices``: which pair of the task each pair given here is."""
    drop = stats.paired_drop(score[0].shares, score[1].shares, score[0].labels)
    places = [indices[position] for position in verdict[0].positions]
    changes = [b - a for a, b in zip(verdict[0].raw, verdict[1].raw, strict=True)]
    lost = tuple(place for place, change in zip(places, changes, strict=True) if change < -SAME_VERDICT)
    won = tuple(place for place, change in zip(places, changes, strict=True) if change > SAME_VERDICT)
    p, recovery = drop.p(), drop.recovery_interval()
    return Difference(
        n=len(changes),
        before=100 * drop.before,
        after=100 * drop.after,
        difference=-100 * drop.value,
        interval=drop.interval().scaled(-100),
        lost=lost,
        won=won,
        p=p,
        p_corrected=p,
        recovery=None if drop.recovery is None else 100 * drop.recovery,
        recovery_interval=None if recovery is None else recovery.scaled(100),
        detectable=100 * drop.detectable(),
    )

"""Two runs of different harnesses: the same benchmark has another name, and its verdict another metric.

The names of the baseline are given to the candidate, and docs are paired by the text of their question. That is no
reason to trust the pair: each harness has graders of its own, and `describe_harnesses` says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from meta_eval.base.inputs import parse_json
from meta_eval.harness.doc_results import DocResult
from meta_eval.harness.lm_eval_run import Run, TaskRun
from meta_eval.harness.provenance import Provenance
from meta_eval.harness.sample_parser import read_arguments
from meta_eval.judge.pair import find_verdict_metric

# The harness of files that name none.
_OWN = "lm-eval"


def name_harness(run: Run) -> str:
    """The harness that recorded a run; that of its first task."""
    return next((task.provenance.harness or _OWN for task in run.tasks.values()), _OWN)


def align_harnesses(baseline: Run, candidate: Run) -> Run:
    """Give the tasks and metrics of a run the names that another harness's run has.

    A single task on each side is taken for the same benchmark. Of a task of both, the metric that says whether an
    answer is right is taken for the same, and docs with the same question are the same doc.

    Returns:
        The candidate; unchanged if both are of one harness.
    """
    if name_harness(baseline) == name_harness(candidate):
        return candidate
    tasks = dict(candidate.tasks)
    if not baseline.tasks.keys() & tasks.keys() and len(baseline.tasks) == len(tasks) == 1:
        tasks = {name: replace(task, task=name) for name, task in zip(baseline.tasks, tasks.values(), strict=True)}
    renamed = len(tasks) == 1 and tasks.keys() != candidate.tasks.keys()
    repeats = dict(zip(tasks, candidate.repeats.values(), strict=False)) if renamed else dict(candidate.repeats)
    for name in baseline.tasks.keys() & tasks.keys():
        first = baseline.tasks[name]
        tasks[name] = _align_docs(first, _align_metric(first, tasks[name]))
        repeats[name] = tuple(_align_docs(first, _align_metric(first, run)) for run in repeats.get(name, ()))
    return replace(candidate, tasks=tasks, repeats={name: runs for name, runs in repeats.items() if runs})


def _align_metric(baseline: TaskRun, candidate: TaskRun) -> TaskRun:
    """The candidate, with its verdict under the baseline's name; as it is where it has that name, or no verdict."""
    wanted, own = find_verdict_metric(baseline, None), find_verdict_metric(candidate, None)
    if wanted is None or own is None or wanted == own:
        return candidate
    return replace(
        candidate,
        docs=tuple(_rename(doc, own, wanted) for doc in candidate.docs),
        filters=(wanted.partition(",")[2],),
        aggregates={},
    )


def _rename(doc: DocResult, own: str, wanted: str) -> DocResult:
    metric, _, filter_name = own.partition(",")
    new_metric, _, new_filter = wanted.partition(",")
    result = doc.filter_results.get(filter_name)
    if result is None or metric not in result.metrics:
        return replace(doc, filter_results={})
    each = {new_metric: result.verdict_of_each[metric]} if metric in result.verdict_of_each else {}
    renamed = replace(result, metrics={new_metric: result.metrics[metric]}, verdict_of_each=each)
    return replace(doc, filter_results={new_filter: renamed})


def _align_docs(baseline: TaskRun, candidate: TaskRun) -> TaskRun:
    """The candidate, whose docs have the keys of the baseline's docs with the same question. Where the whole prompt is
    the same, it is the same prompt; otherwise the prompts differ."""
    prompts = dict(_read_prompts(baseline))
    counts = Counter(question for question, _ in prompts.values())
    by_question = {
        prompts[place][0]: (doc, prompts[place][1]) for place, doc in enumerate(baseline.docs) if place in prompts
    }
    own = dict(_read_prompts(candidate))
    own_counts = Counter(question for question, _ in own.values())
    docs = []
    for place, doc in enumerate(candidate.docs):
        question, whole = own.get(place, ("", ()))
        same, whole_of_same = by_question.get(question, (None, ()))
        if same is None or counts[question] > 1 or own_counts[question] > 1:
            docs.append(doc)
            continue
        sent = same.sent_hash if whole == whole_of_same else "another prompt"
        docs.append(
            replace(
                doc,
                question_hash=same.question_hash,
                gold=same.gold,
                sent_hash=sent,
                prompt_hashes=same.prompt_hashes,
                prompt_matches=same.prompt_matches,
            )
        )
    return replace(candidate, docs=tuple(docs))


def _read_prompts(task: TaskRun) -> Iterator[tuple[int, tuple[str, tuple[Any, ...]]]]:
    """By place of a doc the text of its question, and its whole prompt: role and text of each message."""
    if task.samples_file is None and task.lines is None:
        return
    with task.open_samples() as read:
        for place, doc in enumerate(task.docs):
            results = iter(doc.filter_results.values())
            requests = read_arguments(read(result)) if (result := next(results, None)) else []
            if requests and (messages := _read_messages(requests[0][0])):
                yield place, (messages[-1][1], messages)


def _read_messages(prompt: Any) -> tuple[tuple[str, str], ...]:
    """The messages of a prompt. A text is the only message of a user."""
    prompt = prompt[0] if isinstance(prompt, list) and len(prompt) == 1 else prompt
    if not isinstance(prompt, str):
        return ()
    tree: Any = None
    if prompt.startswith("["):
        try:
            tree = parse_json(prompt)
        except ValueError:
            tree = None
    if isinstance(tree, list) and tree and all(isinstance(part, dict) for part in tree):
        return tuple((str(part.get("role")), str(part.get("content")).strip()) for part in tree)
    return (("user", prompt.strip()),)


def describe_harnesses(baseline: Provenance, candidate: Provenance) -> str | None:
    """What differs between the harnesses of two tasks, a clause; None if nothing does."""
    a, b = baseline.harness or _OWN, candidate.harness or _OWN
    if a == b:
        return None
    graders = [", ".join(sorted(side.grader.metrics)) for side in (baseline, candidate)]
    named = [f" ({grader:.60})" if grader else "" for grader in graders]
    return f"graded by {a}{named[0]} in A, by {b}{named[1]} in B"

"""Verdicts drawn for `verdicts.py`: tasks as large as the real ones, as evidence and as a run that is judged."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq

from meta_eval import stats
from meta_eval.base.thresholds import MARGIN
from meta_eval.harness.doc_results import DocResult, FilterResult, find_cluster_names
from meta_eval.harness.lm_eval_run import Run, TaskRun
from meta_eval.harness.provenance import Provenance
from meta_eval.harness.sample_files import read_samples
from meta_eval.harness.scores import compute_scores
from meta_eval.harness.settings import RunSettings
from meta_eval.judge.decide import Decision, decide_outcome
from meta_eval.judge.pair import TaskPair
from meta_eval.judge.runs import judge
from meta_eval.pack.baseline import Baseline
from meta_eval.pack.manifest import Manifest, ReferenceScoreEntry, TaskEntry
from meta_eval.stats import Drop

# Docs of each subtask. Of MMLU-Pro they are facts; MMLU's 57 have about this spread and sum.
MMLU_PRO = (1351, 1299, 1132, 1101, 969, 924, 844, 818, 798, 789, 717, 499, 410, 381)
MMLU = (1534, 895, 783, 612, 545, *np.linspace(100, 272, 52).astype(int).tolist())
# IFEval: prompts with one, two and three instructions, 541 with 834.
INSTRUCTIONS = (305, 179, 57)


@dataclass(frozen=True)
class Task:
    """A task to draw verdicts of.

    ``subtasks`` are docs of each; ``accuracy`` the baseline's; ``flips`` the share of docs that flip though the model
    is the same; ``clusters`` docs of each cluster, or none, or "across" for one doc of every subtask each; ``alike``
    the intra-class correlation of what changes.
    """

    name: str
    subtasks: tuple[int, ...]
    accuracy: float
    flips: float
    clusters: tuple[int, ...] | str | None = None
    alike: float = 0.0
    ifeval: bool = False

    @property
    def docs(self) -> int:
        return sum(self.subtasks)


def instruct(flips: float) -> list[Task]:
    """The four tasks of meta_instruct."""
    return [
        Task("meta_ifeval", (541,), 0.80, flips, ifeval=True),
        Task("meta_math_hard", (1324,), 0.25, flips),
        Task("meta_gpqa_cot", (448,), 0.31, flips),
        Task("meta_mmlu_pro_instruct", MMLU_PRO, 0.47, flips),
    ]


def many() -> list[Task]:
    """22 tasks of the instruct models, choices by letter flipping less than free answers; MMLU's are smaller here.

    A quarter of MMLU's docs each: more docs make every task's p value more normal and nothing else, and take long.
    """
    quarter = tuple(n // 4 for n in MMLU)
    mmlu = [Task(f"mmlu_{index}", quarter, 0.6, 0.02) for index in range(9)]
    single = [("gsm8k", 1319, 0.84, 0.04), ("math", 5000, 0.52, 0.05), ("arc", 1165, 0.83, 0.02),
              ("human_eval", 164, 0.72, 0.06), ("human_eval_plus", 164, 0.67, 0.06), ("mbpp", 500, 0.61, 0.05),
              ("mbpp_plus", 378, 0.73, 0.05), ("api_bank", 389, 0.82, 0.03)]  # fmt: skip
    mgsm = Task("mgsm", (250,) * 11, 0.69, 0.05, "across", 0.3)
    return [*instruct(0.06), *mmlu, *(Task(name, (n,), p, f) for name, n, p, f in single), mgsm]


# Drawing verdicts


Drawn = tuple[np.ndarray, np.ndarray, list[int] | None, list[int] | None]


def draw(task: Task, drop: float, rng: np.random.Generator, runs: int = 1) -> Drawn:
    """Contributions of the baseline and of a run (the mean of several), subtasks, clusters."""
    if task.ifeval:
        return (*_ifeval(task, drop, rng), None, None)
    labels = labels_of(task)
    clusters = cluster_ids(task)
    changes = np.mean([_changes(task, drop, rng, clusters) for _ in range(runs)], axis=0)
    before = np.where(changes < 0, 1.0, np.where(changes > 0, 0.0, rng.random(task.docs) < task.accuracy))
    return before, before + changes, labels, None if clusters is None else clusters.tolist()


def _changes(task: Task, drop: float, rng: np.random.Generator, clusters: np.ndarray | None) -> np.ndarray:
    """-1 for a doc that is lost, 1 for one that is won. Each doc does what its cluster does with chance sqrt(alike)."""
    lost = task.flips / 2 + drop

    def some(n: int) -> np.ndarray:
        luck = rng.random(n)
        return np.where(luck < lost, -1.0, np.where(luck < lost + task.flips / 2, 1.0, 0.0))

    own = some(task.docs)
    if clusters is None:
        return own
    return np.where(rng.random(task.docs) < math.sqrt(task.alike), some(clusters.max() + 1)[clusters], own)


def labels_of(task: Task) -> list[int] | None:
    """The subtask of each doc; None for a task without."""
    return None if len(task.subtasks) == 1 else np.repeat(np.arange(len(task.subtasks)), task.subtasks).tolist()


def cluster_ids(task: Task) -> np.ndarray | None:
    if task.clusters is None:
        return None
    if task.clusters == "across":
        return np.tile(np.arange(task.subtasks[0]), len(task.subtasks))
    return np.repeat(np.arange(len(task.clusters)), task.clusters)


def _ifeval(task: Task, drop: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    strict, loose, asked, chances = _answers(rng, INSTRUCTIONS)
    # About a third of the prompts that are answered anew get another verdict on some instruction.
    anew = rng.random(len(asked)) < 3 * task.flips
    other = rng.random(strict.shape) < chances
    strict_after = np.where(anew[:, None], other, strict)
    loose_after = np.where(anew[:, None], other | (rng.random(strict.shape) < 0.15), loose)
    kept = rng.random(strict.shape) >= _loss(drop)
    return _mean_of_four(strict, loose, asked), _mean_of_four(strict_after & kept, loose_after & kept, asked)


def _answers(rng: np.random.Generator, counts: Sequence[int]) -> tuple[np.ndarray, ...]:
    asked = np.arange(3) < np.repeat([1, 2, 3], counts)[:, None]
    chances = rng.beta(3, 0.65, (len(asked), 1))
    strict = rng.random(asked.shape) < chances
    return strict, strict | (rng.random(asked.shape) < 0.15), asked, chances


def _mean_of_four(strict: np.ndarray, loose: np.ndarray, asked: np.ndarray) -> np.ndarray:
    docs = [(tuple(s[a].tolist()), tuple(x[a].tolist())) for s, x, a in zip(strict, loose, asked, strict=True)]
    return np.array(stats.mean_of_four_shares(docs))


@cache
def _loss(drop: float) -> float:
    """The share of followed instructions to be lost, so that the mean of four falls by ``drop``."""
    if not drop:
        return 0.0
    strict, loose, asked, _ = _answers(np.random.default_rng(1), tuple(400 * n for n in INSTRUCTIONS))

    def falls(share: float) -> float:
        result = 0.0
        for way in (strict, loose):
            right = way & asked
            whole = (right == asked).all(axis=1)
            result += float(np.mean(whole * (1 - (1 - share) ** asked.sum(axis=1)))) / 4
            result += share * right.sum() / asked.sum() / 4
        return result

    return float(brentq(lambda share: falls(share) - drop, 0.0, 1.0))


def evidence(task: Task, drop: float, rng: np.random.Generator, runs: int = 1) -> TaskPair:
    before, after, labels, clusters = draw(task, drop, rng, runs)
    return task_drop(task, before, after, labels, clusters)


def task_drop(
    task: Task, before: np.ndarray, after: np.ndarray, labels: list[int] | None, clusters: list[int] | None
) -> TaskPair:
    """A task's drop, and that of each of its subtasks."""
    subtasks = {}
    for label in sorted(set(labels or ())):
        docs = np.array(labels) == label
        names = None if clusters is None else np.array(clusters)[docs].tolist()
        subtasks[f"s{label}"] = stats.paired_drop(before[docs], after[docs], clusters=names)
    return TaskPair(task.name, measured_drop=stats.paired_drop(before, after, labels, clusters), subtasks=subtasks)


def decision(
    tasks: Sequence[Task], drops: Sequence[float], rng: np.random.Generator, margin: float = MARGIN
) -> Decision:
    return decide_outcome([evidence(task, drop, rng) for task, drop in zip(tasks, drops, strict=True)], margin)


# Through all that judges


@cache
def docs_of(task: Task) -> tuple[DocResult, ...]:
    """The docs of a task, as report reads them from a samples file of lm-eval.

    What docs share is found by the reader: docs of one cluster are copies of one problem under numbers of their own,
    or where they are of several subtasks one question in several languages, whose cluster the pack names.
    """
    clusters = cluster_ids(task)
    across = task.clusters == "across"
    subtasks = np.repeat(np.arange(len(task.subtasks)), task.subtasks).tolist()
    lines = []
    for number in range(task.docs):
        problem = number if clusters is None or across else int(clusters[number])
        prompt = f"{task.name}: problem {problem}"
        doc: dict[str, Any] = {"problem": problem, "copy": number}
        if len(task.subtasks) > 1:
            doc |= {"subtask_name": f"s{subtasks[number]}"}
        if across and clusters is not None:
            doc |= {"input_question_hash": f"{task.name} {number}", "cluster": f"q{clusters[number]}"}
        lines.append({
            "doc_id": number, "doc": doc, "target": "1", "resps": [["1"]], "filtered_resps": ["1"], "filter": "f",
            "arguments": [[prompt, {"until": []}]], "metrics": ["em"], "em": 1.0,
        })  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "samples.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return read_samples(path).docs


def with_verdicts(docs: Sequence[DocResult], verdicts: Sequence[float]) -> tuple[DocResult, ...]:
    """Docs whose answers are right or wrong, and whose texts are unknown.

    Where they are of subtasks the metric is an average over these.
    """
    return tuple(
        replace(
            doc,
            answer_hash=None,
            filter_results={"f": FilterResult(None, {"em": verdict, "em_macro": (doc.subtask, verdict)}, 0, 0)},
        )
        for doc, verdict in zip(docs, verdicts, strict=True)
    )


def metric_of(task: Task) -> str:
    return "em_macro,f" if len(task.subtasks) > 1 else "em,f"


def drop_of(task: Task, before: Sequence[float], after: Sequence[float]) -> Drop:
    """The drop as report takes it from the docs of a baseline and a run: `judged` gives the same one, more slowly."""
    docs = docs_of(task)
    first, second = (compute_scores(with_verdicts(docs, verdicts), metric_of(task)) for verdicts in (before, after))
    assert first is not None and second is not None
    names = find_cluster_names(task.name, docs, frozenset())
    return stats.paired_drop(first.paired_contributions, second.paired_contributions, second.labels, names)


def judged(tasks: Sequence[Task], drop: float, rng: np.random.Generator) -> Decision:
    """What report decides of a run of these tasks, with Meta's answers as verify grades them; no file is written."""
    results, entries, answers = {}, {}, {}
    for task in tasks:
        plain = replace(task, ifeval=False, subtasks=(task.docs,)) if task.ifeval else task
        before, after, _, _ = draw(plain, drop, rng)
        docs = docs_of(plain)
        answers[task.name] = task_run(task, with_verdicts(docs, before.tolist()))
        results[task.name] = task_run(task, with_verdicts(docs, after.tolist()))
        entries[task.name] = _entry(task, metric_of(plain))
    judgement = judge(None, Run(results, (), {}), _manifest(entries), Baseline(Run(answers)))
    return judgement.decision


def task_run(task: Task, docs: tuple[DocResult, ...]) -> TaskRun:
    provenance = Provenance(results_file=Path("results.json"), docs_run=task.docs, docs_of_task=task.docs)
    return TaskRun(task.name, docs=docs, filters=("f",), provenance=provenance)


def _entry(task: Task, metric: str) -> TaskEntry:
    number = ReferenceScoreEntry.model_construct(
        metric=metric, value=100 * task.accuracy, same_settings=True, note=None,
        benchmark=task.name, source_metric=None, origin="published", averaging=None, shots=None, source="", cot=None,
    )  # fmt: skip
    return TaskEntry.model_construct(
        docs=task.docs, primary_metric="em,f", reference_scores=(number,), dataset_id="", subset=task.name, model=None,
        family=None, graded_by="program", row_format="verified", is_correct_metric=None, recorded_metric=None,
    )  # fmt: skip


def _manifest(entries: dict[str, TaskEntry]) -> Manifest:
    run = RunSettings(model_name="m", tasks=tuple(entries), include_path="p")
    return Manifest.model_construct(tasks=entries, run_settings=run, groups={})

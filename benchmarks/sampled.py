"""Sampled runs, several answers a doc: how often intervals hold the truth, and how often an identical model ships.

    python benchmarks/sampled.py                    all, 1,000 runs each, on two processes; a minute
    python benchmarks/sampled.py coverage           some: coverage, planning
    python benchmarks/sampled.py --runs 4000
    python benchmarks/sampled.py --small            a few runs of each: CI

Answers are drawn: each doc has a chance of its own to be answered right, from a beta distribution. `alike` is its
intra-doc correlation: how far one answer to a doc tells the next one.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence

import numpy as np
from counting import Table, counted, main, rate, simulate
from drawn_verdicts import MARGIN, Task, instruct

from meta_eval import stats
from meta_eval.judge.decide import decide_outcome
from meta_eval.judge.pair import TaskPair
from meta_eval.judge.plan import PlannedTask, plan_answers
from meta_eval.stats.identical import expect_copy

# Score, intra-doc correlation: ordinary tasks, and nearly all or nearly none right.
COVERED = ((0.5, 0.6), (0.9, 0.6), (0.98, 0.5), (0.03, 0.5), (1.0, 0.5), (0.0, 0.5))
ANSWERS = (1, 4, 16)
# The share of docs that flip between two sampled answers of one model, which the planning is shown for.
FLIPS = 0.12
# How far a planned chance may be off: it is counted of 200 copies.
FAR = 0.08


def chances(score: float, alike: float, docs: int, rng: np.random.Generator) -> np.ndarray:
    """Of each doc the chance that an answer is right."""
    if score in (0.0, 1.0):
        return np.full(docs, score)
    size = 1 / alike - 1
    return rng.beta(score * size, (1 - score) * size, docs)


def coverage(runs: int) -> None:
    table = Table(
        f"95 % intervals that hold the truth: percent of {runs:,} runs",
        "score", "docs", "answers a doc", "mean (at least 93.5)", "pass@k, k half of the answers (at least 93.5)",
        "drop, as many answers (at least 93.5)", "drop, one of the baseline (at least 93.5)",
    )  # fmt: skip
    for score, alike in COVERED:
        for docs in (10, 30, 200, 1000):
            for answers in ANSWERS:

                def work(
                    rng: np.random.Generator, score: float = score, alike: float = alike, docs: int = docs,
                    answers: int = answers,
                ) -> Counter[str]:  # fmt: skip
                    return covered(chances(score, alike, docs, rng), score, alike, answers, rng)

                counts = simulate(work, f"cover {score} {docs} {answers}", runs)
                names = ("mean", "pass", "drop", "one")
                least = [0.0 if name == "pass" and answers == 1 else 0.935 for name in names]
                cells = [rate(counts[name], runs, bound) for name, bound in zip(names, least, strict=True)]
                if answers == 1:
                    cells[1] = "-"
                table.row(f"{100 * score:g}", f"{docs:,}", str(answers), *cells)


def covered(p: np.ndarray, score: float, alike: float, answers: int, rng: np.random.Generator) -> Counter[str]:
    """Which intervals of one run hold what they are about."""
    docs, half = len(p), max(1, answers // 2)
    right, again, once = rng.binomial(answers, p), rng.binomial(answers, p), rng.binomial(1, p)
    mean = right / answers
    passed = [stats.pass_at_k(int(count), answers, half) for count in right]
    drops = [stats.paired_drop(before, mean).interval() for before in (again / answers, once)]
    return Counter({
        "mean": score in stats.sampled_interval(mean.tolist(), answers),
        "pass": true_pass(score, alike, half) in stats.sampled_interval(passed, answers / half),
        "drop": 0.0 in drops[0], "one": 0.0 in drops[1], "docs": docs,
    })  # fmt: skip


def true_pass(score: float, alike: float, k: int) -> float:
    """pass@k over all docs that could be drawn: 1 - E (1 - p)^k of a beta distribution."""
    if score in (0.0, 1.0):
        return score
    size = 1 / alike - 1
    return 1 - float(np.prod([((1 - score) * size + i) / (size + i) for i in range(k)]))


def planning(runs: int) -> None:
    plain = [Task(task.name, task.subtasks, task.accuracy, 0.0) for task in instruct(0.0)]
    table = Table(
        f"An identical model, meta_instruct, sampled, {100 * FLIPS:g} % of docs flip between single answers, margin 1: "
        f"percent of {runs:,} runs",
        "answers a doc, baseline and run", "docs that flip as if single, percent", "SHIP, as planned", "SHIP",
        "DON'T SHIP (at most 2.5)",
    )  # fmt: skip
    for chance in plan_answers([expected(task) for task in instruct(FLIPS)], MARGIN):
        before, after = chance.baseline_answers, chance.answers

        def work(rng: np.random.Generator, before: int = before, after: int = after) -> Counter[str]:
            return counted(decide_outcome([sampled_drop(task, before, after, rng) for task in plain], MARGIN))

        counts = simulate(work, f"plan {before} {after}", runs)
        flips = 100 * stats.sampled_flips(FLIPS, before, after)
        table.row(
            f"{before} and {after}", f"{flips:.1f}", f"{100 * chance.chance:.1f}",
            rate(counts["SHIP"], runs, chance.chance - FAR, min(1.0, chance.chance + FAR)),
            rate(counts["DON'T SHIP"], runs, most=0.025),
        )  # fmt: skip


def expected(task: Task) -> PlannedTask:
    """What a plan knows of a task."""
    labels = None if len(task.subtasks) == 1 else np.repeat(np.arange(len(task.subtasks)), task.subtasks).tolist()
    subtasks = {f"s{number}": expect_copy(docs, task.flips) for number, docs in enumerate(task.subtasks) if labels}
    return PlannedTask(
        task.name, expect_copy(task.docs, task.flips, labels), subtasks, dict.fromkeys(subtasks, 1 / len(task.subtasks))
    )


def sampled_drop(task: Task, before: int, after: int, rng: np.random.Generator) -> TaskPair:
    """The drop between two sampled runs of one model; docs flip 2 p (1 - p) of the time, on average `FLIPS`."""
    alike = 1 - FLIPS / (2 * task.accuracy * (1 - task.accuracy))
    p = chances(task.accuracy, alike, task.docs, rng)
    means = rng.binomial(before, p) / before, rng.binomial(after, p) / after
    labels = None if len(task.subtasks) == 1 else np.repeat(np.arange(len(task.subtasks)), task.subtasks)
    return TaskPair(
        task.name, measured_drop=stats.paired_drop(*means, None if labels is None else labels.tolist()),
        subtasks=_subtasks(*means, labels),
    )  # fmt: skip


def _subtasks(before: np.ndarray, after: np.ndarray, labels: np.ndarray | None) -> dict[str, stats.Drop]:
    names: Sequence[int] = [] if labels is None else sorted(set(labels.tolist()))
    return {f"s{name}": stats.paired_drop(before[labels == name], after[labels == name]) for name in names}


if __name__ == "__main__":
    sys.exit(main(__doc__, {"coverage": coverage, "planning": planning}))

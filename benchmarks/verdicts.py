"""How often the verdicts are right: simulations through ``stats`` and ``judging.decide``, with what should come out.

    python benchmarks/verdicts.py                    all, 1,000 runs each, on two processes; some minutes
    python benchmarks/verdicts.py identical many    some: identical, margin, somewhere, many, hidden, coverage, power,
                                                    settling, wired,
                                                    few, failed, uncertain, noise, whole
    python benchmarks/verdicts.py --runs 200
    python benchmarks/verdicts.py --small            a few runs of each: CI

No model answers anything. Verdicts are drawn: a task has as many docs, subtasks and instructions as the real one, its
accuracies are about those of an 8B model, and a model that is the same but for its engine flips some percent of docs,
as many one way as the other. A true drop comes as further docs that are lost. Each rate stands with its Monte-Carlo
standard error; of what never happened, or always, the end of a 95 % interval stands instead (the rule of three).

What each should be stands beside it; the exit code is 1 where one is not what it should be, by more than chance would
bring in one of a thousand.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from counting import Table, counted, main, rate, simulate
from drawn_verdicts import (
    MARGIN,
    Task,
    cluster_ids,
    decision,
    docs_of,
    draw,
    drop_of,
    evidence,
    instruct,
    judged,
    many,
    metric_of,
    task_drop,
    with_verdicts,
)

from meta_eval import stats
from meta_eval.base.thresholds import ALPHA
from meta_eval.harness.scores import compute_scores
from meta_eval.judge.decide import decide_outcome
from meta_eval.judge.drops import measure_run_drop
from meta_eval.judge.pair import MeasuredFlips, TaskPair

# What is simulated


def identical(runs: int) -> None:
    table = Table(
        f"An identical model, meta_instruct, margin 1 point: percent of {runs:,} runs",
        "docs that flip", "SHIP (at least 90)", "DON'T SHIP (at most 2.5)", "UNDECIDED", "any task worse (at most 5)",
        "IFEval holds", "MATH-hard holds", "GPQA holds", "MMLU-Pro holds",
    )  # fmt: skip
    for flips in (0.02, 0.04, 0.06):
        tasks = instruct(flips)
        counts = simulate(lambda rng, tasks=tasks: counted(decision(tasks, [0.0] * 4, rng)), f"same {flips}", runs)
        table.row(
            f"{100 * flips:g} %", rate(counts["SHIP"], runs, 0.9), rate(counts["DON'T SHIP"], runs, most=0.025),
            rate(counts["UNDECIDED"], runs), rate(counts["any below"], runs, most=0.05),
            *(rate(counts[f"{task.name} within margin"], runs) for task in tasks),
        )  # fmt: skip


def margin(runs: int) -> None:
    table = Table(
        f"Every task truly drops by the margin of 1 point, meta_instruct: percent of {runs:,} runs",
        "docs that flip besides", "SHIP (at most 5)", "DON'T SHIP (at most 5)", "UNDECIDED", "IFEval holds (at most 5)",
        "MATH-hard holds (at most 5)", "GPQA holds (at most 5)", "MMLU-Pro holds (at most 5)",
    )  # fmt: skip
    for flips in (0.0, 0.06):
        tasks = instruct(flips)
        counts = simulate(lambda rng, tasks=tasks: counted(decision(tasks, [MARGIN] * 4, rng)), f"drop {flips}", runs)
        table.row(
            f"{100 * flips:g} %", rate(counts["SHIP"], runs, most=0.05), rate(counts["DON'T SHIP"], runs, most=0.05),
            rate(counts["UNDECIDED"], runs),
            *(rate(counts[f"{task.name} within margin"], runs, most=0.05) for task in tasks),
        )  # fmt: skip
    table = Table(
        f"Every task truly drops by the margin, other tasks and margins: percent of {runs:,} runs",
        "tasks", "margin, points", "docs that flip besides", "SHIP (at most 5)", "mean holds (at most 5)",
        "would hold if weighed by the variance that was seen",
    )  # fmt: skip
    for count, docs in ((22, 150), (4, 150), (2, 2000)):
        for flips in (0.0, 0.03):
            for allowed in (0.01, 0.03):
                tasks = [Task(f"t{index}", (docs,), 0.5, flips) for index in range(count)]
                counts = simulate(
                    lambda rng, tasks=tasks, allowed=allowed: weighed(tasks, allowed, rng),
                    f"other {count} {docs} {flips} {allowed}",
                    runs,
                )
                table.row(
                    f"{count} of {docs:,} docs", f"{100 * allowed:g}", f"{100 * flips:g} %",
                    rate(counts["SHIP"], runs, most=0.05), rate(counts["holds"], runs, most=0.05),
                    rate(counts["seen"], runs),
                )  # fmt: skip


def weighed(tasks: Sequence[Task], allowed: float, rng: np.random.Generator) -> Counter[str]:
    result = decision(tasks, [allowed] * len(tasks), rng, allowed)
    assert result.interval is not None
    drops = [task.drop for task in result.tasks]
    precisions = [1 / drop.seen_variance for drop in drops]
    seen = stats.mean_drop(drops, [precision / sum(precisions) for precision in precisions])
    return Counter({
        result.outcome: 1, "holds": result.interval.upper < allowed, "seen": seen.interval().upper < allowed,
    })  # fmt: skip


# True drops, the least and most that may ship, and the most that may be stopped.
SOMEWHERE = (
    ((0, 0, 0, 0.005), (0.5, 1.0), 0.05), ((0.005,) * 4, (0.4, 1.0), 0.05), ((0.02,) * 4, (0.0, 0.025), 1.0),
    ((0.03, 0.03, 0.03, 0), (0.0, 0.025), 1.0), ((0, 0.05, 0, 0), (0.0, 0.03), 1.0),
    ((0, 0, 0.05, 0), (0.0, 0.05), 1.0), ((0, 0, 0, 0.02), (0.0, 0.025), 1.0), ((0, 0, 0.10, 0), (0.0, 0.01), 1.0),
    ((-0.01,) * 4, (0.95, 1.0), 0.025),
)  # fmt: skip


def somewhere(runs: int) -> None:
    runs = max(1, runs // 2)
    table = Table(
        f"A drop in some tasks only, meta_instruct, 6 % of docs flip besides, margin 1: percent of {runs:,} runs",
        "true drops, IFEval / MATH-hard / GPQA / MMLU-Pro", "SHIP", "DON'T SHIP", "UNDECIDED", "any task worse",
    )  # fmt: skip
    tasks = instruct(0.06)
    for drops, (least, most), wrong in SOMEWHERE:

        def work(rng: np.random.Generator, drops: tuple[float, ...] = drops) -> Counter[str]:
            # A gain is a drop from the other side.
            result = [
                evidence(task, abs(drop), rng) if drop >= 0 else turned(evidence(task, -drop, rng))
                for task, drop in zip(tasks, drops, strict=True)
            ]
            return counted(decide_outcome(result, MARGIN))

        counts = simulate(work, f"some {drops}", runs)
        table.row(
            " / ".join(f"{100 * drop:g}" for drop in drops),
            rate(counts["SHIP"], runs, least, most), rate(counts["DON'T SHIP"], runs, most=wrong),
            rate(counts["UNDECIDED"], runs), rate(counts["any below"], runs),
        )  # fmt: skip


# What a single task or subject loses, at 4 % of flips: docs of the task, what it loses, the most that may ship.
HIDDEN = (
    ("meta_gpqa_cot", 448, 0.05, 22, 0.03),
    ("GPQA Diamond", 198, 0.05, 4, 0.12),
    ("a task", 541, 0.05, 22, 0.03),
    ("a task", 1319, 0.03, 22, 0.25),
)
SUBJECTS = ((0, 0.05, 0.25), (13, 0.05, 0.25), (0, 0.10, 0.01), (13, 0.10, 0.01))


def beside(name: str, docs: int, count: int) -> list[Task]:
    """A task among others as large as those of meta_instruct and of leaderboards."""
    others = [Task(f"t{index}", (600 + 450 * index,), 0.6, 0.04) for index in range(count - 2)]
    return [Task(name, (docs,), 0.4, 0.04), instruct(0.04)[-1], *others]


def hidden(runs: int) -> None:
    runs = max(1, runs // 2)
    table = Table(
        f"One task or subject loses, 4 % of docs flip besides, margin 1, cap 5: percent of {runs:,} runs",
        "what loses", "points", "tasks", "SHIP", "DON'T SHIP", "worse",
    )  # fmt: skip
    for name, docs, loss, count, most in HIDDEN:
        tasks = beside(name, docs, count)
        drops = [loss, *(0.0 for _ in tasks[1:])]
        counts = simulate(
            lambda rng, tasks=tasks, drops=drops: counted(decision(tasks, drops, rng)), f"{name} {count}", runs
        )
        table.row(
            f"{name}, {docs:,} docs", f"{100 * loss:g}", f"{count}", rate(counts["SHIP"], runs, most=most),
            rate(counts["DON'T SHIP"], runs), rate(counts[f"{name} worse"], runs),
        )  # fmt: skip
    for subject, loss, most in SUBJECTS:
        counts = simulate(
            lambda rng, subject=subject, loss=loss: counted(decide_outcome(_subject_loses(subject, loss, rng), MARGIN)),
            f"subject {subject} {loss}",
            runs,
        )
        size = instruct(0.04)[-1].subtasks[subject]
        table.row(
            f"a subject of MMLU-Pro, {size:,} docs", f"{100 * loss:g}", "4", rate(counts["SHIP"], runs, most=most),
            rate(counts["DON'T SHIP"], runs), "-",
        )  # fmt: skip


def _subject_loses(subject: int, loss: float, rng: np.random.Generator) -> list[TaskPair]:
    *others, task = instruct(0.04)
    before, after, labels, clusters = draw(task, 0.0, rng)
    docs = (np.array(labels) == subject) & (after > 0)
    chance = loss * task.subtasks[subject] / max(1, docs.sum())
    after = np.where(docs & (rng.random(task.docs) < chance), 0.0, after)
    return [*(evidence(other, 0.0, rng) for other in others), task_drop(task, before, after, labels, clusters)]


def turned(evidence: TaskPair) -> TaskPair:
    subtasks = {name: _turned_drop(drop) for name, drop in evidence.subtasks.items()}
    return replace(evidence, measured_drop=_turned_drop(evidence.drop), subtasks=subtasks)


def _turned_drop(drop: stats.Drop) -> stats.Drop:
    return replace(drop, baseline=drop.candidate, candidate=drop.baseline, lost=drop.won, won=drop.lost)


def many_tasks(runs: int) -> None:
    table = Table(
        f"22 tasks of an identical model, margin 1: percent of {runs:,} runs",
        "SHIP (at least 95)", "DON'T SHIP (at most 2.5)", "any task worse (at most 5)", "some interval leaves out 0",
    )  # fmt: skip
    tasks = many()

    def work(rng: np.random.Generator) -> Counter[str]:
        result = decision(tasks, [0.0] * len(tasks), rng)
        return counted(result) + Counter({"out": any(task.p < ALPHA for task in result.tasks)})

    counts = simulate(work, "many", runs)
    table.row(
        rate(counts["SHIP"], runs, 0.95), rate(counts["DON'T SHIP"], runs, most=0.025),
        rate(counts["any below"], runs, most=0.05), rate(counts["out"], runs),
    )  # fmt: skip


def uneven(total: int, count: int) -> tuple[int, ...]:
    """Cluster sizes as of passages: most small, some five times as large."""
    weights = np.linspace(1, 5, count)
    sizes = np.maximum(1, np.round(weights * total / weights.sum())).astype(int)
    return tuple(sizes.tolist())


COVERED = (
    *((task, "drop") for task in instruct(0.06)),
    *((replace(task, flips=0.02), "drop") for task in instruct(0.06)),
    (Task("50 docs", (50,), 0.5, 0.10), "drop"),
    (Task("50 docs", (50,), 0.5, 0.40), "drop"),
    (Task("20 docs", (20,), 0.5, 0.40), "drop"),
    (Task("mgsm, 250 questions in 7 languages", (250,) * 7, 0.69, 0.06, "across", 0.6), "drop"),
    (Task("mgsm, 250 questions in 11 languages", (250,) * 11, 0.69, 0.06, "across", 0.6), "drop"),
    (Task("mgsm, 250 questions in 7 languages", (250,) * 7, 0.69, 0.06, "across", 0.6), "score"),
    (Task("mgsm, 250 questions in 11 languages", (250,) * 11, 0.69, 0.06, "across", 0.6), "score"),
    (Task("1,200 docs of 200 uneven passages", (1200,), 0.7, 0.06, uneven(1200, 200), 0.6), "drop"),
    (Task("1,200 docs of 200 uneven passages", (1200,), 0.7, 0.06, uneven(1200, 200), 0.6), "score"),
    (Task("350 docs of 60 uneven books", (350,), 0.4, 0.10, uneven(350, 60), 0.6), "drop"),
    (Task("350 docs of 60 uneven books", (350,), 0.4, 0.10, uneven(350, 60), 0.6), "score"),
    (Task("120 docs of 12 uneven books", (120,), 0.4, 0.20, uneven(120, 12), 0.6), "score"),
    (Task("64 copies of 30 problems", (1920,), 0.5, 0.20, (64,) * 30, 0.6), "drop"),
    (Task("64 copies of 30 problems", (1920,), 0.5, 0.20, (64,) * 30, 0.6), "score"),
    (Task("64 copies of 30 problems", (1920,), 0.5, 0.06, (64,) * 30, 0.6), "drop"),
    (Task("64 copies of 30 problems", (1920,), 0.5, 0.06, (64,) * 30, 0.2), "drop"),
    (Task("64 copies of 30 problems", (1920,), 0.5, 0.06, (64,) * 30, 0.0), "drop"),
    (Task("1,319 docs that share nothing", (1319,), 0.8, 0.06), "drop"),
    (Task("1,319 docs that share nothing", (1319,), 0.8, 0.06), "score"),
)


def coverage(runs: int) -> None:
    runs *= 2
    table = Table(
        f"95 % intervals that contain the truth: percent of {runs:,} runs",
        "task", "flips", "clusters' correlation", "of", "true drop 0", "true drop 2 points",
        "if clusters are ignored",
    )  # fmt: skip
    for task, what in COVERED:
        if what == "score":
            counts = simulate(lambda rng, task=task: covers_score(task, rng), f"score {task.name}", runs)
            plain = rate(counts["plain"], runs) if task.clusters else "-"
            cells = ("score", rate(counts["in"], runs, 0.935, 0.965), "-", plain)
        else:
            both = [
                simulate(lambda rng, task=task, drop=drop: covers(task, drop, rng), f"cover {task} {drop}", runs)
                for drop in (0.0, 0.02)
            ]
            few = (len(task.clusters) if isinstance(task.clusters, tuple) else task.docs) * task.flips < 10
            cells = (
                "drop", *(rate(interval["in"], runs, 0.935, 1.0 if few else 0.965) for interval in both),
                rate(both[0]["plain"], runs) if task.clusters else "-",
            )  # fmt: skip
        flips = "-" if what == "score" else f"{100 * task.flips:g} %"
        table.row(task.name, flips, f"{task.alike:g}" if task.clusters else "-", *cells)
    counts = simulate(covers_repeats, "repeats", runs)
    table.row("448 docs, three runs averaged", "6.7 %", "-", "drop", rate(counts["in"], runs, 0.935, 0.965), "-", "-")


def covers_repeats(rng: np.random.Generator) -> Counter[str]:
    """Three runs of the model, one of the baseline; a fifth of 448 docs answered by chance."""
    chance = np.where(rng.random(448) < 0.2, rng.random(448), rng.random(448) < 0.3)
    before = (rng.random(448) < chance).astype(float)
    after = stats.average_runs([(rng.random(448) < chance).astype(float).tolist() for _ in range(3)])
    return Counter({"in": 0.0 in stats.paired_drop(before.tolist(), after).interval()})


def covers(task: Task, drop: float, rng: np.random.Generator) -> Counter[str]:
    before, after, labels, clusters = draw(task, drop, rng)
    if clusters is None:
        return Counter({"in": drop in stats.paired_drop(before, after, labels).interval()})
    return Counter({
        "in": drop in drop_of(task, before.tolist(), after.tolist()).interval(),
        "plain": drop in stats.paired_drop(before, after, labels).interval(),
    })  # fmt: skip


def covers_score(task: Task, rng: np.random.Generator) -> Counter[str]:
    clusters = cluster_ids(task)
    values = (rng.random(task.docs) < task.accuracy).astype(float)
    if clusters is not None:
        whole = (rng.random(clusters.max() + 1) < task.accuracy)[clusters]
        values = np.where(rng.random(task.docs) < math.sqrt(task.alike), whole, values)
    result = compute_scores(with_verdicts(docs_of(task), values.tolist()), metric_of(task))
    assert result is not None
    return Counter({
        "in": task.accuracy in result.interval,
        "plain": task.accuracy in stats.score_interval(result.contributions, result.labels),
    })  # fmt: skip


def power(runs: int) -> None:
    table = Table(
        f"A true loss in GPQA's 448 docs, one task alone: percent of {runs:,} runs",
        "docs that flip besides", "true loss, points", "worse", "holds at margin 1", "undecided at margin 1",
        "holds at margin 3",
    )  # fmt: skip
    for flips in (0.06, 0.20):
        for loss in (0.0, 0.02, 0.05, 0.10):
            task = Task("meta_gpqa_cot", (448,), 0.31, flips)

            def work(rng: np.random.Generator, task: Task = task, loss: float = loss) -> Counter[str]:
                task_evidence = evidence(task, loss, rng)
                return counted(decide_outcome([task_evidence], MARGIN)) + Counter(
                    {f"wide {decide_outcome([task_evidence], 0.03).tasks[0].outcome}": 1}
                )

            counts = simulate(work, f"gpqa {flips} {loss}", runs)
            table.row(
                f"{100 * flips:g} %", f"{100 * loss:g}", rate(counts[f"{task.name} worse"], runs),
                rate(counts[f"{task.name} within margin"], runs, most=0.05 if loss else 1.0),
                rate(counts[f"{task.name} undecided"], runs), rate(counts["wide within margin"], runs),
            )  # fmt: skip
    table = Table(
        f"What a report says it could see is seen: percent of {runs:,} runs, at least 80",
        "task", "docs that flip", "could see alone, points", "seen", "could see among 22, points",
        "seen after Holm",
    )  # fmt: skip
    for task in (*instruct(0.06), *instruct(0.02), Task("mgsm", (250,) * 7, 0.69, 0.06, "across", 0.6),
                 Task("human_eval", (164,), 0.7, 0.05), Task("needle", (50,), 0.97, 0.0)):  # fmt: skip
        cells = []
        for alpha in (ALPHA, ALPHA / 22):
            said = typical(task, alpha)

            def work(
                rng: np.random.Generator, task: Task = task, alpha: float = alpha, said: float = said
            ) -> Counter[str]:
                drop = evidence(task, said, rng).drop
                return Counter({"seen": drop.value > 0 and drop.p_value() < alpha})

            counts = simulate(work, f"see {task.name} {task.flips} {alpha}", runs)
            cells += [f"{100 * said:.1f}", rate(counts["seen"], runs, 0.8)]
        table.row(task.name, f"{100 * task.flips:g} %", *cells)


@cache
def typical(task: Task, alpha: float) -> float:
    """What a report says it could see, in the median report of an identical model."""
    rng = np.random.default_rng(5)
    return float(np.median([evidence(task, 0.0, rng).drop.find_detectable(alpha) for _ in range(25)]))


def settling(runs: int) -> None:
    runs *= 4
    table = Table(
        f"What would settle it, done: an identical model, 4 % of docs flip by the engine: percent of {runs:,} runs",
        "task", "margin, points", "shown at once", "runs asked for, median", "shown by so many (at least 80)",
        "baseline",
    )  # fmt: skip
    task = Task("meta_gpqa_cot", (448,), 0.31, 0.04)
    for allowed, again in ((0.015, True), (0.02, True), (0.018, False), (0.02, False)):

        def work(rng: np.random.Generator, allowed: float = allowed, again: bool = again) -> Counter[str]:
            chance = np.where(rng.random(task.docs) < 2 * task.flips, 0.5, rng.random(task.docs) < task.accuracy)

            def asked(times: int) -> list[list[float]]:
                return [(rng.random(task.docs) < chance).astype(float).tolist() for _ in range(times)]

            ours, theirs = asked(2), asked(1)
            drop, runs = stats.paired_drop(theirs[0], ours[0]), stats.measure_runs((), ours)
            first = decide_outcome(
                [TaskPair("t", measured_drop=drop, baseline_repeats=1 if again else None, runs=runs)], allowed
            )
            if first.outcome == "SHIP":
                return Counter({"at once": 1})
            # What is asked for supposes the drop that was seen; the truth is none.
            if (
                first.repeats_needed is None
                or not first.repeats_needed.runs
                or first.mean is None
                or first.mean.value > 0
            ):
                return Counter()
            times = first.repeats_needed.runs[0][1]
            ours, theirs = [ours[0], *asked(times - 1)], [*theirs, *asked(times - 1)] if again else theirs
            then = decide_outcome([TaskPair("t", **vars(measure_run_drop(theirs, ours)))], allowed)
            return Counter({"planned": 1, f"x{times:02d}": 1, "then": then.outcome == "SHIP"})

        counts = simulate(work, f"settle {allowed} {again}", runs)
        spread = sorted(name[1:] for name, count in counts.items() if name[0] == "x" for _ in range(count))
        median = str(int(spread[len(spread) // 2])) if spread else "-"
        table.row(
            "GPQA alone", f"{100 * allowed:g}", rate(counts["at once"], runs), median,
            f"{rate(counts['then'], counts['planned'], 0.8)} of {counts['planned']}" if counts["planned"] else "-",
            "can be run again" if again else "is recorded",
        )  # fmt: skip


def wired(runs: int) -> None:
    """The same through what reads a run: docs with metrics, paired by report's own code with Meta's graded answers."""
    runs = max(4, runs // 10)
    table = Table(
        f"Through `judging.judge`, meta_instruct, 4 % of docs flip, margin 1 point: percent of {runs:,} runs",
        "true drop of every task, points", "SHIP", "DON'T SHIP", "UNDECIDED", "any task worse",
    )  # fmt: skip
    for drop, should in ((0.0, {"SHIP": (0.9, 1.0), "DON'T SHIP": (0.0, 0.025)}), (MARGIN, {"SHIP": (0.0, 0.05)})):
        counts = simulate(lambda rng, drop=drop: counted(judged(instruct(0.04), drop, rng)), f"wired {drop}", runs)
        cells = (
            rate(counts[name], runs, *should.get(name, (0.0, 1.0))) for name in ("SHIP", "DON'T SHIP", "UNDECIDED")
        )
        table.row(f"{100 * drop:g}", *cells, rate(counts["any below"], runs, most=0.05 if not drop else 1.0))


def few(runs: int) -> None:
    """Tasks in which the cap is a few docs; the most that may ship at 3, 4 and 6 % of flips."""
    table = Table(
        f"A task of few docs, one of 4, margin 1, cap 5: percent of {runs:,} runs that ship",
        "docs", "docs that flip", "no loss", "it loses 5 points", "it loses 10 points",
    )  # fmt: skip
    for docs, bounds in ((164, (0.15, 0.20, 0.22)), (198, (0.12, 0.15, 0.2))):
        for flips, most in zip((0.03, 0.04, 0.06), bounds, strict=True):
            tasks = [replace(task, flips=flips) for task in beside("few", docs, 4)]
            cells = []
            for loss, limits in ((0.0, (0.92 if flips == 0.03 else 0.85, 1.0)), (0.05, (0, most)), (0.1, (0, 0.02))):
                drops = [loss, 0.0, 0.0, 0.0]
                counts = simulate(
                    lambda rng, tasks=tasks, drops=drops: counted(decision(tasks, drops, rng)),
                    f"few {docs} {flips} {loss}", runs,
                )  # fmt: skip
                cells.append(rate(counts["SHIP"], runs, *limits))
            table.row(f"{docs}", f"{100 * flips:g} %", *cells)


# What a task loses beyond its margin, and at least and at most how often it is failed.
FAILED = (
    (448, 0.05, 4, 0.72, 1.0), (448, 0.05, 22, 0.48, 1.0), (3000, 0.02, 22, 0.245, 1.0),
    (448, 0.01, 4, 0.0, 0.05), (448, 0.01, 22, 0.0, 0.05),
)  # fmt: skip


def failed(runs: int) -> None:
    table = Table(
        f"A task beyond its margin of 1 point, 4 % of docs flip besides: percent of {runs:,} runs",
        "docs", "it loses, points", "tasks", "DON'T SHIP", "worse", "DON'T SHIP of any task at its margin (at most 5)",
    )  # fmt: skip
    for docs, loss, count, least, most in FAILED:
        tasks = beside("it", docs, count)
        counts = simulate(
            lambda rng, tasks=tasks, loss=loss: counted(decision(tasks, [loss, *(0.0 for _ in tasks[1:])], rng)),
            f"failed {docs} {loss} {count}", runs,
        )  # fmt: skip
        cell = "-"
        if loss == MARGIN:
            all_at = simulate(
                lambda rng, tasks=tasks: counted(decision(tasks, [MARGIN] * len(tasks), rng)), f"all at {count}", runs
            )
            cell = rate(all_at["DON'T SHIP"], runs, most=0.05)
        table.row(
            f"{docs:,}", f"{100 * loss:g}", f"{count}", rate(counts["DON'T SHIP"], runs, least, most),
            rate(counts["it worse"], runs), cell,
        )  # fmt: skip


def uncertain(runs: int) -> None:
    table = Table(
        f"A task is worse than others of few docs, 4 % of docs flip besides: percent of {runs:,} runs",
        "docs of the tasks", "every task loses, of the margin", "any task worse (at most 5)",
    )  # fmt: skip
    for sizes, part in (((12_000, 500), 1.0), ((12_000, 500, 500), 0.9)):
        tasks = [Task(f"t{index}", (n,), 0.5, 0.04) for index, n in enumerate(sizes)]
        counts = simulate(
            lambda rng, tasks=tasks, part=part: counted(decision(tasks, [part * MARGIN] * len(tasks), rng)),
            f"uncertain {sizes} {part}", runs,
        )  # fmt: skip
        table.row(" / ".join(f"{n:,}" for n in sizes), f"{part:g}", rate(counts["any below"], runs, most=0.06))


def noise(runs: int) -> None:
    """What measured flips add where 200 docs were asked again; `repeats.py` draws second runs."""
    runs = max(1, runs // 2)
    table = Table(
        f"A task of 541 docs, one of 22, margin 1, 4 % of docs flip: percent of {runs:,} runs that ship",
        "noise is known from", "it loses 3 points", "no loss", "every task loses half the margin",
    )  # fmt: skip
    tasks = beside("it", 541, 22)
    total = sum(task.docs for task in tasks)
    kinds = (("nothing", 0.0, 0.5), ("200 docs asked again", 200 / total, 0.13))
    for kind, part, most in kinds:
        cells = []
        for loss, other, limits in ((0.03, 0.0, (0, most)), (0.0, 0.0, (0.95, 1)), (0.005, 0.005, (0.7, 1))):

            def work(
                rng: np.random.Generator, part: float = part, loss: float = loss, other: float = other
            ) -> Counter[str]:
                drops = [evidence(task, loss if task.name == "it" else other, rng) for task in tasks]
                asked = [max(1, round(part * task.docs)) for task in tasks]
                if part:
                    drops = [
                        replace(drop, measured_flips=MeasuredFlips(float(rng.binomial(n, 0.04)) / n, n))
                        for drop, n in zip(drops, asked, strict=True)
                    ]
                return counted(decide_outcome(drops, MARGIN))

            counts = simulate(work, f"noise {kind} {loss} {other}", runs)
            cells.append(rate(counts["SHIP"], runs, *limits))
        table.row(kind, *cells)


# Docs or clusters, the docs of each, and the share that is lost whole.
WHOLE = ((30, 64, 0.05), (100, 10, 0.02), (250, 7, 0.01), (60, 1, 0.014), (100, 1, 0.014), (200, 1, 0.014))


def whole(runs: int) -> None:
    table = Table(
        f"Docs or clusters are lost whole beside small changes of the others: percent of {runs:,} runs",
        "clusters", "docs of each", "lost whole, percent", "within a margin of that loss (at most 2.5)",
        "the interval holds the truth",
    )  # fmt: skip
    for count, size, share in WHOLE:
        clusters = np.repeat(np.arange(count), size).tolist() if size > 1 else None

        def work(
            rng: np.random.Generator, count: int = count, size: int = size, share: float = share,
            clusters: list[int] | None = clusters,
        ) -> Counter[str]:  # fmt: skip
            flips = rng.choice([1.0, 0.0, -1.0], (count, size), p=[0.03, 0.94, 0.03])
            small = flips if size > 1 else rng.normal(0, 0.01, (count, 1))
            losses = np.where(rng.random((count, 1)) < share, 1.0, small).ravel()
            interval = stats.paired_drop(losses, np.zeros(count * size), clusters=clusters).interval()
            return Counter({"within": interval.upper < share, "in": share in interval})

        counts = simulate(work, f"whole {count} {size}", runs)
        table.row(
            f"{count}", f"{size}", f"{100 * share:g}", rate(counts["within"], runs, most=0.025),
            rate(counts["in"], runs, 0.94),
        )  # fmt: skip


EXPERIMENTS = {
    "identical": identical, "margin": margin, "somewhere": somewhere, "many": many_tasks, "hidden": hidden,
    "coverage": coverage, "power": power, "settling": settling, "wired": wired,
    "few": few, "failed": failed, "uncertain": uncertain, "noise": noise, "whole": whole,
}  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(__doc__, EXPERIMENTS))

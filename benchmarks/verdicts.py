"""How often the verdicts are right: simulations through ``stats`` and ``judging.decide``, with what should come out.

    python benchmarks/verdicts.py                    all, 1,000 runs each, on two processes; some minutes
    python benchmarks/verdicts.py identical many    some: identical, margin, somewhere, many, coverage, power,
                                                    settling, wired
    python benchmarks/verdicts.py --runs 200

No model answers anything. Verdicts are drawn: a task has as many docs, subtasks and instructions as the real one, its
accuracies are about those of an 8B model, and a model that is the same but for its engine flips some percent of docs,
as many one way as the other. A true drop comes as further docs that are lost. Each rate stands with its Monte-Carlo
standard error; of what never happened, or always, the end of a 95 % interval stands instead (the rule of three).

What each should be stands beside it; the exit code is 1 where one is not what it should be, by more than twice its
Monte-Carlo error.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path

import numpy as np

from meta_eval import stats
from meta_eval.engines.settings import RunSettings
from meta_eval.judging.decide import Decision, Evidence, decide
from meta_eval.judging.judge import judge
from meta_eval.pack.manifest import Manifest, PublishedEntry, TaskEntry
from meta_eval.results.answers import Answer, Doc, Value
from meta_eval.results.baseline import Baseline
from meta_eval.results.provenance import Provenance
from meta_eval.results.run import Run, TaskRun

SEED = 20_250_101
MARGIN = 0.01
PROCESSES = 2

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
    labels = None if len(task.subtasks) == 1 else np.repeat(np.arange(len(task.subtasks)), task.subtasks).tolist()
    clusters = _clusters(task)
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


def _clusters(task: Task) -> np.ndarray | None:
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
        found = 0.0
        for way in (strict, loose):
            right = way & asked
            whole = (right == asked).all(axis=1)
            found += float(np.mean(whole * (1 - (1 - share) ** asked.sum(axis=1)))) / 4
            found += share * right.sum() / asked.sum() / 4
        return found

    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if falls(middle) < drop else (low, middle)
    return high


def evidence(task: Task, drop: float, rng: np.random.Generator, runs: int = 1) -> Evidence:
    before, after, labels, clusters = draw(task, drop, rng, runs)
    return Evidence(task.name, stats.paired_drop(before, after, labels, clusters))


def decision(
    tasks: Sequence[Task], drops: Sequence[float], rng: np.random.Generator, margin: float = MARGIN
) -> Decision:
    return decide([evidence(task, drop, rng) for task, drop in zip(tasks, drops, strict=True)], margin)


# Counting


def counted(found: Decision) -> Counter[str]:
    """What one decision counts for."""
    counts = Counter({found.outcome: 1})
    for one in found.tasks:
        counts[f"{one.task} {one.outcome}"] += 1
    counts["any below"] += any(one.outcome == "shown below" for one in found.tasks)
    counts["any held"] += any(one.outcome == "shown to hold" for one in found.tasks)
    return counts


def simulate(work: Callable[[np.random.Generator], Counter[str]], name: str, runs: int) -> Counter[str]:
    """``work`` so many times, on two processes; which numbers are drawn depends on neither."""
    found: Counter[str] = Counter()
    seeds = np.random.SeedSequence([SEED, *name.encode()]).spawn(runs)
    # Forked, so that ``work`` may be a closure.
    _WORK["now"] = work
    with multiprocessing.get_context("fork").Pool(PROCESSES) as pool:
        for one in pool.imap_unordered(_one, seeds, chunksize=max(1, runs // 50)):
            found.update(one)
    return found


_WORK: dict[str, Callable[[np.random.Generator], Counter[str]]] = {}


def _one(seed: np.random.SeedSequence) -> Counter[str]:
    return _WORK["now"](np.random.default_rng(seed))


class Table:
    """A Markdown table of rates, each with what it should be."""

    failed = 0

    def __init__(self, title: str, *columns: str) -> None:
        print(f"\n### {title}\n\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)

    def row(self, *cells: str) -> None:
        print(f"| {' | '.join(cells)} |", flush=True)


def rate(count: float, runs: int, least: float = 0.0, most: float = 1.0) -> str:
    """A percentage with its Monte-Carlo standard error; told aloud where it is not what it should be."""
    share = count / runs
    error = math.sqrt(share * (1 - share) / runs)
    text = f"{100 * share:.1f} ± {100 * error:.1f}"
    if not 0 < count < runs:
        text = f"0 (under {300 / runs:.1f})" if count == 0 else f"100 (over {100 - 300 / runs:.1f})"
    if share < least - 2 * error or share > most + 2 * error:
        Table.failed += 1
        text += " **NOT AS IT SHOULD BE**"
    return text


# What is simulated


def identical(runs: int) -> None:
    table = Table(
        f"An identical model, meta_instruct, margin 1 point: percent of {runs:,} runs",
        "docs that flip", "SHIP (at least 90)", "DON'T (at most 2.5)", "NOT SHOWN", "any task below (at most 5)",
        "IFEval holds", "MATH-hard holds", "GPQA holds", "MMLU-Pro holds",
    )  # fmt: skip
    for flips in (0.02, 0.04, 0.06):
        tasks = instruct(flips)
        found = simulate(lambda rng, tasks=tasks: counted(decision(tasks, [0.0] * 4, rng)), f"same {flips}", runs)
        table.row(
            f"{100 * flips:g} %", rate(found["SHIP"], runs, 0.9), rate(found["DON'T"], runs, most=0.025),
            rate(found["NOT SHOWN"], runs), rate(found["any below"], runs, most=0.05),
            *(rate(found[f"{task.name} shown to hold"], runs) for task in tasks),
        )  # fmt: skip


def margin(runs: int) -> None:
    table = Table(
        f"Every task truly drops by the margin of 1 point, meta_instruct: percent of {runs:,} runs",
        "docs that flip besides", "SHIP (at most 5)", "DON'T (at most 5)", "NOT SHOWN", "IFEval holds (at most 5)",
        "MATH-hard holds (at most 5)", "GPQA holds (at most 5)", "MMLU-Pro holds (at most 5)",
    )  # fmt: skip
    for flips in (0.0, 0.06):
        tasks = instruct(flips)
        found = simulate(lambda rng, tasks=tasks: counted(decision(tasks, [MARGIN] * 4, rng)), f"drop {flips}", runs)
        table.row(
            f"{100 * flips:g} %", rate(found["SHIP"], runs, most=0.05), rate(found["DON'T"], runs, most=0.05),
            rate(found["NOT SHOWN"], runs),
            *(rate(found[f"{task.name} shown to hold"], runs, most=0.05) for task in tasks),
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
                found = simulate(
                    lambda rng, tasks=tasks, allowed=allowed: weighed(tasks, allowed, rng),
                    f"other {count} {docs} {flips} {allowed}",
                    runs,
                )
                table.row(
                    f"{count} of {docs:,} docs", f"{100 * allowed:g}", f"{100 * flips:g} %",
                    rate(found["SHIP"], runs, most=0.05), rate(found["holds"], runs, most=0.05),
                    rate(found["seen"], runs),
                )  # fmt: skip


def weighed(tasks: Sequence[Task], allowed: float, rng: np.random.Generator) -> Counter[str]:
    found = decision(tasks, [allowed] * len(tasks), rng, allowed)
    assert found.interval is not None
    drops = [one.drop for one in found.tasks]
    precisions = [1 / drop.seen_variance for drop in drops]
    seen = stats.mean_drop(drops, [one / sum(precisions) for one in precisions])
    return Counter({
        found.outcome: 1, "holds": found.interval.upper < allowed, "seen": seen.interval().upper < allowed,
    })  # fmt: skip


def somewhere(runs: int) -> None:
    runs = max(1, runs // 2)
    table = Table(
        f"A drop in some tasks only, meta_instruct, 6 % of docs flip besides, margin 1: percent of {runs:,} runs",
        "true drops, IFEval / MATH-hard / GPQA / MMLU-Pro", "SHIP", "DON'T", "NOT SHOWN", "any task below",
    )  # fmt: skip
    tasks = instruct(0.06)
    for drops in ((0, 0, 0, 0.005), (0.005,) * 4, (0.02,) * 4, (0.03, 0.03, 0.03, 0), (0, 0.05, 0, 0), (0, 0, 0.05, 0),
                  (0, 0, 0, 0.02), (0, 0, 0.10, 0), (-0.01,) * 4):  # fmt: skip

        def work(rng: np.random.Generator, drops: tuple[float, ...] = drops) -> Counter[str]:
            # A gain is a drop from the other side.
            found = [
                evidence(task, abs(drop), rng) if drop >= 0 else turned(evidence(task, -drop, rng))
                for task, drop in zip(tasks, drops, strict=True)
            ]
            return counted(decide(found, MARGIN))

        found = simulate(work, f"some {drops}", runs)
        table.row(
            " / ".join(f"{100 * drop:g}" for drop in drops),
            *(rate(found[what], runs) for what in ("SHIP", "DON'T", "NOT SHOWN", "any below")),
        )


def turned(one: Evidence) -> Evidence:
    drop = one.drop
    return replace(one, drop=replace(drop, before=drop.after, after=drop.before, lost=drop.won, won=drop.lost))


def many_tasks(runs: int) -> None:
    table = Table(
        f"22 tasks of an identical model, margin 1: percent of {runs:,} runs",
        "SHIP", "DON'T (at most 2.5)", "any task below (at most 5)", "some interval leaves out 0",
    )  # fmt: skip
    tasks = many()

    def work(rng: np.random.Generator) -> Counter[str]:
        found = decision(tasks, [0.0] * len(tasks), rng)
        return counted(found) + Counter({"out": any(one.p < stats.ALPHA for one in found.tasks)})

    found = simulate(work, "many", runs)
    table.row(
        rate(found["SHIP"], runs, 0.9), rate(found["DON'T"], runs, most=0.025),
        rate(found["any below"], runs, most=0.05), rate(found["out"], runs),
    )  # fmt: skip


def uneven(total: int, count: int) -> tuple[int, ...]:
    """Cluster sizes as of passages: most small, some five times as large."""
    weights = np.linspace(1, 5, count)
    sizes = np.maximum(1, np.round(weights * total / weights.sum())).astype(int)
    return tuple(sizes.tolist())


COVERED = (
    *((one, "drop") for one in instruct(0.06)),
    *((replace(one, flips=0.02), "drop") for one in instruct(0.06)),
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
)


def coverage(runs: int) -> None:
    runs *= 2
    table = Table(
        f"95 % intervals that hold the truth: percent of {runs:,} runs",
        "task", "flips", "clusters' correlation", "of", "true drop 0", "true drop 2 points",
        "clusters left out of account",
    )  # fmt: skip
    for task, what in COVERED:
        if what == "score":
            found = simulate(lambda rng, task=task: covers_score(task, rng), f"score {task.name}", runs)
            cells = ("score", rate(found["in"], runs, 0.93, 0.97), "-", rate(found["plain"], runs))
        else:
            both = [
                simulate(lambda rng, task=task, drop=drop: covers(task, drop, rng), f"cover {task} {drop}", runs)
                for drop in (0.0, 0.02)
            ]
            few = task.docs * task.flips < 10
            cells = (
                "drop", *(rate(one["in"], runs, 0.93, 1.0 if few else 0.97) for one in both),
                rate(both[0]["plain"], runs) if task.clusters else "-",
            )  # fmt: skip
        flips = "-" if what == "score" else f"{100 * task.flips:g} %"
        table.row(task.name, flips, f"{task.alike:g}" if task.clusters else "-", *cells)
    found = simulate(covers_repeats, "repeats", runs)
    table.row("448 docs, three runs averaged", "6.7 %", "-", "drop", rate(found["in"], runs, 0.93, 0.97), "-", "-")


def covers_repeats(rng: np.random.Generator) -> Counter[str]:
    """Three runs of the model, one of the baseline; a fifth of 448 docs answered by chance."""
    chance = np.where(rng.random(448) < 0.2, rng.random(448), rng.random(448) < 0.3)
    before = (rng.random(448) < chance).astype(float)
    after = stats.average_runs([(rng.random(448) < chance).astype(float).tolist() for _ in range(3)])
    return Counter({"in": 0.0 in stats.paired_drop(before.tolist(), after).interval()})


def covers(task: Task, drop: float, rng: np.random.Generator) -> Counter[str]:
    before, after, labels, clusters = draw(task, drop, rng)
    found = Counter({"in": drop in stats.paired_drop(before, after, labels, clusters).interval()})
    if clusters is not None:
        found["plain"] += drop in stats.paired_drop(before, after, labels).interval()
    return found


def covers_score(task: Task, rng: np.random.Generator) -> Counter[str]:
    clusters = _clusters(task)
    assert clusters is not None
    chances = np.full(task.docs, task.accuracy)
    own = rng.random(task.docs) < chances
    whole = (rng.random(clusters.max() + 1) < task.accuracy)[clusters]
    values = np.where(rng.random(task.docs) < math.sqrt(task.alike), whole, own).astype(float)
    labels = None if len(task.subtasks) == 1 else np.repeat(np.arange(len(task.subtasks)), task.subtasks).tolist()
    return Counter({
        "in": task.accuracy in stats.score_interval(values.tolist(), labels, clusters=clusters.tolist()),
        "plain": task.accuracy in stats.score_interval(values.tolist(), labels),
    })  # fmt: skip


def power(runs: int) -> None:
    table = Table(
        f"A true loss in GPQA's 448 docs, one task alone: percent of {runs:,} runs",
        "docs that flip besides", "true loss, points", "below", "holds at margin 1", "not shown at margin 1",
        "holds at margin 3",
    )  # fmt: skip
    for flips in (0.06, 0.20):
        for loss in (0.0, 0.02, 0.05, 0.10):
            task = Task("meta_gpqa_cot", (448,), 0.31, flips)

            def work(rng: np.random.Generator, task: Task = task, loss: float = loss) -> Counter[str]:
                one = evidence(task, loss, rng)
                return counted(decide([one], MARGIN)) + Counter({f"wide {decide([one], 0.03).tasks[0].outcome}": 1})

            found = simulate(work, f"gpqa {flips} {loss}", runs)
            table.row(
                f"{100 * flips:g} %", f"{100 * loss:g}", rate(found[f"{task.name} shown below"], runs),
                rate(found[f"{task.name} shown to hold"], runs, most=0.05 if loss else 1.0),
                rate(found[f"{task.name} not shown"], runs), rate(found["wide shown to hold"], runs),
            )  # fmt: skip
    table = Table(
        f"What a report says it could see is seen: percent of {runs:,} runs, at least 80",
        "task", "docs that flip", "could see alone, points", "seen", "could see among 22, points",
        "seen after Holm",
    )  # fmt: skip
    for task in (*instruct(0.06), *instruct(0.02), Task("mgsm", (250,) * 7, 0.69, 0.06, "across", 0.6),
                 Task("human_eval", (164,), 0.7, 0.05), Task("needle", (50,), 0.97, 0.0)):  # fmt: skip
        cells = []
        for alpha in (stats.ALPHA, stats.ALPHA / 22):
            said = typical(task, alpha)

            def work(
                rng: np.random.Generator, task: Task = task, alpha: float = alpha, said: float = said
            ) -> Counter[str]:
                drop = evidence(task, said, rng).drop
                return Counter({"seen": drop.value > 0 and drop.p() < alpha})

            found = simulate(work, f"see {task.name} {task.flips} {alpha}", runs)
            cells += [f"{100 * said:.1f}", rate(found["seen"], runs, 0.8)]
        table.row(task.name, f"{100 * task.flips:g} %", *cells)


@cache
def typical(task: Task, alpha: float) -> float:
    """What a report says it could see, in the median report of an identical model."""
    rng = np.random.default_rng(5)
    return float(np.median([evidence(task, 0.0, rng).drop.detectable(alpha) for _ in range(25)]))


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
            first = decide([Evidence("t", stats.paired_drop(theirs[0], ours[0]), baseline_runs=1 if again else None,
                                     noise=stats.run_noise(ours))], allowed)  # fmt: skip
            if first.outcome == "SHIP":
                return Counter({"at once": 1})
            # What is asked for supposes the drop that was seen; the truth is none.
            if first.settling is None or not first.settling.runs or first.mean is None or first.mean.value > 0:
                return Counter()
            times = first.settling.runs[0][1]
            ours, theirs = [ours[0], *asked(times - 1)], [*theirs, *asked(times - 1)] if again else theirs
            drop = stats.paired_drop(stats.average_runs(theirs), stats.average_runs(ours))
            then = decide([Evidence("t", drop)], allowed)
            return Counter({"planned": 1, f"x{times:02d}": 1, "then": then.outcome == "SHIP"})

        found = simulate(work, f"settle {allowed} {again}", runs)
        spread = sorted(name[1:] for name, count in found.items() if name[0] == "x" for _ in range(count))
        median = str(int(spread[len(spread) // 2])) if spread else "-"
        table.row(
            "GPQA alone", f"{100 * allowed:g}", rate(found["at once"], runs), median,
            f"{rate(found['then'], found['planned'], 0.8)} of {found['planned']}" if found["planned"] else "-",
            "can be run again" if again else "is recorded",
        )  # fmt: skip


def wired(runs: int) -> None:
    """The same through what reads a run: docs with metrics, paired by report's own code with Meta's graded answers."""
    runs = max(10, runs // 10)
    table = Table(
        f"Through `judging.judge`, meta_instruct, 4 % of docs flip, margin 1 point: percent of {runs:,} runs",
        "true drop of every task, points", "SHIP", "DON'T", "NOT SHOWN", "any task below",
    )  # fmt: skip
    for drop, should in ((0.0, {"SHIP": (0.9, 1.0), "DON'T": (0.0, 0.025)}), (MARGIN, {"SHIP": (0.0, 0.05)})):
        found = simulate(lambda rng, drop=drop: counted(judged(instruct(0.04), drop, rng)), f"wired {drop}", runs)
        cells = (rate(found[name], runs, *should.get(name, (0.0, 1.0))) for name in ("SHIP", "DON'T", "NOT SHOWN"))
        table.row(f"{100 * drop:g}", *cells, rate(found["any below"], runs, most=0.05 if not drop else 1.0))


def judged(tasks: Sequence[Task], drop: float, rng: np.random.Generator) -> Decision:
    """What report decides of a run of these tasks, with Meta's answers as verify grades them; no file is written."""
    results, entries, answers = {}, {}, {}
    for task in tasks:
        before, after, labels, _ = draw(
            replace(task, ifeval=False, subtasks=(task.docs,)) if task.ifeval else task, drop, rng
        )
        names = [f"s{label}" for label in labels] if labels else [None] * task.docs
        answers[task.name] = tuple(map(_doc, range(task.docs), [task.name] * task.docs, names, before.tolist()))
        docs = tuple(map(_doc, range(task.docs), [task.name] * task.docs, names, after.tolist()))
        results[task.name], entries[task.name] = _task_run(task, docs), _entry(task, macro=bool(labels))
    run = Run(results, (), {})
    found = judge(run, _manifest(entries), Baseline(answers, {}))
    return found.decision


def _doc(number: int, task: str, subtask: str | None, verdict: float) -> Doc:
    metrics: dict[str, Value] = {"em": verdict, "em_macro": (subtask, verdict)}
    return Doc(
        number, f"{task} {number}", (), True, subtask, None, "", None, None, None, "", False, False,
        {"f": Answer(None, metrics, 0, 0)},
    )  # fmt: skip


def _task_run(task: Task, docs: tuple[Doc, ...]) -> TaskRun:
    known = {field.name: None for field in fields(Provenance)}
    provenance = Provenance(**{**known, "results_file": Path("results.json"), "model_args": {}, "gen_kwargs": {}})
    return TaskRun(task.name, "", docs, ("f",), {}, (), None, 0, (), None, None, provenance)


def _entry(task: Task, *, macro: bool) -> TaskEntry:
    number = PublishedEntry.model_construct(
        our_metric="em_macro,f" if macro else "em,f", value=100 * task.accuracy, same_settings=True, note=None,
        benchmark=task.name, metric=None, averaging=None, shots=None, source="", cot=None,
    )  # fmt: skip
    return TaskEntry.model_construct(
        docs=task.docs, verdict="em,f", published=(number,), dataset_id="", subset=task.name, model=None, family=None,
        graded_by="program", format="verified", reading=None, recorded_metric=None,
    )  # fmt: skip


def _manifest(entries: dict[str, TaskEntry]) -> Manifest:
    run = RunSettings(model_name="m", tasks=tuple(entries), include_path="p")
    return Manifest.model_construct(tasks=entries, run=run)


EXPERIMENTS = {
    "identical": identical, "margin": margin, "somewhere": somewhere, "many": many_tasks, "coverage": coverage,
    "power": power, "settling": settling, "wired": wired,
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help=f"of {', '.join(EXPERIMENTS)}; all without any")
    parser.add_argument("--runs", type=int, default=1000)
    arguments = parser.parse_args()
    if unknown := set(arguments.what) - set(EXPERIMENTS):
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    for name, experiment in EXPERIMENTS.items():
        if not arguments.what or name in arguments.what:
            began = time.monotonic()
            experiment(arguments.runs)
            print(f"\n{name}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    print(f"\n{Table.failed or 'No'} rate is not what it should be." if Table.failed != 1 else "\nOne rate is not.")
    return 1 if Table.failed else 0


if __name__ == "__main__":
    sys.exit(main())

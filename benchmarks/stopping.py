"""Stopping when decided: how often that is wrong, and how many docs it takes. Simulated through ``stats.sequential``.

    python benchmarks/stopping.py                   all, 1,000 runs each, on two processes: half an hour
    python benchmarks/stopping.py wrong found       some: wrong, lost, ships, found, curve
    python benchmarks/stopping.py --runs 200
    python benchmarks/stopping.py --small           ten runs of each: CI

Verdicts are drawn as for verdicts.py. A look is taken after each round of about 32 docs. A run that is not decided by
its last doc gets the verdict of a whole run, through ``judging.decide``; "in the end" counts that. Each rate stands
with its Monte-Carlo standard error and what it should be; the exit code is 1 where one is not, by more than chance.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from counting import Table, flag, is_possible, main, rate, simulate
from drawn_verdicts import (
    INSTRUCTIONS,
    MMLU_PRO,
    Drawn,
    Task,
    docs_of,
    draw,
    instruct,
    many,
    metric_of,
    task_drop,
    with_verdicts,
)

from meta_eval import stats
from meta_eval.ask.early_stop import list_task_docs
from meta_eval.harness.scores import compute_scores
from meta_eval.judge.decide import decide_outcome
from meta_eval.stats.sequential import PairableDocs, Plan, Sequential, plan_rounds

# Runs for CI: of ten, ten above a median are not by chance.
SMALL = 10
# By margin and true drop the most docs that half of the runs may take.
MOST_ASKED = {(0.01, 0.1): 400, (0.02, 0.1): 500, (0.03, 0.1): 700}


def mmlu_pro(flips: float) -> list[Task]:
    return [Task("meta_mmlu_pro_instruct", MMLU_PRO, 0.48, flips)]


def planned(tasks: Sequence[Task]) -> Plan:
    """Its order is as good as any: what is drawn for a doc does not hang on its number."""
    return plan_rounds([_docs(task) for task in tasks])


def _docs(task: Task) -> PairableDocs:
    """As `meta-eval run` makes them, of docs whose clusters the reader of samples finds."""
    if task.ifeval:
        right = [(True,) * count for count, n in enumerate(INSTRUCTIONS, 1) for _ in range(n)]
        reach = stats.mean_of_four_shares([(value, value) for value in right])
        return PairableDocs(task.name, range(task.docs), reach=reach)
    docs = with_verdicts(docs_of(task), [1.0] * task.docs)
    recorded = compute_scores(docs, metric_of(task))
    assert recorded is not None
    return list_task_docs(task.name, docs, recorded, frozenset())


@dataclass(frozen=True)
class Followed:
    """One run, looked at after each round.

    ``asked`` docs until it stopped, ``beyond`` docs until any task was beyond its margin (0: never seen), ``stopped``
    the verdict when it stopped, or none, ``whole`` that of all docs, ``under`` whether their drop is under the margin.
    """

    asked: int
    beyond: int
    stopped: str | None
    whole: str
    under: bool

    @property
    def end(self) -> str:
        return self.stopped or self.whole


def follow(
    tasks: Sequence[Task],
    order: Plan,
    drops: Sequence[float],
    margin: float,
    rng: np.random.Generator,
    whole: bool = True,
    watch: bool = True,
) -> Followed:
    everything = [drawn(task, drop, rng) for task, drop in zip(tasks, drops, strict=True)]
    values = {task.name: (pair[0].tolist(), pair[1].tolist()) for task, pair in zip(tasks, everything, strict=True)}
    followed, beyond, asked = Sequential(order, margin), 0, 0
    for end in order.ends:
        for name, doc in order.order[asked:end]:
            before, after = values[name]
            followed.add_doc(name, doc, before[doc], after[doc])
        asked = end
        if watch:
            state = followed.read_state()
            beyond = beyond or end * any(task.beyond for task in state.tasks)
            if state.outcome:
                break
    state = followed.read_state()
    if not whole:
        return Followed(state.docs, beyond, state.outcome, "", False)
    judged = decide_outcome([task_drop(task, *drew) for task, drew in zip(tasks, everything, strict=True)], margin)
    assert judged.mean is not None
    return Followed(state.docs, beyond, state.outcome, judged.outcome, judged.mean.value < margin)


@dataclass(frozen=True)
class Uneven(Task):
    """A task that loses in every other subtask alone, twice as much there as on average (by the macro average)."""


@dataclass(frozen=True)
class Exact(Task):
    """A task of these docs and no others: so many are lost and won, and chance is the order alone."""


@dataclass(frozen=True)
class Gained(Task):
    """A task that wins instead of losing."""


@dataclass(frozen=True)
class Part(Task):
    """A task that loses in one of its subtasks alone, so much there."""

    subtask: int = 0


@dataclass(frozen=True)
class Repeated(Task):
    """A task whose baseline is the mean of three runs."""


def drawn(task: Task, drop: float, rng: np.random.Generator) -> Drawn:
    if isinstance(task, Repeated):
        after, before, labels, clusters = draw(task, -drop, rng, runs=3)
        return before, after, labels, clusters
    if isinstance(task, Gained):
        after, before, labels, clusters = draw(task, drop, rng)
        return before, after, labels, clusters
    if isinstance(task, Exact):
        lost, won = round(task.docs * (task.flips / 2 + drop)), round(task.docs * task.flips / 2)
        changes = rng.permutation(np.repeat([-1.0, 1.0, 0.0], [lost, won, task.docs - lost - won]))
        return np.maximum(-changes, 0.0), np.maximum(changes, 0.0), None, None
    if isinstance(task, Uneven | Part):
        shares = [
            float(at == task.subtask) if isinstance(task, Part) else 2.0 * (at % 2) for at in range(len(task.subtasks))
        ]
        parts = [
            draw(Task("", (n,), task.accuracy, task.flips), share * drop, rng)
            for n, share in zip(task.subtasks, shares, strict=True)
        ]
        labels = [index for index, n in enumerate(task.subtasks) for _ in range(n)]
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts]), labels, None
    return draw(task, drop, rng)


SHAPES = (
    *((f"MMLU-Pro, {100 * flips:g} % of docs flip", mmlu_pro(flips)) for flips in (0.0, 0.02, 0.06)),
    ("MMLU-Pro, lost in every other subtask alone, 6 %", [Uneven("mmlu_pro", MMLU_PRO, 0.48, 0.06)]),
    ("MMLU-Pro, a baseline of three runs, 6 %", [Repeated("mmlu_pro", MMLU_PRO, 0.48, 0.06)]),
    ("GPQA, 6 %", [Task("meta_gpqa_cot", (448,), 0.31, 0.06)]),
    ("IFEval, 6 %", [instruct(0.06)[0]]),
    ("MGSM, 250 questions in 7 languages, correlation 0.6, 6 %",
     [Task("mgsm", (250,) * 7, 0.69, 0.06, "across", 0.6)]),
    ("4,800 docs of 800 uneven passages, correlation 0.6, 6 %",
     [Task("squad", (4800,), 0.7, 0.06, tuple(range(1, 12)) * 72 + (6,) * 8, 0.6)]),
    ("64 copies of 30 problems, correlation 0.6, 6 %", [Task("aime", (1920,), 0.5, 0.06, (64,) * 30, 0.6)]),
    ("meta_instruct, four tasks, 6 %", instruct(0.06)),
)  # fmt: skip
AT_MARGIN = (
    *((name, tasks, 0.01) for name, tasks in SHAPES),
    ("12,032 docs that themselves drop by just the margin, 2 %", [Exact("exact", (12_032,), 0.48, 0.02)], 0.01),
    ("448 docs that themselves drop by just the margin, 6 %", [Exact("exact", (448,), 0.48, 0.06)], 0.0290178571),
    *((name, tasks, 0.03) for name, tasks in SHAPES if name.startswith(("MMLU-Pro, 6", "MGSM", "4,800", "64"))),
)


def wrong(runs: int) -> None:
    table = Table(
        f"Every task truly drops by the margin: percent of {runs:,} runs",
        "tasks", "margin, points", "stopped (at most 5)", "DON'T SHIP in the end", "SHIP in the end (at most 5)",
        "DON'T SHIP of whole runs", "SHIP of whole runs", "the drop on these docs is under the margin",
    )  # fmt: skip
    for name, tasks, margin in AT_MARGIN:
        order = planned(tasks)

        def work(
            rng: np.random.Generator, tasks: Sequence[Task] = tasks, order: Plan = order, margin: float = margin
        ) -> Counter[str]:
            stopped = follow(tasks, order, [margin] * len(tasks), margin, rng, watch=False)
            return Counter(
                [f"stopped {stopped.stopped}", f"end {stopped.end}", f"whole {stopped.whole}", f"under {stopped.under}"]
            )

        counts = simulate(work, f"wrong {name} {margin}", runs)
        table.row(
            name, f"{100 * margin:.3g}", rate(counts["stopped DON'T SHIP"], runs, most=0.05),
            rate(counts["end DON'T SHIP"], runs), rate(counts["end SHIP"], runs, most=0.05),
            rate(counts["whole DON'T SHIP"], runs), rate(counts["whole SHIP"], runs), rate(counts["under True"], runs),
        )  # fmt: skip


def lost(runs: int) -> None:
    table = Table(
        f"No task truly drops, margin 1 point: percent of {runs:,} runs",
        "tasks", "stopped (at most 2.5)", "SHIP in the end", "SHIP of whole runs",
    )  # fmt: skip
    for name, tasks in SHAPES:
        order = planned(tasks)

        def work(rng: np.random.Generator, tasks: Sequence[Task] = tasks, order: Plan = order) -> Counter[str]:
            stopped = follow(tasks, order, [0.0] * len(tasks), 0.01, rng, watch=False)
            return Counter([f"stopped {stopped.stopped}", f"end {stopped.end}", f"whole {stopped.whole}"])

        counts = simulate(work, f"lost {name}", runs)
        table.row(
            name, rate(counts["stopped DON'T SHIP"], runs, most=0.025), rate(counts["end SHIP"], runs),
            rate(counts["whole SHIP"], runs),
        )  # fmt: skip


def losing(flips: float) -> dict[str, tuple[Sequence[Task], Sequence[float]]]:
    """Tasks in which something loses its margin of a point or more, and the drop of each."""
    thirteen = [(Gained if at < 10 else Task)(f"t{at}", (1000,), 0.6, flips) for at in range(13)]
    of_22 = [replace(task, flips=flips) for task in many()]
    return {
        "13 tasks of 1,000 docs: ten gain 5, three lose 5": (thirteen, [0.05] * 13),
        "GPQA loses 5, of four tasks": (instruct(flips), [0, 0, 0.05, 0]),
        "MATH loses 5, of four tasks": (instruct(flips), [0, 0.05, 0, 0]),
        "GPQA loses 5, of 22 tasks": (of_22, [0.05 * (task.name == "meta_gpqa_cot") for task in of_22]),
        "four tasks at the margin": (instruct(flips), [0.01] * 4),
        "each subject of MMLU-Pro at the margin": (mmlu_pro(flips), [0.01]),
        "a subject of 1,351 docs of MMLU-Pro loses 5": ([Part("mmlu_pro", MMLU_PRO, 0.48, flips)], [0.05]),
        "a subject of 381 docs of MMLU-Pro loses 5": ([Part("mmlu_pro", MMLU_PRO, 0.48, flips, subtask=13)], [0.05]),
    }


def ships(runs: int) -> None:
    """Runs that may stop and whole runs of the same draws."""
    table = Table(
        f"Something loses its margin of 1 or more, 4 % of docs flip besides: percent of {runs:,} runs",
        "what is lost", "SHIP in the end", "SHIP of whole runs", "SHIP in the end alone (none)", "stopped",
    )  # fmt: skip
    for name, (tasks, drops) in losing(0.04).items():
        order = planned(tasks)

        def work(
            rng: np.random.Generator, tasks: Sequence[Task] = tasks, drops: Sequence[float] = drops, order: Plan = order
        ) -> Counter[str]:
            run = follow(tasks, order, drops, 0.01, rng, watch=False)
            return Counter(
                [f"stopped {run.stopped}", f"end {run.end}", f"whole {run.whole}", f"{run.end}, {run.whole}"]
            )

        counts = simulate(work, f"ships {name}", runs)
        alone = counts["end SHIP"] - counts["SHIP, SHIP"]
        table.row(
            name, rate(counts["end SHIP"], runs), rate(counts["whole SHIP"], runs), rate(alone, runs, most=0.0),
            rate(counts["stopped DON'T SHIP"], runs),
        )  # fmt: skip


def spread(result: Counter[str], name: str) -> np.ndarray:
    """The docs that ``name`` was counted with, in order."""
    return np.sort(
        [int(key.split()[1]) for key, count in result.items() if key.split()[0] == name for _ in range(count)]
    )


def docs(counts: np.ndarray, share: float, most: float = np.inf) -> str:
    """A quantile, at most ``most``, with the 95 % interval that the order of the runs gives it (binomial)."""
    n = len(counts)
    reach = 1.96 * (n * share * (1 - share)) ** 0.5
    low, at, high = (counts[min(n - 1, max(0, round(n * share + by)))] for by in (-reach, 0, reach))
    return flag(f"{at:,} ({low:,} to {high:,})", is_possible(int(np.sum(counts > most)), n, 0.0, 1 - share))


def found(runs: int) -> None:
    table = Table(
        f"Every task truly drops by ten points, margin 1: docs asked, of {runs:,} runs",
        "tasks", "docs that flip besides", "stopped: median (at most 400)", "95th percentile (at most 1,000)",
    )  # fmt: skip
    for name, make in (("MMLU-Pro", mmlu_pro), ("meta_instruct", instruct)):
        for flips in (0.02, 0.04, 0.06, 0.1):
            tasks = make(flips)
            order = planned(tasks)

            def work(rng: np.random.Generator, tasks: Sequence[Task] = tasks, order: Plan = order) -> Counter[str]:
                stopped = follow(tasks, order, [0.1] * len(tasks), 0.01, rng, whole=False)
                return Counter([f"asked {stopped.asked}"])

            asked = spread(simulate(work, f"found {name} {flips}", runs), "asked")
            table.row(name, f"{100 * flips:g} %", docs(asked, 0.5, 400), docs(asked, 0.95, 1000))


def curve(runs: int) -> None:
    """Median docs by true drop, for three margins."""
    runs = max(SMALL, runs // 5)
    drops = (0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1)
    table = Table(
        f"Docs asked of MMLU-Pro by true drop, 4 % of docs flip besides: median of {runs:,} runs",
        "margin, points", *(f"{100 * drop:g}" for drop in drops),
    )  # fmt: skip
    tasks = mmlu_pro(0.04)
    order = planned(tasks)
    for margin in (0.01, 0.02, 0.03):
        cells = []
        for drop in drops:

            def work(rng: np.random.Generator, margin: float = margin, drop: float = drop) -> Counter[str]:
                return Counter([f"asked {follow(tasks, order, [drop], margin, rng, whole=False).asked}"])

            asked = spread(simulate(work, f"curve {margin} {drop}", runs), "asked")
            above = int(np.sum(asked > MOST_ASKED.get((margin, drop), np.inf)))
            cells.append(flag(f"{asked[len(asked) // 2]:,}", is_possible(above, runs, 0.0, 0.5)))
        table.row(f"{100 * margin:g}", *cells)


EXPERIMENTS = {"wrong": wrong, "lost": lost, "ships": ships, "found": found, "curve": curve}


if __name__ == "__main__":
    sys.exit(main(__doc__, EXPERIMENTS, SMALL))

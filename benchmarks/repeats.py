"""Several runs a side, and drift: how often each ships, and false alarms.

    export OPENBLAS_NUM_THREADS=1                   else its threads wait for each other
    python benchmarks/repeats.py                    all, 1,000 runs each, on two processes; hours
    python benchmarks/repeats.py pairings --setting 0
    python benchmarks/repeats.py lost drift        some: pairings, lost, drift
    python benchmarks/repeats.py --small            a few runs of each: CI

Runs are drawn: each doc has an answer, which flips independently in every run; a run effect moves all docs of a run by
losing or winning a share of them, normal with the standard deviation that the table names, apart for each task. The
functions that measure and decide are those of `meta-eval compare A1 A2 -- B`.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from counting import OPTIONS, Table, main, rate, simulate
from drawn_verdicts import MARGIN, MMLU_PRO, Task, cluster_ids, instruct, labels_of, many

from meta_eval import stats
from meta_eval.base.thresholds import CAP
from meta_eval.judge.decide import decide_outcome
from meta_eval.judge.drops import measure_run_drop
from meta_eval.judge.further_runs import advise_second_run
from meta_eval.judge.pair import TaskPair

FLIPS, MOST = 0.04, 3


Runs = list[list[np.ndarray]]


def flip_runs(effect: float) -> Callable[[Task, float, np.random.Generator], Runs]:
    """Runs with one answer a doc, some of which flip, and all docs moved by the effect of the run."""

    def draw(task: Task, drop: float, rng: np.random.Generator) -> Runs:
        truth = (rng.random(task.docs) < task.accuracy).astype(float)
        lost = rng.random(task.docs) < drop / (1 - FLIPS)
        before, after = np.where(lost, 1.0, truth), np.where(lost, 0.0, truth)
        return [[_flip(task, side, effect, rng) for _ in range(MOST)] for side in (before, after)]

    return draw


def _flip(task: Task, truth: np.ndarray, effect: float, rng: np.random.Generator) -> np.ndarray:
    flipped, clusters = rng.random(len(truth)) < FLIPS / 2, cluster_ids(task)
    if clusters is not None:
        together = rng.random(int(clusters.max()) + 1) < FLIPS / 2
        flipped = np.where(rng.random(len(truth)) < math.sqrt(task.alike), together[clusters], flipped)
    run = np.where(flipped, 1 - truth, truth)
    shift = rng.normal(0.0, effect) if effect else 0.0
    moved = rng.random(len(truth)) < abs(shift) / max(1e-9, np.mean(run == (shift < 0)))
    return np.where(moved & (run == (shift < 0)), 1 - run, run)


def sampled_runs(task: Task, drop: float, rng: np.random.Generator) -> Runs:
    """Runs with eight answers a doc at temperature 1: single answers flip in 12 % of docs."""
    chance = rng.beta(0.158, 0.158, task.docs)
    return [
        [rng.binomial(8, chance * (1 - lost)) / 8 for _ in range(MOST)] for lost in (0.0, drop / float(chance.mean()))
    ]


def pair_runs(task: Task, baseline: Sequence[np.ndarray], candidate: Sequence[np.ndarray]) -> TaskPair:
    """The task as `compare` measures it from these runs, without their docs."""
    labels, clusters = labels_of(task), cluster_ids(task)
    ends = np.cumsum(task.subtasks)[:-1]
    parts = [np.split(np.mean(side, axis=0), ends) for side in (baseline, candidate)] if labels else ((), ())
    subtasks = {f"s{at}": stats.paired_drop(*values) for at, values in enumerate(zip(*parts, strict=True))}
    measured = measure_run_drop(baseline, candidate, labels, None if clusters is None else clusters.tolist())
    repeats = {"repeats": len(candidate), "baseline_repeats": len(baseline), "subtasks": subtasks}
    return TaskPair(task.name, **{**vars(measured), **repeats})


def list_tasks(count: int) -> list[Task]:
    """The four tasks, or the 22, all with the same flips."""
    tasks = instruct(FLIPS) if count == 4 else many()
    # Subtasks of 12,032 docs are judged. Those of other tasks take long, and change no rate that is shown.
    kept = [task for task in tasks if task.clusters or task.subtasks == MMLU_PRO]
    return [replace(task, ifeval=False, subtasks=task.subtasks if task in kept else (task.docs,)) for task in tasks]


# Tasks, what differs from run to run, and how runs are drawn.
SETTINGS = (
    (4, "no effect of the run", flip_runs(0.0)),
    (4, "an effect of the run of 0.5 points a task", flip_runs(0.005)),
    (4, "an effect of the run of 1 point a task", flip_runs(0.01)),
    (4, "8 answers a doc at temperature 1", sampled_runs),
    (22, "no effect of the run", flip_runs(0.0)),
    (22, "an effect of the run of 0.5 points a task", flip_runs(0.005)),
    (22, "an effect of the run of 1 point a task", flip_runs(0.01)),
)
PAIRINGS = [(a, b) for a in range(1, MOST + 1) for b in range(1, MOST + 1)]


def pairings(runs: int) -> None:
    """What `compare A1 A2 -- B1` decides, with one to three runs of a side."""
    for place, (count, what, draw) in enumerate(SETTINGS):
        if (OPTIONS["setting"] or str(place)) != str(place):
            continue
        tasks, counts = list_tasks(count), {}
        for drop in (0.0, MARGIN):

            def work(
                rng: np.random.Generator, tasks: list[Task] = tasks, drop: float = drop,
                draw: Callable[[Task, float, np.random.Generator], Runs] = draw,
            ) -> Counter[str]:  # fmt: skip
                drawn = [(task, *draw(task, drop, rng)) for task in tasks]
                counted: Counter[str] = Counter()
                for a, b in PAIRINGS:
                    decision = decide_outcome([pair_runs(task, x[:a], y[:b]) for task, x, y in drawn], MARGIN)
                    counted[f"{a}{b} {decision.outcome}"] += 1
                    counted[f"{a}{b} seen"] += bool(decision.run_effect and decision.run_effect.is_seen)
                return counted

            counts[drop] = simulate(work, f"pairings {count} {what} {drop}", runs)
        table = Table(
            f"{count} tasks, {what}: percent of {runs:,} comparisons",
            "runs of A and B", "identical: SHIP", "DON'T SHIP", "every task drops by the margin: SHIP", "DON'T SHIP",
            "effect seen",
        )  # fmt: skip
        has_effect, names = "effect of the run of" in what, ("SHIP", "DON'T SHIP")
        single = [counts[drop][f"11 {name}"] for drop in (0.0, MARGIN) for name in names]
        least = 0.0 if has_effect else min(0.95, single[0] / runs - 0.01)
        # With an effect of the run no error may be more frequent than of single runs, which were drawn too.
        most = [1.0, *(map(_bound, single[1:], [runs] * 3) if has_effect else (0.01, 0.025, 0.05))]
        for a, b in PAIRINGS:
            outcomes = [counts[drop][f"{a}{b} {name}"] for drop in (0.0, MARGIN) for name in names]
            cells = [
                rate(number, runs, least if not at else 0.0, limit)
                for at, (number, limit) in enumerate(zip(outcomes, most, strict=True))
            ]
            table.row(f"{a} and {b}", *cells, rate(counts[0.0][f"{a}{b} seen"], runs) if a + b > 2 else "-")


def _bound(count: int, runs: int) -> float:
    """The share of which so many of so many runs are an estimate, and two standard errors."""
    share = (count + 1) / (runs + 2)
    return min(1.0, share + 2 * math.sqrt(share * (1 - share) / runs))


def lost(runs: int) -> None:
    """What a second run finds: a task loses halfway from the margin to the cap, and where that is advised."""
    runs = max(1, runs // 2)
    for count, name in ((4, "meta_gpqa_cot"), (4, "meta_ifeval"), (22, "meta_ifeval")):
        tasks = list_tasks(count)
        docs = next(task.docs for task in tasks if task.name == name)
        table = Table(
            f"{count} tasks, {docs} docs of one lose 3 points: percent of {runs:,} comparisons that ship",
            "runs of A and B", "it loses 3 points", "no loss", "every task loses half the margin", "advised",
        )  # fmt: skip
        states = ((0.03, 0.0), (0.0, 0.0), (0.005, 0.005))
        counts = []
        for loss, other in states:

            def work(
                rng: np.random.Generator, tasks: list[Task] = tasks, name: str = name, loss: float = loss,
                other: float = other,
            ) -> Counter[str]:  # fmt: skip
                draw, counted = flip_runs(0.0), Counter[str]()
                drawn = [(task, *draw(task, loss if task.name == name else other, rng)) for task in tasks]
                for a, b in ((1, 1), (2, 1), (1, 2), (2, 2)):
                    pairs = [pair_runs(task, x[:a], y[:b]) for task, x, y in drawn]
                    is_ship = decide_outcome(pairs, MARGIN).outcome == "SHIP"
                    counted[f"{a}{b}"] += is_ship
                    if is_ship and a + b == 2:
                        counted["advised"] += any(name in note for note in advise_second_run(pairs, MARGIN, CAP))
                return counted

            counts.append(simulate(work, f"lost {count} {name} {loss} {other}", runs))
        for a, b in ((1, 1), (2, 1), (1, 2), (2, 2)):
            alone = counts[1]["11"] / runs
            least = (0.0, min(0.95, alone - 0.01), 0.0)
            cells = [rate(of[f"{a}{b}"], runs, limit) for of, limit in zip(counts, least, strict=True)]
            shipped = max(1, counts[0]["11"])
            table.row(f"{a} and {b}", *cells, rate(counts[0]["advised"], shipped) if a + b == 2 else "-")


def drift(runs: int) -> None:
    table = Table(
        f"Drift of 1,000 docs in a random order and 64 docs asked again: percent of {runs:,} runs that raise the alarm",
        "truth", "flips, percent", "alarm",
    )  # fmt: skip
    for name, lost, start in (("none", 0.0, 1.0), ("20 points lost from half on", 0.2, 0.5)):
        for flips in (0.01, 0.04, 0.1):

            def work(
                rng: np.random.Generator, lost: float = lost, start: float = start, flips: float = flips
            ) -> Counter[str]:
                losses = np.where(rng.random(1000) < flips, rng.choice([-1.0, 1.0], 1000), 0.0)
                bad = (np.arange(1000) >= 1000 * start) & (rng.random(1000) < lost)
                again = np.where(rng.random(64) < flips, rng.choice([-1.0, 1.0], 64), 0.0)
                again = np.where(rng.random(64) < (lost if start < 1 else 0.0), 1.0, again)
                found = (stats.repeat_p_value(again.tolist()), stats.order_p_value(np.where(bad, 1.0, losses).tolist()))
                return Counter({"alarm": int(stats.is_drift(found))})

            counts = simulate(work, f"drift {name} {flips}", runs)
            bounds = (0.0, 0.01) if not lost else (0.9, 1.0)
            table.row(name, f"{100 * flips:g}", rate(counts["alarm"], runs, *bounds))


if __name__ == "__main__":
    sys.exit(
        main(
            __doc__,
            {"pairings": pairings, "lost": lost, "drift": drift},
            options={"setting": "the number of a setting of pairings, from 0"},
        )
    )

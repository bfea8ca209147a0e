"""How well a plan foretells: each chance that `prepare --plan` prints beside drawn runs; and what weights and caps do.

    python benchmarks/plans.py                       all, 1,000 runs each, on two processes; some minutes
    python benchmarks/plans.py chances weights       some: chances, weights, ifeval
    python benchmarks/plans.py --runs 300
    python benchmarks/plans.py --small               a few runs of each: CI

Verdicts are drawn doc by doc as in `verdicts.py`, and decided by ``judging.decide``. A plan draws nothing of a task,
and counts of flips for the whole.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from counting import Table, main, rate, simulate
from drawn_verdicts import MARGIN, Task, cluster_ids, evidence, instruct, many
from verdicts import beside

from meta_eval import stats
from meta_eval.base.thresholds import Weighting
from meta_eval.judge.decide import Decision, decide_outcome
from meta_eval.judge.pair import TaskPair
from meta_eval.judge.plan import PlannedTask, plan_tasks
from meta_eval.stats.identical import expect_copy

# A printed chance may be off by so much besides Monte-Carlo error.
OFF = 0.02
WEIGHTINGS: tuple[Weighting, ...] = ("precision", "equal", "docs")


def planned(task: Task, margin: float | None = None) -> PlannedTask:
    """What `prepare --plan` reads of such a task."""
    labels = None if len(task.subtasks) == 1 else np.repeat(np.arange(len(task.subtasks)), task.subtasks).tolist()
    clusters = cluster_ids(task)
    expected = expect_copy(task.docs, task.flips, labels, None if clusters is None else clusters.tolist(), task.alike)
    parts = {f"s{place}": expect_copy(docs, task.flips) for place, docs in enumerate(task.subtasks)} if labels else {}
    shares = {} if clusters is not None else {name: 1 / len(parts) for name in parts}
    return PlannedTask(task.name, expected, parts, shares, margin, alike=task.alike, alike_measured=True)


def drawn(task: Task, rng: np.random.Generator, runs: int = 1, margin: float | None = None) -> TaskPair:
    """A task of an identical copy, IFEval with whole verdicts; of several runs of either side the mean."""
    plain = replace(task, ifeval=False)
    if runs == 1:
        return replace(evidence(plain, 0.0, rng), margin=margin)
    # Docs that flip answer by chance: two single runs differ in half of them.
    noisy = rng.random(task.docs) < 2 * task.flips
    kept = rng.random(task.docs) < task.accuracy

    def side() -> list[float]:
        return stats.average_runs([np.where(noisy, rng.random(task.docs) < 0.5, kept).tolist() for _ in range(runs)])

    return TaskPair(task.name, measured_drop=stats.paired_drop(side(), side()), margin=margin)


def foretold(count: float, runs: int, chance: float) -> str:
    """A rate beside the chance that was printed."""
    return f"{100 * chance:.1f} | {rate(count, runs, max(0.0, chance - OFF), min(1.0, chance + OFF))}"


ALONE = (
    (Task("a task", (198,), 0.4, 0.04), 0.05),
    (Task("a task", (448,), 0.4, 0.04), 0.01),
    (Task("a task", (448,), 0.4, 0.06), 0.03),
    (Task("a task", (541,), 0.4, 0.02), 0.02),
    (Task("a task", (1319,), 0.8, 0.04), 0.01),
    (Task("a task", (1319,), 0.8, 0.04), 0.02),
    (Task("14 subtasks", instruct(0.04)[-1].subtasks, 0.5, 0.06), 0.008),
    (Task("mgsm, 250 questions in 11 languages", (250,) * 11, 0.69, 0.06, "across", 0.0), 0.015),
    (Task("200 passages of 6 docs", (1200,), 0.7, 0.06, (6,) * 200, 0.0), 0.02),
    (Task("mgsm, 250 questions in 7 languages", (250,) * 7, 0.69, 0.04, "across", 0.0), 0.01),
    (Task("mgsm in 7, alike 0.3", (250,) * 7, 0.69, 0.04, "across", 0.3), 0.01),
    (Task("mgsm in 7, alike 0.9", (250,) * 7, 0.69, 0.04, "across", 0.9), 0.01),
    (Task("mgsm in 11, alike 0.3", (250,) * 11, 0.69, 0.06, "across", 0.3), 0.015),
    (Task("200 passages of 6 docs, alike 0.3", (1200,), 0.7, 0.06, (6,) * 200, 0.3), 0.02),
    (Task("200 passages of 6 docs, alike 0.9", (1200,), 0.7, 0.06, (6,) * 200, 0.9), 0.02),
)


def chances(runs: int) -> None:
    table = Table(
        f"The chance that is printed, and the share of {runs:,} identical copies: percent",
        "task", "docs", "docs that flip", "margin, points", "within margin, printed", "drawn", "at the margin for 95 %",
        "drawn with the runs for 95 %",
    )  # fmt: skip
    for task, margin in ALONE:
        (plan,) = plan_tasks([planned(task, margin)], whole=False).tasks
        told, times = plan.chances, plan.chances.runs_of_both
        again = times if times and len(task.subtasks) == 1 and task.clusters is None else 0

        def work(
            rng: np.random.Generator,
            task: Task = task,
            again: int = again,
            margin: float = margin,
            sure: float = told.margin_sure or 0.0,
        ) -> Counter[str]:
            upper = drawn(task, rng).drop.interval().upper
            repeated = drawn(task, rng, again).drop.interval().upper if again > 1 else None
            return Counter({
                "in": upper < margin, "sure": upper < sure + 1e-9,
                "again": repeated is not None and repeated < margin,
            })  # fmt: skip

        counts = simulate(work, f"{task} {margin}", runs)
        table.row(
            task.name, f"{task.docs:,}", f"{100 * task.flips:g} %", f"{100 * margin:g}",
            foretold(counts["in"], runs, told.chance), rate(counts["sure"], runs, 0.95 - OFF, 1.0),
            f"{rate(counts['again'], runs, 0.95 - OFF)} ({again} of both)" if again > 1 else "-",
        )  # fmt: skip
    table = Table(
        f"The whole: SHIP of identical copies, printed and of {runs:,} drawn: percent",
        "tasks", "margin, points", "printed", "drawn", "at the margin for 95 %",
    )  # fmt: skip
    diamond = Task("GPQA Diamond", (198,), 0.4, 0.04)
    single = Task("gsm8k", (1319,), 0.84, 0.04)
    for name, tasks in (
        ("gsm8k", [single]), ("meta_instruct, 4 %", instruct(0.04)), ("meta_instruct, 6 %", instruct(0.06)),
        ("GPQA Diamond and three others", [diamond, single, *instruct(0.04)[1:3]]), ("22 tasks", many()),
    ):  # fmt: skip
        whole = plan_tasks([planned(task) for task in tasks], draws=400 if runs > 100 else 50).whole
        assert whole is not None

        def work(
            rng: np.random.Generator, tasks: Sequence[Task] = tasks, sure: float = whole.margin_sure or 0.3
        ) -> Counter[str]:
            drops = [drawn(task, rng) for task in tasks]
            return Counter({"ship": _ships(decide_outcome(drops, MARGIN)), "sure": _ships(decide_outcome(drops, sure))})

        counts = simulate(work, f"whole {name}", runs)
        error = 3 * (whole.chance * (1 - whole.chance) / 400) ** 0.5
        table.row(
            name, "1",
            f"{100 * whole.chance:.1f} | "
            f"{rate(counts['ship'], runs, max(0, whole.chance - OFF - error), min(1, whole.chance + OFF + error))}",
            f"{rate(counts['sure'], runs, 0.95 - OFF - 0.02)} ({100 * (whole.margin_sure or 0):.1f})",
        )  # fmt: skip


def _ships(decision: Decision) -> bool:
    return decision.outcome == "SHIP"


def weights(runs: int) -> None:
    table = Table(
        f"Each weight of the mean, margin 1, 4 % of docs flip: percent of {runs:,} runs",
        "tasks", "weights", "identical: SHIP (at least 90; equal 80)", "DON'T SHIP (at most 2.5)",
        "every task drops by the margin: SHIP (at most 5)", "DON'T SHIP (at most 5)",
        "by half the margin: SHIP", "by two margins: DON'T SHIP", "GPQA loses 5: SHIP (at most 5)",
    )  # fmt: skip
    for name, tasks in (("meta_instruct", instruct(0.04)), ("22", beside("meta_gpqa_cot", 448, 22))):
        gpqa = [0.05 if task.name == "meta_gpqa_cot" else 0.0 for task in tasks]
        states = {"same": [0.0] * len(tasks), "half": [0.005] * len(tasks), "margin": [0.01] * len(tasks),
                  "two": [0.02] * len(tasks), "gpqa": gpqa}  # fmt: skip

        def work(
            rng: np.random.Generator, tasks: Sequence[Task] = tasks, states: dict[str, list[float]] = states
        ) -> Counter[str]:
            counts: Counter[str] = Counter()
            for state, drops in states.items():
                result = [evidence(task, drop, rng) for task, drop in zip(tasks, drops, strict=True)]
                for weighting in WEIGHTINGS:
                    counts[f"{state} {weighting} {decide_outcome(result, MARGIN, weighting=weighting).outcome}"] += 1
            return counts

        counts = simulate(work, f"weights {name}", runs)
        for weighting in WEIGHTINGS:
            table.row(
                name, weighting, rate(counts[f"same {weighting} SHIP"], runs, 0.8 if weighting == "equal" else 0.9),
                rate(counts[f"same {weighting} DON'T SHIP"], runs, most=0.025),
                rate(counts[f"margin {weighting} SHIP"], runs, most=0.05),
                rate(counts[f"margin {weighting} DON'T SHIP"], runs, most=0.05),
                rate(counts[f"half {weighting} SHIP"], runs), rate(counts[f"two {weighting} DON'T SHIP"], runs),
                rate(counts[f"gpqa {weighting} SHIP"], runs, most=0.05),
            )  # fmt: skip


def passes_best_test(docs: int, flips: float, loss: float, level: float = 0.05) -> float:
    """The chance that a loss passes the most powerful test of paired verdicts that is right whatever the share of flips
    is: the sign test of the docs that changed, randomised so that a copy without loss fails in just ``level`` (Lehmann
    and Romano, Testing Statistical Hypotheses, section 4.5)."""
    from scipy.stats import binom

    passes = 0.0
    lost = (flips / 2 + loss) / (flips + loss)
    for changed in range(docs + 1):
        counts = np.arange(changed + 1)
        beyond = binom.sf(counts - 1, changed, 0.5)
        limit = int(np.argmax(beyond <= level)) if beyond[-1] <= level else changed + 1
        above = beyond[limit] if limit <= changed else 0.0
        tied = (level - above) / binom.pmf(limit - 1, changed, 0.5)
        fails = binom.sf(limit - 1, changed, lost) + tied * binom.pmf(limit - 1, changed, lost)
        passes += binom.pmf(changed, docs, flips + loss) * (1 - fails)
    return float(passes)


def ifeval(runs: int) -> None:
    """What a cap of its own does for a task of 541 docs that loses three points."""
    table = Table(
        f"One of 22 tasks, 541 docs, 4 % of docs flip besides: percent of {runs:,} runs",
        "cap of this task, points", "it loses 3 points: SHIP", "it loses 5: SHIP", "no loss: SHIP",
        "stopped by this cap",
    )  # fmt: skip
    tasks = beside("a task", 541, 22)
    caps = (0.05, 0.04, 0.035, 0.03, 0.025)
    # The most that may ship with a loss of 3 points, and the least without one.
    bounds = dict(zip(caps, ((0.5, 0.97), (0.25, 0.95), (0.12, 0.93), (0.05, 0.85), (0.03, 0.7)), strict=True))

    def work(rng: np.random.Generator) -> Counter[str]:
        counts: Counter[str] = Counter()
        others = [evidence(task, 0.0, rng) for task in tasks[1:]]
        for loss in (0.0, 0.03, 0.05):
            first = evidence(tasks[0], loss, rng)
            for cap in caps:
                result = decide_outcome([replace(first, cap=cap), *others], MARGIN)
                counts[f"{loss} {cap}"] += _ships(result)
                counts[f"cap {loss} {cap}"] += result.tasks[0].interval.upper >= result.tasks[0].cap
        return counts

    counts = simulate(work, "ifeval", runs)
    best = [f"{100 * passes_best_test(541, 0.04, loss):.1f}" for loss in (0.03, 0.05, 0.0)]
    table.row("no cap: the best test of this task alone, at 5 %", *best, "-")
    for cap in caps:
        table.row(
            f"{100 * cap:g}", rate(counts[f"0.03 {cap}"], runs, most=bounds[cap][0]),
            rate(counts[f"0.05 {cap}"], runs, most=0.03), rate(counts[f"0.0 {cap}"], runs, bounds[cap][1]),
            rate(counts[f"cap 0.0 {cap}"], runs),
        )  # fmt: skip


EXPERIMENTS = {"chances": chances, "weights": weights, "ifeval": ifeval}


if __name__ == "__main__":
    sys.exit(main(__doc__, EXPERIMENTS))

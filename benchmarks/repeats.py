"""Several runs a side, and adversaries of a run that stops: coverage, false alarms, and how often each ships.

    python benchmarks/repeats.py                    all, 1,000 runs each, on two processes; minutes
    python benchmarks/repeats.py coverage order     some: coverage, order, drift
    python benchmarks/repeats.py --small            a few runs of each: CI

Runs are drawn: each doc has an answer, which flips independently in every run; a run effect moves all docs of a run by
losing or winning a share of them, normal with the standard deviation that the table names.
"""

from __future__ import annotations

import math
import secrets
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from counting import OPTIONS, Table, main, rate, simulate
from drawn_verdicts import MARGIN, MMLU_PRO, Task, cluster_ids, instruct, labels_of, many

from meta_eval import stats
from meta_eval.judge.decide import decide_outcome
from meta_eval.judge.drops import measure_run_drop
from meta_eval.judge.pair import TaskPair
from meta_eval.stats.sequential import PairableDocs, Sequential, plan_rounds

FLIPS, MOST = 0.04, 3


def one_run(
    truth: np.ndarray, effect: float, rng: np.random.Generator, clusters: np.ndarray | None = None, alike: float = 0.0
) -> np.ndarray:
    """A run of a model: its answers, of which some flip, and all docs moved by the effect of the run."""
    flipped = rng.random(len(truth)) < FLIPS / 2
    if clusters is not None:
        together = rng.random(int(clusters.max()) + 1) < FLIPS / 2
        flipped = np.where(rng.random(len(truth)) < math.sqrt(alike), together[clusters], flipped)
    run = np.where(flipped, 1 - truth, truth)
    shift = rng.normal(0.0, effect) if effect else 0.0
    moved = rng.random(len(truth)) < abs(shift) / max(1e-9, np.mean(run == (shift < 0)))
    return np.where(moved & (run == (shift < 0)), 1 - run, run)


def draw_runs(task: Task, drop: float, effect: float, rng: np.random.Generator) -> list[list[np.ndarray]]:
    """Three runs of the baseline and of a copy that lost so much of the score."""
    truth = (rng.random(task.docs) < task.accuracy).astype(float)
    lost = rng.random(task.docs) < drop / (1 - FLIPS)
    before, after = np.where(lost, 1.0, truth), np.where(lost, 0.0, truth)
    clusters = cluster_ids(task)
    return [[one_run(truth, effect, rng, clusters, task.alike) for _ in range(MOST)] for truth in (before, after)]


def pair_runs(task: Task, baseline: Sequence[np.ndarray], candidate: Sequence[np.ndarray]) -> TaskPair:
    """The task as `compare` measures it from these runs, without their docs."""
    labels, clusters = labels_of(task), cluster_ids(task)
    ends = np.cumsum(task.subtasks)[:-1]
    parts = [np.split(np.mean(side, axis=0), ends) for side in (baseline, candidate)] if labels else ((), ())
    subtasks = {f"s{at}": stats.paired_drop(*values) for at, values in enumerate(zip(*parts, strict=True))}
    pair = TaskPair(task.name, repeats=len(candidate), baseline_repeats=len(baseline), subtasks=subtasks)
    return measure_run_drop(pair, baseline, candidate, labels, None if clusters is None else clusters.tolist())


def sizes(name: str) -> list[Task]:
    """The tasks with their docs, all with the same flips."""
    tasks = instruct(FLIPS) if name == "4 tasks" else many()
    # Subtasks of 12,032 docs are judged. Those of other tasks take long, and change no rate that is shown.
    kept = [task for task in tasks if task.clusters or task.subtasks == MMLU_PRO]
    return [replace(task, ifeval=False, subtasks=task.subtasks if task in kept else (task.docs,)) for task in tasks]


def pairings(runs: int) -> None:
    """What `compare A1 A2 -- B1` decides, with one to three runs of a side."""
    pairs = [(a, b) for a in range(1, MOST + 1) for b in range(1, MOST + 1)]
    for name in OPTIONS["tasks"].split(",") if OPTIONS.get("tasks") else ("4 tasks", "22 tasks"):
        tasks = sizes(name)
        for effect in map(float, (OPTIONS.get("effects") or "0,0.005,0.01").split(",")):
            cells: dict[tuple[int, int], list[str]] = {pair: [] for pair in pairs}
            for drop in (0.0, MARGIN):

                def work(
                    rng: np.random.Generator, tasks: list[Task] = tasks, drop: float = drop, effect: float = effect
                ) -> Counter[str]:
                    drawn = [(task, *draw_runs(task, drop, effect, rng)) for task in tasks]
                    counts: Counter[str] = Counter()
                    for a, b in pairs:
                        decision = decide_outcome([pair_runs(task, x[:a], y[:b]) for task, x, y in drawn], MARGIN)
                        counts[f"{a}{b} {decision.outcome}"] += 1
                        counts[f"{a}{b} seen"] += bool(decision.run_effect and decision.run_effect.is_seen)
                        if not drop and decision.outcome != "SHIP":
                            for reason in decision.reasons:
                                counts[f"{a}{b} REASON {reason.split(':')[0][:40]}"] += 1
                    return counts

                counts = simulate(work, f"pairings {name} {effect} {drop}", runs)
                for a, b in pairs:
                    cells[a, b] += [f"{100 * counts[f'{a}{b} {o}'] / runs:.1f}" for o in ("SHIP", "DON'T SHIP", "seen")]
                if not drop:
                    print({k: v for k, v in sorted(counts.items()) if "REASON" in k})
            table = Table(
                f"{name}, a run effect of {100 * effect:g} points: percent of {runs:,} comparisons",
                "runs of a side", "identical: SHIP", "DON'T SHIP", "effect seen", "every task drops by the margin: SHIP", "DON'T SHIP", "effect seen",
            )  # fmt: skip
            for (a, b), of_pair in cells.items():
                table.row(f"{a} and {b}", *of_pair)


def order(runs: int) -> None:
    runs = max(10, runs // 5)  # a stopped run is long
    table = Table(
        f"MMLU-Pro, margin 1, 4 % flips: percent of {runs:,} runs that stop with SHIP",
        "who answers", "in the public order of seed 0", "in a secret order",
    )  # fmt: skip
    task = Task("mmlu_pro", MMLU_PRO, 0.48, 0.04)
    labels = [str(number) for number, n in enumerate(task.subtasks) for _ in range(n)]
    docs = PairableDocs("mmlu_pro", range(task.docs), labels)
    public = plan_rounds([docs])
    late = np.zeros(task.docs, dtype=bool)
    late[[int(doc) for _, doc in public.order[task.docs // 2 :]]] = True
    for name, lost in (("identical", 0.0), ("20 points lost in the second half of the public order", 0.2)):

        def work(rng: np.random.Generator, lost: float = lost) -> Counter[str]:
            losses = np.where(rng.random(task.docs) < 0.04, rng.choice([-1.0, 1.0], task.docs), 0.0)
            losses = np.where(late & (rng.random(task.docs) < lost), 1.0, losses)
            secret = plan_rounds([docs], secrets.token_hex(32))
            return Counter({
                key: int(_ships(plan, losses)) for key, plan in (("public", public), ("secret", secret))
            })  # fmt: skip

        counts = simulate(work, f"order {name}", runs)
        bounds = (0.95, 1.0) if not lost else (0.0, 0.05)
        table.row(name, rate(counts["public"], runs), rate(counts["secret"], runs, *bounds))


def _ships(plan: object, losses: np.ndarray) -> bool:
    gate, asked = Sequential(plan, 0.01), 0  # type: ignore[arg-type]
    for end in plan.ends:  # type: ignore[attr-defined]
        for name, doc in plan.order[asked:end]:  # type: ignore[attr-defined]
            gate.add_doc(name, doc, max(losses[doc], 0.0), max(-losses[doc], 0.0))
        asked = end
        if outcome := gate.read_state().outcome:
            return outcome == "SHIP"
    return False


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
        main(__doc__, {"pairings": pairings, "order": order, "drift": drift}, options={"tasks": "", "effects": ""})
    )

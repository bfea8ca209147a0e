"""Several runs a side, and drift: coverage, false alarms.

    python benchmarks/repeats.py                    all, 1,000 runs each, on two processes; minutes
    python benchmarks/repeats.py drift              some: coverage, drift
    python benchmarks/repeats.py --small            a few runs of each: CI

Runs are drawn: each doc has an answer, which flips independently in every run; a run effect moves all docs of a run by
losing or winning a share of them, normal with the standard deviation that the table names.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace

import numpy as np
from counting import Table, main, rate, simulate

from meta_eval import stats

DOCS, FLIPS = 1000, 0.04


def one_run(before: np.ndarray, effect: float, rng: np.random.Generator) -> np.ndarray:
    """A run of a model: its answers, of which some flip, and all docs moved by the effect of the run."""
    flipped = rng.random(len(before)) < FLIPS / 2
    run = np.where(flipped, 1 - before, before)
    shift = rng.normal(0.0, effect) if effect else 0.0
    moved = rng.random(len(before)) < abs(shift) / max(1e-9, np.mean(run == (shift < 0)))
    return np.where(moved & (run == (shift < 0)), 1 - run, run)


def coverage(runs: int) -> None:
    table = Table(
        f"{DOCS:,} docs, {100 * FLIPS:g} % flip between two runs: 95 % intervals that hold the truth, {runs:,} runs",
        "runs of a side", "no effect of the run", "0.5 points", "1 point", "2 points",
    )  # fmt: skip
    for sides in ((1, 1), (2, 1), (2, 2), (3, 3), (5, 5), (5, 1)):
        cells = []
        for effect in (0.0, 0.005, 0.01, 0.02):

            def work(rng: np.random.Generator, sides: tuple[int, int] = sides, effect: float = effect) -> Counter[str]:
                before = (rng.random(DOCS) < 0.5).astype(float)
                a, b = ([one_run(before, effect, rng).tolist() for _ in range(count)] for count in sides)
                drop = stats.paired_drop(stats.average_runs(a), stats.average_runs(b))
                drop = replace(drop, runs=stats.measure_runs(a, b))
                return Counter({"holds": int(0.0 in drop.interval())})

            counts = simulate(work, f"repeats {sides} {effect}", runs)
            known = sides != (1, 1) or not effect
            cells.append(rate(counts["holds"], runs, 0.935 if known else 0.0))
        table.row(f"{sides[0]} and {sides[1]}", *cells)


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
    sys.exit(main(__doc__, {"coverage": coverage, "drift": drift}))

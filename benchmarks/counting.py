"""Counting for `verdicts.py`, `stopping.py`: simulations on several processes, tables of rates with what is right."""

from __future__ import annotations

import argparse
import gc
import math
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np
from scipy import special

from meta_eval.judge.decide import Decision

SEED = 20_250_101
PROCESSES = 2

# A rate is not what it should be where chance alone would bring it in less than one of a thousand.
CHANCE = 0.001
# Runs of an experiment that is only to show that it works, and that no rate is far off.
SMALL = 4


def counted(result: Decision) -> Counter[str]:
    """What one decision counts for."""
    counts = Counter({result.outcome: 1})
    for task in result.tasks:
        counts[f"{task.name} {task.outcome}"] += 1
    counts["any below"] += any(task.outcome == "worse" for task in result.tasks)
    counts["any held"] += any(task.outcome == "within margin" for task in result.tasks)
    return counts


def simulate(work: Callable[[np.random.Generator], Counter[str]], name: str, runs: int) -> Counter[str]:
    """``work`` so many times, on several processes; the numbers that are drawn do not depend on how many."""
    counts: Counter[str] = Counter()
    seeds = np.random.SeedSequence([_SETTING["seed"], *name.encode()]).spawn(runs)
    # Forked, so that ``work`` may be a closure.
    _WORK["now"] = work
    with multiprocessing.get_context("fork").Pool(_SETTING["processes"]) as pool:
        for result in pool.imap_unordered(_one, seeds, chunksize=max(1, runs // 50)):
            counts.update(result)
    return counts


_SETTING = {"seed": SEED, "processes": PROCESSES}
OPTIONS: dict[str, str] = {}
"""What the command line gives for the further options of `main`, by name."""
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
    """A percentage with its Monte-Carlo standard error; pointed out where it is not what it should be."""
    share = count / runs
    error = math.sqrt(share * (1 - share) / runs)
    text = f"{100 * share:.1f} ± {100 * error:.1f}"
    if not 0 < count < runs:
        text = f"0 (under {300 / runs:.1f})" if count == 0 else f"100 (over {100 - 300 / runs:.1f})"
    return flag(text, is_possible(count, runs, least, most))


def flag(text: str, is_right: bool) -> str:
    """The text, pointed out and counted where it is not what it should be."""
    if is_right:
        return text
    Table.failed += 1
    return f"{text} **NOT AS IT SHOULD BE**"


def is_possible(count: float, runs: int, least: float, most: float) -> bool:
    """Whether so many of so many runs may be chance where the true rate is within these bounds: exact binomial."""
    few, many = special.bdtr(count, runs, least), special.bdtrc(count - 1, runs, most) if count else 1.0
    return bool((least == 0 or few >= CHANCE) and (most == 1 or many >= CHANCE))


def main(
    doc: str | None,
    experiments: Mapping[str, Callable[[int], None]],
    small: int = SMALL,
    options: Mapping[str, str] | None = None,
    runs: int = 1000,
) -> int:
    """The experiments that the command line names, of so many runs each; 1 where a rate is not what it should be.

    ``small`` is the number of runs for CI, ``runs`` that of everyone else. ``options`` are further options with a text
    each, and what they do.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help=f"of {', '.join(experiments)}; all without any")
    parser.add_argument("--runs", type=int, default=runs)
    parser.add_argument("--seed", type=int, default=SEED, help="other draws")
    parser.add_argument("--processes", type=int, default=PROCESSES)
    parser.add_argument("--small", action="store_true", help="a few runs of each, in seconds, as CI has them")
    for name, text in (options or {}).items():
        parser.add_argument(f"--{name}", default="", help=text)
    arguments = parser.parse_args()
    gc.set_threshold(100_000, 20, 20)  # as the command line has it
    OPTIONS.update({name: getattr(arguments, name) for name in options or {}})
    _SETTING.update(seed=arguments.seed, processes=arguments.processes)
    count = small if arguments.small else arguments.runs
    if unknown := set(arguments.what) - set(experiments):
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    for name, experiment in experiments.items():
        if not arguments.what or name in arguments.what:
            began = time.monotonic()
            experiment(count)
            print(f"\n{name}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    print(f"\n{Table.failed or 'No'} rate is not what it should be." if Table.failed != 1 else "\nOne rate is not.")
    return 1 if Table.failed else 0

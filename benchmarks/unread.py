"""How often a loss hides behind answers that are empty, cut or not read, and how often such answers stop a sound model.

    python benchmarks/unread.py            all, 1,000 runs each, on two processes; some minutes
    python benchmarks/unread.py hidden     some: identical, hidden, cut
    python benchmarks/unread.py --small    a few runs of each: CI

Verdicts are drawn as in `verdicts.py`, for four tasks of 541, 1,324, 448 and 12,032 docs, and decided as `compare` does,
without files. An answer that is not read is wrong. Of a cut answer the length is drawn: a doc has a length of its own,
and each model adds its own part to it; longer answers are wrong more often, and those beyond the limit are cut and wrong.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from counting import Table, main, rate, simulate
from drawn_verdicts import Task, docs_of, task_run

from meta_eval.harness.doc_results import DocResult, FilterResult
from meta_eval.harness.lm_eval_run import Run
from meta_eval.judge.decide import RunDecision
from meta_eval.judge.runs import compare_runs

SIZES = (541, 1324, 448, 12032)
FLIPS = 0.04
ACCURACY = 0.6
UNREAD = "answers not read"


class Answers(NamedTuple):
    """The answers of one model to the docs of a task; n of each."""

    right: np.ndarray
    unread: np.ndarray
    cut: np.ndarray
    length: np.ndarray


def make_run(sides: Sequence[Answers]) -> Run:
    """A run of all tasks."""
    tasks = {}
    for size, answers in zip(SIZES, sides, strict=True):
        task = Task(f"t{size}", (size,), ACCURACY, FLIPS)
        docs = tuple(map(_answer, docs_of(task), *(column.tolist() for column in answers)))
        tasks[task.name] = task_run(task, docs)
    return Run(tasks, (), {})


def _answer(doc: DocResult, right: bool, unread: bool, cut: bool, length: float) -> DocResult:
    result = FilterResult(None, {"em": float(right and not unread and not cut)}, 0, 0, is_unextracted=unread or cut)
    return replace(
        doc, answer_hash=None, filter_results={"f": result}, cuts=(cut,), limit_hit=cut, answer_length=int(length)
    )


def compare(baseline: Sequence[Answers], candidate: Sequence[Answers]) -> RunDecision:
    return compare_runs(make_run(baseline), make_run(candidate))


def count(judgement: RunDecision) -> Counter[str]:
    forbidden = any(alarm.kind == UNREAD and alarm.veto for alarm in judgement.alarms)
    return Counter({judgement.decision.outcome: 1, "forbidden": int(forbidden)})


def draw(size: int, loss: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Verdicts of a baseline and of a copy that flips `FLIPS` of all docs, and loses so many more."""
    before, luck = rng.random(size) < ACCURACY, rng.random(size)
    after = np.where(luck < FLIPS / 2 / ACCURACY, False, before)
    after = np.where(~before & (luck < FLIPS / 2 / (1 - ACCURACY)), True, after)
    lost = before & (rng.random(size) < loss / ACCURACY)
    return before, after & ~lost


def plain(right: np.ndarray, unread: np.ndarray) -> Answers:
    nothing = np.zeros(len(right))
    return Answers(right, unread, nothing > 0, nothing)


def identical(runs: int) -> None:
    table = Table(
        f"Identical copies, answers not read on both sides alike: percent of {runs:,} runs that SHIP",
        "not read", "SHIP", "forbidden by answers that are not read",
    )  # fmt: skip
    for share in (0.0, 0.01, 0.02, 0.05, 0.2):

        def one(rng: np.random.Generator, share: float = share) -> Counter[str]:
            sides: tuple[list[Answers], list[Answers]] = ([], [])
            for size in SIZES:
                # Mostly the same docs: what one answer does not show the other does not show, either.
                same = rng.random(size) < share
                for side, right in zip(sides, draw(size, 0.0, rng), strict=True):
                    moved = rng.random(size) < 0.2
                    side.append(plain(right, np.where(moved, rng.random(size) < share, same)))
            return count(compare(*sides))

        counts = simulate(one, f"alike {share}", runs)
        table.row(f"{100 * share:g} %", rate(counts["SHIP"], runs, 0.94), rate(counts["forbidden"], runs, most=0.01))


def hidden(runs: int) -> None:
    table = Table(
        f"A loss behind answers that the baseline lacks: percent of {runs:,} runs",
        "the baseline lacks", "of", "it loses", "SHIP", "forbidden (at least 80)",
    )  # fmt: skip
    for share, loss, where in ((0.2, 0.05, (0, 1, 2, 3)), (0.2, 0.05, (1,)), (0.2, 0.05, (0,)), (0.05, 0.05, (3,))):

        def one(
            rng: np.random.Generator, share: float = share, loss: float = loss, where: tuple[int, ...] = where
        ) -> Counter[str]:
            sides: tuple[list[Answers], list[Answers]] = ([], [])
            for place, size in enumerate(SIZES):
                before, after = draw(size, loss if place in where else 0.0, rng)
                lacks = (rng.random(size) < share) & (place in where)
                sides[0].append(plain(before, lacks))
                sides[1].append(plain(after, np.zeros(size, bool)))
            return count(compare(*sides))

        counts = simulate(one, f"hidden {share} {loss} {where}", runs)
        of = "all tasks" if len(where) == len(SIZES) else f"the task of {SIZES[where[0]]:,} docs"
        table.row(
            f"{100 * share:g} %", of, f"{100 * loss:g}", rate(counts["SHIP"], runs),
            rate(counts["forbidden"], runs, 0.8 if len(where) == len(SIZES) else 0.0),
        )  # fmt: skip


def cut(runs: int) -> None:
    table = Table(
        f"A copy that is cut less often and loses nothing: percent of {runs:,} runs",
        "cut: baseline", "candidate", "forbidden (at most 3)",
    )  # fmt: skip
    for more, fewer in ((0.02, 0.0), (0.05, 0.01), (0.1, 0.02), (0.1, 0.05), (0.2, 0.05), (0.2, 0.0)):

        def one(rng: np.random.Generator, more: float = more, fewer: float = fewer) -> Counter[str]:
            sides: tuple[list[Answers], list[Answers]] = ([], [])
            for size in SIZES:
                own = rng.normal(size=size)
                before, after = draw(size, 0.0, rng)
                for side, right, share in zip(sides, (before, after), (more, fewer), strict=True):
                    length = own + 0.6 * rng.normal(size=size)
                    rank = length.argsort().argsort() / size
                    # The longest answers are those to the hardest docs.
                    wrong = (rng.random(size) < 0.9 * np.clip(rank - 0.6, 0, 1) / 0.4) & (own > 0.5)
                    side.append(Answers(right & ~wrong, np.zeros(size, bool), rank >= 1 - share, 1000 * rank))
            return count(compare(*sides))

        counts = simulate(one, f"cut {more} {fewer}", runs)
        table.row(f"{100 * more:g} %", f"{100 * fewer:g} %", rate(counts["forbidden"], runs, most=0.03))


if __name__ == "__main__":
    sys.exit(main(__doc__, {"identical": identical, "hidden": hidden, "cut": cut}))

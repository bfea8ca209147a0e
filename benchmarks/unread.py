"""How often a loss hides behind answers that are empty, cut or not read, and how often such answers stop a sound model.

    python benchmarks/unread.py            all, 1,000 runs each, on two processes; some minutes
    python benchmarks/unread.py hidden     some: identical, hidden, cut, graders
    python benchmarks/unread.py --small    a few runs of each: CI

Verdicts are drawn as in `verdicts.py`, for four tasks of 541, 1,324, 448 and 12,032 docs, and decided as `compare`
does, without files. An answer that is not read is wrong. Lengths are drawn, too: a doc has a length of its own, and
each model adds its own part to it. Longer answers are wrong more often, and those beyond the limit are cut and wrong.

`graders`: a share of answers is the same text on both sides. A judge flips a share of its verdicts, each time that it
grades, on both sides; or it lowers or raises a share of all answers of the candidate alone.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
from counting import Table, main, rate, simulate
from drawn_verdicts import Task, docs_of, task_run

from meta_eval.harness.doc_results import DocResult, FilterResult
from meta_eval.harness.lm_eval_run import Run
from meta_eval.judge.decide import RunDecision
from meta_eval.judge.runs import judge

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
    text: np.ndarray | None = None
    """A number for each text; None where no text is known."""


def make_run(side: str, tasks: Sequence[Answers]) -> Run:
    """A run of all tasks. The docs of a side are made once a process, and answered again."""
    runs = {}
    for size, answers in zip(SIZES, tasks, strict=True):
        task = Task(f"t{size}", (size,), ACCURACY, FLIPS)
        docs = docs_of_side(task, side)
        columns = [column.tolist() for column in answers[:4]]
        texts = [None] * size if answers.text is None else [f"{text:x}" for text in answers.text.tolist()]
        for doc, right, unread, cut, length, text in zip(docs, *columns, texts, strict=True):
            verdict = float(right and not unread and not cut)
            doc.filter_results = {"f": FilterResult(None, {"em": verdict}, 0, 0, is_unextracted=bool(unread or cut))}
            doc.cuts, doc.limit_hit, doc.answer_length, doc.answer_hash = (cut,), cut, int(length), text
        runs[task.name] = task_run(task, docs)
    return Run(runs, (), {})


@cache
def docs_of_side(task: Task, side: str) -> tuple[DocResult, ...]:
    """The docs of a task, which only this side changes."""
    assert side in "AB"
    return tuple(replace(doc) for doc in docs_of(task))


def compare(baseline: Sequence[Answers], candidate: Sequence[Answers]) -> RunDecision:
    return judge(make_run("A", baseline), make_run("B", candidate))


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

        # With a fifth not read, and a fifth of these elsewhere, twice as many docs flip.
        counts = simulate(one, f"alike {share}", runs)
        least = 0.94 if share < 0.2 else 0.0
        table.row(f"{100 * share:g} %", rate(counts["SHIP"], runs, least), rate(counts["forbidden"], runs, most=0.01))


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


# Runs in CI, of a third of the graders.
SMALL = 2
# The share of equal answers; of its verdicts that the judge flips each time; of all answers that it lowers and raises
# in the candidate alone; the loss; the least and the most of SHIP, and of DON'T SHIP.
GRADERS = (
    (0.96, 0.05, 0.0, 0.0, 0.0, (0.97, 1.0), (0.0, 0.03)), (0.5, 0.05, 0.0, 0.0, 0.0, (0.6, 1.0), (0.0, 0.03)),
    (0.1, 0.05, 0.0, 0.0, 0.0, (0.34, 1.0), (0.0, 0.03)),
    (0.96, 0.05, 0.0, 0.0, 0.02, (0.0, 0.01), (0.97, 1.0)), (0.5, 0.05, 0.0, 0.0, 0.02, (0.0, 0.01), (0.67, 1.0)),
    (0.1, 0.05, 0.0, 0.0, 0.02, (0.0, 0.01), (0.34, 1.0)),
    *((equal, 0.0, strict, 0.0, 0.0, (0.0, 1.0), (0.0, 0.05)) for strict in (0.02, 0.05) for equal in (0.96, 0.5, 0.1)),
    *((equal, 0.0, 0.0, lenient, 0.02, (0.0, 0.01), (0.0, 1.0)) for lenient in (0.02, 0.05) for equal in (0.5, 0.1)),
)  # fmt: skip


def graders(runs: int) -> None:
    table = Table(
        f"A judge that gives the same answers other verdicts: percent of {runs:,} runs",
        "equal answers", "the judge flips", "lowers", "raises", "the model loses", "SHIP", "DON'T SHIP",
    )  # fmt: skip
    for equal, noise, lower, higher, loss, ship, fail in GRADERS if runs > SMALL else GRADERS[::3]:

        def one(
            rng: np.random.Generator,
            equal: float = equal,
            noise: float = noise,
            lower: float = lower,
            higher: float = higher,
            loss: float = loss,
        ) -> Counter[str]:
            sides: tuple[list[Answers], list[Answers]] = ([], [])
            for size in SIZES:
                before = rng.random(size) < ACCURACY
                # What flips or is lost is of the answers that differ.
                same = rng.random(size) < equal
                flips = min(FLIPS, (1 - equal) / 5)
                chance = (flips / 2 + np.array([loss, 0.0])) / (1 - equal) / np.array([ACCURACY, 1 - ACCURACY])
                luck = rng.random(size)
                changed = ~same & (luck < np.where(before, *chance))
                after = before ^ changed
                judged = rng.random(size) < np.where(after, lower / ACCURACY, higher / (1 - ACCURACY))
                flipped, flipped_again = rng.random((2, size)) < noise
                nothing = np.zeros(size)
                texts = np.arange(size)
                sides[0].append(Answers(before ^ flipped, nothing > 0, nothing > 0, nothing, texts))
                graded = after ^ judged ^ flipped_again
                sides[1].append(Answers(graded, nothing > 0, nothing > 0, nothing, np.where(same, texts, texts + size)))
            return count(compare(*sides))

        counts = simulate(one, f"grader {equal} {noise} {lower} {higher} {loss}", runs)
        table.row(
            *(f"{100 * share:g} %" for share in (equal, noise, lower, higher)), f"{100 * loss:g}",
            rate(counts["SHIP"], runs, *ship), rate(counts["DON'T SHIP"], runs, *fail),
        )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(__doc__, {"identical": identical, "hidden": hidden, "cut": cut, "graders": graders}, small=SMALL))

"""Judges the newest run of a history by all runs before it.

Each task has a chart (`meta_eval.stats.run_chart`), and so has the mean over tasks. Half of the false alarms may come
from the mean, the other half from the tasks together. Only docs that all runs of a chart have count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from meta_eval.judging.run_history import PastRun
from meta_eval.stats.run_chart import MIN_EARLIER, ChartPoint, average_run_length, draw_chart, find_limits

Outcome = Literal["no alarm", "alarm", "too few runs"]

# Later false alarms are a little more frequent than the first, because an alarm takes its runs out of the reference:
# measured 1.2 times over years of nightly runs. So the charts are drawn for fewer.
_LATER = 1.25

# A run that lacks more of a task's docs than this share is not on its chart.
_MISSING = 0.05

# A doc is called unsteady with at least this many runs, and this share of either verdict.
_ENOUGH_RUNS, _EITHER = 4, 0.25

_SURE = 0.8416  # normal quantile of a chance of 80 %


@dataclass(frozen=True, slots=True)
class DocFlips:
    """How the docs of a task change between runs.

    Attributes:
        docs: Number of docs.
        changed: Number of docs that ever changed.
        unsteady: The docs that go either way, least steady first.
        expected: Standard deviation of a run's score that independent flips explain.
        seen: Standard deviation of the runs' scores.
    """

    docs: int
    changed: int
    unsteady: tuple[str, ...]
    expected: float
    seen: float


@dataclass(frozen=True, slots=True)
class Chart:
    """The runs of a task, or of the mean over tasks.

    Attributes:
        name: The task; ``mean`` for the mean over tasks.
        runs: The places of its runs in the history.
        points: A point for each.
        docs: The number of docs that count.
        runs_per_alarm: What its limits are for.
        flips: Of the runs without an alarm. None for the mean, and with a single run.
    """

    name: str
    runs: tuple[int, ...]
    points: tuple[ChartPoint, ...]
    docs: int
    runs_per_alarm: float
    flips: DocFlips | None

    @property
    def is_alarmed(self) -> bool:
        """Whether its newest run is part of an alarm."""
        return self.points[-1].state != "ok"

    @property
    def alarm(self) -> tuple[int, ChartPoint] | None:
        """The place of the newest alarm among its points, and that point; None if there is none now."""
        if not self.is_alarmed:
            return None
        return next((at, point) for at, point in reversed(list(enumerate(self.points))) if point.change is not None)

    def find_docs_needed(self, drop: float) -> int | None:
        """The docs with which a single run shows a drop in 80 % of cases; None if no number suffices or it is unknown.

        Args:
            drop: From 0 to 1.
        """
        if self.flips is None or drop <= 0:
            return None
        needed = (drop / (find_limits(self.runs_per_alarm).limit + _SURE)) ** 2
        by_docs = self.flips.expected**2
        shared = max(0.0, self.flips.seen**2 - by_docs)
        return math.ceil(by_docs * self.docs / (needed - shared)) if needed > shared else None

    def find_runs_needed(self, drop: float) -> float | None:
        """The average number of runs until a lasting drop raises an alarm; None if unknown.

        Args:
            drop: From 0 to 1.
        """
        if self.flips is None:
            return None
        spread = max(self.flips.seen, self.flips.expected, 1 / self.docs)
        return average_run_length(find_limits(self.runs_per_alarm), drop / spread)


@dataclass(frozen=True, slots=True)
class HistoryJudgement:
    """What a history says of its newest run.

    Attributes:
        outcome: ``alarm`` if any chart has one.
        runs: The runs since the last accepted change, oldest first.
        charts: That of the mean first, if there are several tasks.
        notes: What does not count, and why.
    """

    outcome: Outcome
    runs: tuple[PastRun, ...]
    charts: tuple[Chart, ...]
    notes: tuple[str, ...]


def judge_history(history: Sequence[PastRun], runs_per_alarm: float) -> HistoryJudgement:
    """Judge the newest run.

    Args:
        history: Oldest first; at least one.
        runs_per_alarm: The average number of runs from one false alarm to the next, over all charts.
    """
    start = max((place for place, run in enumerate(history) if run.new_level), default=0)
    runs = tuple(history[start:])
    newest, notes = runs[-1], []
    several = len(newest.tasks) > 1
    each = runs_per_alarm * _LATER * (2 * len(newest.tasks) if several else 1)
    charts, scores = [], {}
    for task, verdicts in newest.tasks.items():
        metric, total = verdicts.metric, len(verdicts.docs)
        places, left_out = [], 0
        for place, run in enumerate(runs):
            other = run.tasks.get(task)
            if other is not None and other.metric == metric and _has_docs(other.docs, verdicts.docs):
                places.append(place)
            else:
                left_out += 1
        if left_out:
            notes.append(f"{task}: {left_out} of {len(runs)} runs lack it, its metric {metric}, or many of its docs")
        tables = [runs[place].tasks[task].docs for place in places]
        docs = sorted(set.intersection(*map(set, tables)))
        if len(docs) < total:
            notes.append(f"{task}: {total - len(docs)} of {total} docs are not in every run, and do not count")
        values = [[table[doc] for doc in docs] for table in tables]
        points = draw_chart([_mean(run) for run in values], each, 1 / len(docs))
        unchanged = [run for run, point in zip(values, points, strict=True) if point.state == "ok"]
        scores[task] = dict(zip(places, map(_mean, values), strict=True))
        charts.append(Chart(task, tuple(places), tuple(points), len(docs), each, _flips(docs, unchanged or values)))
    if several:
        charts.insert(0, _mean_chart(scores, charts, runs_per_alarm * _LATER * 2))
    enough = any(len(chart.points) > MIN_EARLIER for chart in charts)
    alarmed = any(chart.is_alarmed for chart in charts)
    outcome: Outcome = "alarm" if alarmed else "no alarm" if enough else "too few runs"
    return HistoryJudgement(outcome, runs, tuple(charts), tuple(notes))


def _has_docs(docs: Mapping[str, float], wanted: Mapping[str, float]) -> bool:
    common = len(docs.keys() & wanted.keys())
    return common >= (1 - _MISSING) * max(len(docs), len(wanted))


def _mean_chart(scores: Mapping[str, Mapping[int, float]], charts: Sequence[Chart], runs_per_alarm: float) -> Chart:
    """The chart of the mean over tasks, each with the same weight, by the runs that have all of them."""
    places = sorted(set.intersection(*(set(of_task) for of_task in scores.values())))
    means = [_mean([of_task[place] for of_task in scores.values()]) for place in places]
    docs = sum(chart.docs for chart in charts)
    return Chart("mean", tuple(places), tuple(draw_chart(means, runs_per_alarm, 1 / docs)), docs, runs_per_alarm, None)


def _flips(docs: Sequence[str], values: Sequence[Sequence[float]]) -> DocFlips | None:
    import numpy as np

    if len(values) < 2:
        return None
    table = np.asarray(values)
    shares, variances = table.mean(axis=0), table.var(axis=0, ddof=1)
    steadiness = np.abs(shares - 0.5)
    unsteady: tuple[str, ...] = ()
    if len(values) >= _ENOUGH_RUNS:
        order = np.lexsort((np.arange(len(docs)), steadiness))
        unsteady = tuple(docs[at] for at in order if steadiness[at] <= 0.5 - _EITHER)
    return DocFlips(
        len(docs), int(np.count_nonzero(variances)), unsteady,
        expected=math.sqrt(float(variances.sum())) / len(docs), seen=float(table.mean(axis=1).std(ddof=1)),
    )  # fmt: skip


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)

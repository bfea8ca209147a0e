"""The tables of a report: what each task loses, its scores, and two verdicts on each doc. A column is added here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from meta_eval.base.display import plural
from meta_eval.base.thresholds import LEVEL_TEXT, Weighting
from meta_eval.harness.doc_results import FIGURES, DocFigure
from meta_eval.reports import text
from meta_eval.reports.document import CellValue, Column, Row, Table

if TYPE_CHECKING:
    from meta_eval.judge.decide import Decision
    from meta_eval.judge.decision import Flips, Measure, Score, TaskDecision
    from meta_eval.reports.report_data import ReportData
    from meta_eval.stats import Drop, Interval


# The mean by the weights of its tasks, in words.
MEANS: dict[Weighting, str] = {"precision": "weighted mean", "equal": "plain mean", "docs": "mean over docs"}


@dataclass(frozen=True, slots=True)
class DropRow:
    """What a row of drops is about: a task that is decided, or the mean over tasks."""

    docs: int
    drop: Drop | None = None
    interval: Interval | None = None
    task: TaskDecision | None = None


def make_drop_table(report: ReportData) -> Table[DropRow]:
    """What each task loses, with the means over several tasks; without a row where nothing is compared."""
    comparing, margins = report.document_type == "compare", _has_margins(report.decision)
    first, second = ("A", "B") if comparing else ("baseline", "run")
    optional: tuple[tuple[bool, Column[DropRow]], ...] = (
        (margins, Column(
            "margin", "margin", lambda row: row.task.margin if row.task else None, text.format_percent,
            "the largest drop that is allowed, in points", headings={"terminal": "mar-\ngin"},
        )),
        (comparing, Column(
            "recovery", "recovery", _of_task(lambda task: task.drop.recovery),
            lambda share: f"{text.format_percent(share)} %",
            "what is left of A's score, in percent", detail=_recovery_interval, detailed=("html",),
            headings={"terminal": "recov-\nery"},
        )),
    )  # fmt: skip
    columns: tuple[Column[DropRow], ...] = (
        Column("docs", "docs", lambda row: row.docs, text.format_count, headings={"terminal": ""}),
        Column(
            "baseline", first, _of_task(lambda task: task.drop.baseline), text.format_percent,
            headings={"html": "", "terminal": "A" if comparing else "base"}, spare=True,
        ),
        Column(
            "candidate", second, _of_task(lambda task: task.drop.candidate), text.format_percent,
            headings={"html": "", "terminal": "B" if comparing else "ours"},
        ),
        Column(
            "drop", "drop", lambda row: row.drop.value if row.drop else None, text.format_drop,
            "points, positive for worse",
            detail=_baseline_and_candidate, detailed=("html",), strong=True,
        ),
        Column(
            "interval", f"{LEVEL_TEXT} interval", lambda row: row.interval, text.format_drop_interval,
            headings={"html": LEVEL_TEXT, "terminal": LEVEL_TEXT},
        ),
        Column(
            "p", "p", _of_task(lambda task: task.p_corrected), text.format_p_value,
            "two-sided, of no drop, of the same statistic as the interval; corrected for the number of tasks",
            headings={"terminal": ""},
        ),
        *(column for is_shown, column in optional if is_shown),
        Column(
            "detectable_drop", "could see", _of_task(lambda task: task.detectable_drop), text.format_percent,
            "the smallest drop, in points, that docs like these would have shown four times out of five",
            headings={"terminal": ""} if comparing else {},
        ),
        Column(
            "weight", "weight", _of_task(lambda task: task.weight), text.format_weight,
            f"the task's share of the {MEANS[report.decision.weights]}",
        ),
    )  # fmt: skip
    judged = [task for task in report.tasks if not task.is_left_out]
    rows = [_drop_row(task) for task in judged] if any(task.is_decided for task in judged) else []
    return Table("drops", "What is lost", columns, (*rows, *_means(report.decision, len(rows))), _drop_legend(report))


def _of_task(figure: Callable[[TaskDecision], CellValue]) -> Callable[[DropRow], CellValue]:
    """A figure that a mean does not have."""
    return lambda row: figure(row.task) if row.task else None


def _drop_row(task: TaskDecision) -> Row[DropRow]:
    subject = DropRow(task.drop.docs, task.drop, task.interval, task) if task.is_decided else DropRow(task.docs)
    return Row(task.name, subject, task.outcome, remarks=_remarks(task), samples=not task.members)


def _means(decision: Decision, tasks: int) -> Iterator[Row[DropRow]]:
    """The mean that decides, and the plain mean. A single task has neither."""
    if tasks == 0 or len(decision.tasks) < 2:
        return
    if mean := decision.mean:
        subject = DropRow(mean.docs, mean, decision.interval)
        yield Row(MEANS[decision.weights], subject, decision.outcome, whole=True)
    if (equal := decision.unweighted_mean) and decision.weights != "equal":
        yield Row(MEANS["equal"], DropRow(equal.docs, equal, decision.unweighted_interval), whole=True)


def _drop_legend(report: ReportData) -> str:
    decision = report.decision
    others = " of the mean, and of each task its margin" if _has_margins(decision) else ""
    alone = report.document_type != "compare"  # whose terminal has no such column
    see = " Could see: the smallest true drop that so many docs show in 80 % of runs." if alone else ""
    return (
        f"Percent and points; a positive drop is worse, and at most {100 * decision.margin:g} is allowed{others}. The "
        f"weight is a task's share of the {describe_weights(decision)}.{see}{describe_run_effect(decision)}"
        f"{text.describe_left_out(report.tasks)}"
    )


def describe_run_effect(decision: Decision) -> str:
    """What intervals have of the differences from run to run; empty if no drop is paired."""
    effect = decision.run_effect
    if not any(task.drop.paired for task in decision.tasks):
        return ""
    if effect is None:
        return " Each model ran once, so intervals leave out what differs from run to run."
    if not effect.is_seen:
        return " Runs of a side are averaged: they differ no more than single flips explain."
    return (
        f" Runs of a side differ {effect.ratio:.1f} times as much as single flips explain (ratio of variances), so "
        "intervals of tasks with several runs contain it."
    )


def describe_weights(decision: Decision) -> str:
    """The mean that decides, and how it weighs tasks."""
    more = ", in which a task with more docs counts more" if decision.weights == "precision" else ""
    return MEANS[decision.weights] + more


def _has_margins(decision: Decision) -> bool:
    """Whether a task has a margin other than the mean's."""
    return any(task.margin != decision.margin for task in (*decision.tasks, *decision.groups))


def _baseline_and_candidate(row: DropRow) -> str | None:
    return (
        f"{text.format_percent(row.task.drop.baseline)} → {text.format_percent(row.task.drop.candidate)}"
        if row.task
        else None
    )


def _recovery_interval(row: DropRow) -> str | None:
    bounds = row.task.drop.recovery_interval() if row.task else None
    return text.format_interval(bounds) if bounds else None


def _remarks(task: TaskDecision) -> tuple[str, ...]:
    missing = task.prepared is not None and task.docs < task.prepared and not task.members
    remarks = (
        f"of {plural(task.prepared or 0, 'doc')}" if missing else "",
        plural(len(task.members), "task") if task.members else "",
        plural(task.runs, "run") if task.runs > 1 else "",
        f"{plural(task.sampling.answers, 'answer')} a doc" if task.sampling and task.sampling.answers > 1 else "",
    )
    return tuple(filter(None, remarks))


# Scores beside published numbers


def make_score_table(report: ReportData) -> Table[Score]:
    """Each score with the published number that it is compared with, and what the baseline is from that."""
    published_word = report.published_label.split(" ")[0] or "published"
    has_baseline = any(_get_baseline_difference(score) is not None for task in report.tasks for score in task.scores)
    of_two = report.document_type == "compare"
    hidden = {} if report.published_label else dict.fromkeys(("html", "markdown", "terminal"), "")
    columns: tuple[Column[Score], ...] = (
        Column("docs", "docs", lambda score: score.docs, text.format_count),
        *([Column("score_of_baseline", "A", attrgetter("score_of_baseline"), text.format_percent)] if of_two else []),
        Column(
            "score", "B" if of_two else "score", lambda score: score.value, text.format_percent, strong=True,
            headings={"terminal": "B" if of_two else "ours"},
        ),
        Column(
            "interval", f"{LEVEL_TEXT} interval", lambda score: score.interval, text.format_interval,
            headings={"html": LEVEL_TEXT, "terminal": LEVEL_TEXT},
        ),
        Column(
            "published", published_word, _published, text.format_percent,
            headings=hidden or {"terminal": "rec." if published_word.startswith("rec") else "publ."},
        ),
        Column(
            "difference", "difference", lambda score: score.candidate_minus_reference, text.format_points,
            headings=hidden or {"terminal": "diff."},
        ),
        Column(
            "baseline", "baseline", _get_baseline_difference,
            text.format_points,
            f"{report.baseline_owner_recorded} answers under this pack's graders, less the published number: the "
            "graders' or the record's, and no part of the drop",
            headings=hidden or {"markdown": "", **({} if has_baseline else {"html": ""}),
                                "terminal": "base." if has_baseline else ""},
        ),
    )  # fmt: skip
    rows = tuple(row for task in report.tasks for row in _score_rows(task))
    published_label = report.published_label.removesuffix("s")
    whose = "the run and of the baseline" if has_baseline else "the run"
    legend = f"; differences of {whose} from the {published_label}" if published_label else ""
    title = f"Beside the {report.published_label}" if report.published_label else "Scores"
    return Table("scores", title, columns, rows, f"Percent{legend}.")


def _score_rows(task: TaskDecision) -> Iterable[Row[Score]]:
    several = len(task.scores) > 1
    return [
        Row(task.name, score, part=score.averaging if several else "", remarks=_remarks(task), samples=not task.members)
        for score in task.scores
    ]


def _get_baseline_difference(score: Score) -> float | None:
    return score.baseline_difference.baseline_minus_reference if score.baseline_difference else None


def _published(score: Score) -> float | None:
    """The published number, where the score may be compared with it."""
    return score.reference.value if score.reference and score.candidate_minus_reference is not None else None


# All metrics of a task


def make_metric_table(report: ReportData) -> Table[Measure]:
    """All metrics of tasks that have several, each with its own drop."""
    first, second = ("A", "B") if report.document_type == "compare" else ("base", "ours")
    columns: tuple[Column[Measure], ...] = (
        Column("docs", "docs", attrgetter("docs"), text.format_count, "docs that it is about"),
        Column("baseline", first, attrgetter("baseline"), text.format_percent),
        Column("candidate", second, attrgetter("value"), text.format_percent, strong=True),
        Column(
            "interval", f"{LEVEL_TEXT} interval", attrgetter("interval"), text.format_interval,
            headings={"html": LEVEL_TEXT, "terminal": LEVEL_TEXT},
        ),
        Column(
            "drop", "drop", lambda metric: metric.drop.value if metric.drop else None, text.format_drop,
            "points, positive for worse",
        ),
        Column(
            "drop_interval", f"{LEVEL_TEXT} interval of it",
            lambda metric: metric.drop.interval if metric.drop else None, text.format_drop_interval,
            headings={"terminal": f"{LEVEL_TEXT} of it"},
        ),
    )  # fmt: skip
    rows = tuple(
        Row(task.name, metric, part=metric.name.partition(",")[0]) for task in report.tasks for metric in task.metrics
    )
    legend = "Percent and points. Docs of which a metric says nothing are left out of it; no decision depends on it."
    return Table("metrics", "All metrics", columns, rows, legend)


# What answers are like


def figure_mean_table(report: ReportData) -> Table[TaskDecision]:
    """The mean of each figure of single answers, with the baseline's beside it where it is known."""
    names = ("A", "B") if report.document_type == "compare" else ("baseline", "run")
    columns: tuple[Column[TaskDecision], ...] = tuple(
        Column(f"{side}_{figure.key}", f"{figure.heading}, {name}", _mean(side, figure.key), _format(figure))
        for figure in FIGURES
        for side, name in zip(("baseline", "candidate"), names, strict=True)
        if any(figure.key in task.figures[side] for task in report.tasks)
    )
    rows = tuple(Row(task.name, task, samples=True) for task in report.tasks if task.figures["candidate"])
    present = {column.key.partition("_")[2] for column in columns}
    legend = "; ".join(f"{figure.heading}: {figure.legend}" for figure in FIGURES if figure.key in present)
    return Table("answers", "What answers are like", columns, rows, f"{legend[:1].upper()}{legend[1:]}.")


def _format(figure: DocFigure) -> Callable[[float], str]:
    return text.format_percent if figure.is_share else text.format_mean


def _mean(side: str, key: str) -> Callable[[TaskDecision], CellValue]:
    return lambda task: task.figures[side].get(key)


# Doc by doc


def make_flip_table(report: ReportData) -> Table[Flips]:
    """Two verdicts on each doc. The headings name their owners."""
    comparing = report.document_type == "compare"
    keys = ("baseline_only", "candidate_only") if comparing else ("candidate_only", "baseline_only")
    columns: tuple[Column[Flips], ...] = (
        Column("docs", "docs", lambda flips: flips.compared, text.format_count),
        Column(
            "agree", "agree", lambda flips: flips.agreed / flips.compared,
            lambda share: f"{text.format_percent(share)} %",
        ),
        *(
            Column(
                key, f"only {side.label} right", attrgetter(key), text.format_count, side.title,
                headings={"terminal": f"only {side.label}"}, samples=flag,
            )
            for key, side, flag in zip(keys, report.sides, ("first only", "second only"), strict=True)
        ),
    )  # fmt: skip
    rows = [
        Row(task.name, task.flips, remarks=_remarks(task))
        for task in report.tasks
        if task.flips is not None and task.flips.compared
    ]
    title = "Flips, doc by doc" if comparing else f"Beside {report.baseline_owner} answers, doc by doc"
    return Table("flips", title, columns, tuple(rows))

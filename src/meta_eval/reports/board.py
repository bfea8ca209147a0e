"""Several endpoints over the same docs, side by side: what each scores and loses, and whether it is the model.

Nothing ranks endpoints whose intervals overlap. The place of an endpoint is a range: from one more than the number of
endpoints that are surely better, to one less than those that are not surely worse.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from meta_eval.messages.counts import plural
from meta_eval.reports.document import Document, Section, Verdict
from meta_eval.reports.tables import Column, Row, Table
from meta_eval.reports.text import NONE, format_drop, format_drop_interval, format_interval, format_percent
from meta_eval.stats import Interval

if TYPE_CHECKING:
    from meta_eval.judging.judgement import Task
    from meta_eval.reports.model import Report
    from meta_eval.results.provenance import Provenance

SCHEMA_VERSION = 1
VALID_CALLS = "schema_accuracy"

_LEGEND = (
    "Score: the mean of the tasks that every endpoint ran, percent, with its 95 % interval. Place: endpoints whose "
    "intervals overlap share places. Drop: from the baseline, points. Audit: of the answers, by a trusted copy."
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint. Shares are from 0 to 1; None is unknown.

    Attributes:
        name: Its name on the board.
        outcome: The decision of its report.
        score: The mean score over the tasks that every endpoint ran.
        interval: Its interval at 95 %.
        best, worst: Its place at best and at worst.
        drop, drop_interval: The mean drop of its report, and the interval that decides.
        audit: The outcome of its audit.
        cut: The share of cut answers, in tasks that have any.
        valid_calls: The share of tool calls that fit the schema of their tool.
        seconds: The median time from a request to its answer.
        cost: Of all answers, in the unit of the given prices.
    """

    name: str
    outcome: str
    score: float | None
    interval: Interval | None
    best: int
    worst: int
    drop: float | None
    drop_interval: Interval | None
    audit: str | None
    cut: float | None
    valid_calls: float | None
    seconds: float | None
    cost: float | None


@dataclass(frozen=True, slots=True)
class EndpointBoard:
    """The endpoints, the best score first, and the tasks that the scores are of."""

    endpoints: tuple[Endpoint, ...]
    tasks: tuple[str, ...]
    notes: tuple[str, ...] = ()
    exit_code: int = 0

    @property
    def summary(self) -> str:
        """The result in one line."""
        first = [endpoint.name for endpoint in self.endpoints if endpoint.best == 1]
        if len(first) == len(self.endpoints):
            return f"no endpoint of {len(first)} is shown to be better than another"
        return f"{', '.join(first)} {'is' if len(first) == 1 else 'are'} not shown to be worse than any other"

    def to_json(self) -> dict[str, Any]:
        """The board as plain JSON data."""
        return {
            "schema_version": SCHEMA_VERSION, "document_type": "board", "summary": self.summary,
            "tasks": list(self.tasks), "endpoints": [dataclasses.asdict(endpoint) for endpoint in self.endpoints],
            "notes": list(self.notes),
        }  # fmt: skip


def make_board(
    reports: Mapping[str, Report], provenances: Mapping[str, Sequence[Provenance]], audits: Mapping[str, str]
) -> EndpointBoard:
    """Make the board.

    Args:
        reports: By name.
        provenances: Of the results files of each.
        audits: The outcome of the audit of some, by name.
    """
    scored = [{task.name for task in report.tasks if _find_score(task)[0] is not None} for report in reports.values()]
    ran = [{task.name for task in report.tasks} for report in reports.values()]
    tasks = tuple(sorted(set.intersection(*scored)))
    left = sorted(set.union(*ran) - set(tasks))
    notes = (f"not in the score, because an endpoint lacks it: {', '.join(left)}",) if left else ()
    means = {name: _measure_mean(report, tasks) for name, report in reports.items()}
    endpoints = [
        _make_endpoint(name, report, means, provenances[name], audits.get(name)) for name, report in reports.items()
    ]
    endpoints.sort(key=lambda endpoint: (-math.inf if endpoint.score is None else -endpoint.score, endpoint.name))
    return EndpointBoard(tuple(endpoints), tasks, notes)


Mean = tuple[float | None, Interval | None]


def _make_endpoint(
    name: str, report: Report, means: Mapping[str, Mean], provenances: Sequence[Provenance], audit: str | None
) -> Endpoint:
    score, interval = means[name]
    others = [other for key, (_, other) in means.items() if key != name]
    better = worse = 0
    if interval is not None:
        better = sum(other is not None and other.lower > interval.upper for other in others)
        worse = sum(other is not None and other.upper < interval.lower for other in others)
    cuts = [task.cut for task in report.tasks if task.cut]
    calls = [metric for task in report.tasks for metric in task.metrics if metric.metric.startswith(VALID_CALLS)]
    files = list({provenance.results_file: provenance for provenance in provenances}.values())
    seconds = [provenance.median_seconds for provenance in files if provenance.median_seconds is not None]
    costs = [provenance.cost for provenance in files if provenance.cost is not None]
    mean = report.decision.mean
    return Endpoint(
        name, report.decision.outcome, score, interval, 1 + better, len(means) - worse,
        None if mean is None else mean.value, report.decision.interval, audit,
        sum(cut.docs for cut in cuts) / sum(cut.of for cut in cuts) if cuts else None,
        sum(call.value * call.docs for call in calls) / sum(call.docs for call in calls) if calls else None,
        sorted(seconds)[len(seconds) // 2] if seconds else None, sum(costs) if costs else None,
    )  # fmt: skip


def _measure_mean(report: Report, tasks: Sequence[str]) -> Mean:
    """The mean over tasks. Their errors are independent, so half the length of its interval is the root of the sum of
    squares of theirs, divided by their number."""
    found = [_find_score(task) for task in report.tasks if task.name in tasks]
    values = [value for value, _ in found if value is not None]
    if not values:
        return None, None
    mean, halves = sum(values) / len(values), [(bounds.upper - bounds.lower) / 2 for _, bounds in found if bounds]
    if len(halves) < len(values):
        return mean, None
    if len(found) == 1:
        return found[0]
    reach = math.sqrt(sum(half * half for half in halves)) / len(values)
    return mean, Interval(max(0.0, mean - reach), min(1.0, mean + reach))


def _find_score(task: Task) -> Mean:
    if task.scores and task.scores[0].value is not None:
        return task.scores[0].value, task.scores[0].interval
    return (task.decision.drop.candidate if task.decision else None), None


def make_board_document(board: EndpointBoard) -> Document:
    """The document of a board."""
    columns: tuple[Column[Endpoint], ...] = (
        Column("place", "place", _write_place, str, words=True),
        Column(
            "score", "score", lambda one: one.score, format_percent, "percent",
            lambda one: format_interval(one.interval), strong=True,
        ),
        Column(
            "drop", "drop", lambda one: one.drop, format_drop, "points",
            lambda one: format_drop_interval(one.drop_interval),
        ),
        Column("audit", "audit", lambda one: one.audit or NONE, str, words=True),
        Column("cut", "cut", lambda one: one.cut, format_percent, "percent of answers"),
        Column("calls", "valid calls", lambda one: one.valid_calls, format_percent, "percent of tool calls"),
        Column("seconds", "seconds", lambda one: one.seconds, lambda value: f"{value:.2f}", "median, of an answer"),
        Column("cost", "cost", lambda one: one.cost, lambda value: f"{value:.3g}"),
    )  # fmt: skip
    known = [column for column in columns if any(column.value(one) not in (None, NONE) for one in board.endpoints)]
    rows = tuple(
        Row(endpoint.name, endpoint, "" if endpoint.drop is None else endpoint.outcome) for endpoint in board.endpoints
    )
    table = Table("board", "Endpoints", tuple(known), rows, _LEGEND, first="endpoint")
    title = f"{plural(len(rows), 'endpoint')} over {plural(len(board.tasks), 'task')}"
    return Document(
        "board", title, None, f"{board.summary}.", Verdict("Endpoints", reasons=(board.summary,)),
        (Section("endpoints", "Endpoints", "Endpoints", (table,)),), (), (), board.notes, board.exit_code, board,
    )  # fmt: skip


def _write_place(endpoint: Endpoint) -> str:
    return str(endpoint.best) if endpoint.best == endpoint.worst else f"{endpoint.best} to {endpoint.worst}"

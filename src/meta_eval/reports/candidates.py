"""Several candidates beside one baseline: `compare` of three or more runs, and a `run` of several models.

Each candidate is a decision of its own against the baseline, exactly that of `compare` with this candidate alone. Error
rates hold for each candidate and are not corrected for their number. The question is "may this candidate ship?", asked
of each, and its answer must not depend on which others stand in the table. It is not "is none of them worse?", which
would need a correction (Rothman 1990, Epidemiology 1:43, argues for this rule). The price: of k candidates that all
lose their margin, up to k times 2.5 % of tables let one ship.

Places are a range for each run: from one more than the number of runs that are surely ahead, to one less than those
that are not surely behind. A run is surely ahead of another if the intervals of their drops do not overlap. The length
of two intervals together is at least that of the interval of their difference, whatever the correlation, so this errs
less often than an interval does. Drops are doc by doc, so they tell runs apart that scores alone do not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from meta_eval import stats
from meta_eval.base.display import one_line, plural
from meta_eval.base.errors import UserError
from meta_eval.base.pack_names import join_names
from meta_eval.base.plain_data import make_plain, written
from meta_eval.base.thresholds import LEVEL_TEXT
from meta_eval.judge.decide import INVALID_CODE, find_worst_code
from meta_eval.reports import text
from meta_eval.reports.document import BUT_PAGES, Column, Document, Figure, Item, Listing, Row, Section, Table, Verdict
from meta_eval.reports.plot import Mark, Plot, plot_drops
from meta_eval.reports.report_data import shorten_folders
from meta_eval.reports.task_tables import describe_run_effect
from meta_eval.stats import Drop, Interval

if TYPE_CHECKING:
    from meta_eval.judge.alarm_kinds import Alarm
    from meta_eval.judge.decision import TaskDecision
    from meta_eval.reports.document import RunProvenance
    from meta_eval.reports.report import Report

CANDIDATES_SCHEMA = 1

# What stands in the place of a decision where a run could not be compared.
NOT_COMPARED = "not compared"

# Decisions from the best to the worst, as the summary lists them.
_ORDER = ("SHIP", "UNDECIDED", "DON'T SHIP", NOT_COMPARED)

# The alarm that stands beside the decision though it forbids nothing.
_MODELS = "another model"

# The metric of tool calls that fit the schema of their tool.
_VALID_CALLS = "schema_accuracy"

_OWN_DECISION = "Each candidate is decided by itself, as if it were the only one."


@dataclass(frozen=True, slots=True)
class Candidate:
    """A run beside the baseline."""

    name: str
    """Its name in tables."""

    report: Report | None = field(metadata=written(lambda report: report and report.to_json()))
    """Its report; None if it could not be compared."""

    error: UserError | None = field(default=None, metadata=written(lambda error: error and str(error)))
    """Why it could not be; None with a report."""

    json_also: ClassVar = ("outcome",)

    @property
    def outcome(self) -> str:
        """Its decision, or ``not compared``."""
        return self.report.decision.outcome if self.report else NOT_COMPARED


@dataclass(frozen=True, slots=True)
class PlaceRange:
    """The place of a run among all."""

    name: str
    """Its name in tables."""

    best: int
    worst: int
    """Its place at best and at worst."""

    score: float
    """Its mean score over the tasks that all runs share, 0 to 1."""

    drop: float | None
    """Its mean drop over them; None for the baseline."""

    interval: Interval | None
    """The interval of the drop at `LEVEL`; None for the baseline."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The places of runs, the smallest drop first, and the tasks that they are by; empty without a common task."""

    places: tuple[PlaceRange, ...] = ()
    tasks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CandidatesReport:
    """The reports of several candidates with the same baseline."""

    baseline: str
    """The baseline's name in tables."""

    candidates: tuple[Candidate, ...]
    """In the order given."""

    notes: tuple[str, ...] = ()
    """What the reader must know of the files that were read."""

    json_also: ClassVar = ("summary", "exit_code")

    @property
    def compared(self) -> list[tuple[str, Report]]:
        """The candidates that were compared, with their reports."""
        return [(candidate.name, candidate.report) for candidate in self.candidates if candidate.report]

    @property
    def errors(self) -> list[UserError]:
        """Why candidates could not be compared."""
        return [candidate.error for candidate in self.candidates if candidate.error]

    @property
    def outcomes(self) -> list[str]:
        """The candidates of each decision: ``SHIP: int8, fp8``."""
        names: dict[str, list[str]] = {outcome: [] for outcome in _ORDER}
        for candidate in self.candidates:
            names[candidate.outcome].append(candidate.name)
        return [f"{outcome}: {', '.join(found)}" for outcome, found in names.items() if found]

    @property
    def summary(self) -> str:
        """The result in one line."""
        return f"{'; '.join(self.outcomes)}."

    @property
    def exit_code(self) -> int:
        """The code of the worst: 2 where a candidate could not be compared, or more than the model differs under a
        gate; else with a gate 1 for DON'T SHIP, 3 for UNDECIDED, and 0."""
        codes = [report.exit_code for _, report in self.compared]
        return find_worst_code([*codes, *([INVALID_CODE] if self.errors else [])])

    @property
    def runs(self) -> tuple[RunProvenance, ...]:
        """Where the numbers come from: the baseline, if it is a run, and the candidates that were compared."""
        found: list[RunProvenance] = []
        for name, report in self.compared:
            if len(report.runs) > 1 and not found:
                found.append(dataclasses.replace(report.runs[0], label=f"{self.baseline}, the baseline"))
            found.append(dataclasses.replace(report.runs[-1], label=name))
        return tuple(found)

    def document(self) -> Document:
        """A row for each candidate, its drop of each task below, and the places of all."""
        ranking = rank_runs(self)
        places, table = _make_place_table(ranking), _make_table(self)
        shown = (Figure("plot", _plot(table)), dataclasses.replace(table, views=BUT_PAGES), _explain(self))
        return Document(
            "candidates", f"{plural(len(self.candidates), 'candidate')} beside {self.baseline}", None, self.summary,
            Verdict("Decisions", reasons=tuple(self.outcomes)),
            (
                Section("candidates", "Candidates", "Candidates", shown),
                Section("tasks", "Tasks", "Tasks", (_make_task_table(self),)),
                Section("places", "Places", "Places", (places,)),
            ),
            self.runs, (), (*self.notes, *ranking.notes), self.exit_code, self, heading="Candidates",
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """The whole as plain JSON data; scores, drops and bounds are from 0 to 1."""
        ranking = rank_runs(self)
        return {
            "schema_version": CANDIDATES_SCHEMA, "document_type": "candidates", **make_plain(self),
            "places": make_plain(ranking.places), "places_tasks": list(ranking.tasks),
            "notes": [*self.notes, *ranking.notes],
        }  # fmt: skip


def list_notes(baseline: str, candidates: Sequence[Candidate]) -> tuple[str, ...]:
    """The notes and alarms of the reports of comparisons, each with its run, but alarms that are reasons already."""
    notes: dict[tuple[str, str], None] = {}
    for candidate in candidates:
        if candidate.report is None:
            continue
        for note in candidate.report.notes:
            of_baseline = note.startswith("A: ")
            whose = baseline if of_baseline else candidate.name
            notes[whose, note[3:] if of_baseline else note.removeprefix("B: ")] = None
        reasons = candidate.report.decision.reasons
        for alarm in candidate.report.alarms:
            is_reason = alarm.kind == _MODELS or any(reason.startswith(f"{alarm.kind}:") for reason in reasons)
            if not alarm.veto and not is_reason:
                notes[candidate.name, _describe(alarm)] = None
    return tuple(f"{whose}: {note}" for whose, note in notes)


def _describe(alarm: Alarm) -> str:
    return f"{alarm.kind}: {text.describe_alarm_tasks(alarm, 3)}".rstrip(": ")


def list_same_answers(names: Sequence[str], answers: Sequence[int | None]) -> tuple[str, ...]:
    """A note on each set of candidates whose answers are all the same, by what identifies them."""
    same: dict[int, list[str]] = {}
    for name, of in zip(names, answers, strict=True):
        if of is not None:
            same.setdefault(of, []).append(name)
    return tuple(
        f"{join_names(some)} gave the same answers to all docs: look at what was loaded"
        for some in same.values()
        if len(some) > 1
    )


def rank_runs(source: CandidatesReport) -> Ranking:
    """The places of the baseline and of all candidates, by their mean drop over the tasks that all of them share.

    Every task counts the same: the weights of decisions differ between candidates. A candidate with an invalid
    comparison has no place. A task counts if every candidate was compared on the same docs.
    """
    drops = {
        name: {task.name: task.drop for task in report.decision.tasks}
        for name, report in source.compared
        if not report.decision.invalid
    }
    invalid = [name for name, report in source.compared if report.decision.invalid]
    outside = (f"not in the places, because the comparison is invalid: {', '.join(invalid)}",) if invalid else ()
    if not drops:
        return Ranking()
    first, *_ = drops.values()
    common = set.intersection(*map(set, drops.values()))
    same = [name for name in common if len({_identify_docs(of[name]) for of in drops.values()}) == 1]
    tasks = tuple(name for name in first if name in same)
    lacking = {task: [run for run, of in drops.items() if task not in of] for task in set().union(*drops.values())}
    notes = (*outside, *_explain_left_out(lacking, sorted(common - {*tasks})))
    if not tasks:
        return Ranking(notes=notes)
    means = {name: stats.mean_drop([of[task] for task in tasks]) for name, of in drops.items()}
    intervals = {name: mean.interval() for name, mean in means.items()}
    every = [Interval(0.0, 0.0), *intervals.values()]
    score = next(iter(means.values())).baseline
    places = [
        PlaceRange(source.baseline, *_find_place(every[0], every), score, None, None),
        *(
            PlaceRange(name, *_find_place(intervals[name], every), mean.candidate, mean.value, intervals[name])
            for name, mean in means.items()
        ),
    ]
    places.sort(key=lambda place: place.drop or 0.0)
    return Ranking(tuple(places), tasks, notes)


def _identify_docs(drop: Drop) -> tuple[int, float]:
    """What differs if the baseline's docs differ."""
    return drop.docs, round(drop.baseline, 9)


def _explain_left_out(lacking: Mapping[str, Sequence[str]], unlike: Sequence[str]) -> tuple[str, ...]:
    reasons: dict[str, list[str]] = {}
    for task, runs in sorted(lacking.items()):
        if runs:
            reasons.setdefault(f"{', '.join(runs)} {'lacks' if len(runs) == 1 else 'lack'} it", []).append(task)
    if unlike:
        reasons["runs answered other docs of it"] = [*unlike]
    return tuple(f"not in the places, because {why}: {', '.join(tasks)}" for why, tasks in reasons.items())


def _find_place(interval: Interval, every: Sequence[Interval]) -> tuple[int, int]:
    ahead = sum(other.upper < interval.lower for other in every)
    behind = sum(other.lower > interval.upper for other in every)
    return 1 + ahead, len(every) - behind


@dataclass(frozen=True, slots=True)
class _RunRow:
    """A candidate, or the baseline."""

    report: Report | None
    """The report of the candidate, for the baseline that of the first candidate; None for one that was not compared."""

    is_baseline: bool = False

    @property
    def run(self) -> RunProvenance | None:
        """Where its numbers come from; None for recorded answers, and for what was not compared."""
        runs = self.report.runs if self.report else ()
        return (runs[0] if len(runs) > 1 else None) if self.is_baseline else runs[-1] if runs else None


# Of each column that only some runs have: what the legend says.
_LEGENDS = {
    "cut": "Cut: percent of answers.",
    "calls": "Valid calls: percent of tool calls.",
    "seconds": "Seconds: the median of an answer.",
    "cost": "Cost: all answers, in the currency of the configured prices (price_per_million_tokens, price_per_hour).",
}


def _make_table(source: CandidatesReport) -> Table[_RunRow]:
    """The decision on each candidate with the mean drop that decides, and what its run was like, if that is known.

    The baseline has a row if its seconds or its cost are known.
    """
    columns: tuple[Column[_RunRow], ...] = (
        Column("tasks", "tasks", _of_report(lambda report: len(report.decision.tasks)), text.format_count),
        Column(
            "drop", "drop", _of_report(lambda report: report.decision.mean and report.decision.mean.value),
            text.format_drop, "mean, in points, positive for worse", strong=True,
        ),
        Column(
            "interval", f"{LEVEL_TEXT} interval", _of_report(lambda report: report.decision.interval),
            text.format_drop_interval, headings={"terminal": LEVEL_TEXT},
        ),
    )  # fmt: skip
    others: tuple[Column[_RunRow], ...] = (
        Column("cut", "cut", _of_report(_find_cut_share), text.format_percent, spare=True),
        Column("calls", "valid calls", _of_report(_find_valid_calls), text.format_percent, spare=True),
        Column(
            "seconds", "seconds", lambda row: row.run.seconds if row.run else None, lambda value: f"{value:.2f}",
            spare=True,
        ),
        Column("cost", "cost", lambda row: row.run.cost if row.run else None, text.format_cost, spare=True),
    )  # fmt: skip
    rows = [Row(candidate.name, _RunRow(candidate.report), candidate.outcome) for candidate in source.candidates]
    known = [column for column in others if any(column.value(row.subject) is not None for row in rows)]
    baseline = _RunRow(source.compared[0][1], is_baseline=True) if source.compared else None
    if baseline and any(column.value(baseline) is not None for column in known):
        rows.insert(0, Row(source.baseline, baseline, remarks=("the baseline",)))
    margins = sorted({report.decision.margin for _, report in source.compared})
    allowed = f"; at most {' or '.join(f'{100 * margin:g}' for margin in margins)} is allowed" if margins else ""
    run_effects = dict.fromkeys(describe_run_effect(report.decision) for _, report in source.compared)
    legend = f"Points; a positive drop from {source.baseline} is worse{allowed}. {_OWN_DECISION}{''.join(run_effects)}"
    legend = " ".join([legend, *(_LEGENDS[column.key] for column in known)])
    return Table("candidates", "Candidates", (*columns, *known), tuple(rows), legend, first="candidate")


def _plot(table: Table[_RunRow]) -> Plot:
    """The mean drop of each candidate beside its margin."""
    marks = []
    for row in table.rows:
        report = row.subject.report
        decision = None if report is None or row.subject.is_baseline else report.decision
        if decision is None or decision.mean is None or decision.interval is None:
            marks.append(Mark(row))
        else:
            bounds = decision.interval
            marks.append(Mark(row, decision.mean.value, bounds.lower, bounds.upper, decision.margin))
    return plot_drops(table, marks, "SHIP needs an interval that ends in the band or left of it.")


def _of_report(figure: Callable[[Report], Any]) -> Callable[[_RunRow], Any]:
    """A figure of a decision, which the baseline does not have."""
    return lambda row: None if row.report is None or row.is_baseline else figure(row.report)


def _find_cut_share(report: Report) -> float | None:
    cuts = [task.cut for task in report.tasks if task.cut]
    return sum(cut.docs for cut in cuts) / sum(cut.of for cut in cuts) if cuts else None


def _find_valid_calls(report: Report) -> float | None:
    calls = [metric for task in report.tasks for metric in task.metrics if metric.name.startswith(_VALID_CALLS)]
    return sum(call.value * call.docs for call in calls) / sum(call.docs for call in calls) if calls else None


def _explain(source: CandidatesReport) -> Listing:
    """Why each decision is what it is, and why a run was not compared."""
    items: list[Item] = []
    for candidate in source.candidates:
        if candidate.error is not None:
            items.append(Item((candidate.name,), str(candidate.error).rstrip("."), candidate.outcome))
        elif candidate.report is not None:
            decision = candidate.report.decision
            advice = text.describe_repeats(decision.repeats_needed) if decision.outcome == "UNDECIDED" else None
            others = [_describe(alarm) for alarm in candidate.report.alarms if alarm.kind == _MODELS and not alarm.veto]
            reasons = [*decision.reasons, *others, *([advice] if advice else []), *_list_undecided(candidate.report)]
            items += [Item((candidate.name,), "; ".join(reasons), candidate.outcome)] if reasons else []
    of_two = any(len(report.runs) > 1 for _, report in source.compared)
    return Listing(tuple(items), "Why (A is the baseline, B the candidate)" if of_two else "Why")


def _list_undecided(report: Report) -> list[str]:
    """Remarks on tasks that have no drop in percent."""
    open_tasks = (task for task in report.tasks if not task.is_decided and not task.is_left_out)
    remarks = ((task.name, text.explain_outcome(task)) for task in open_tasks)
    return [f"{name}: {remark}" for name, remark in remarks if remark]


@dataclass(frozen=True, slots=True)
class _TaskRow:
    """A task of a candidate, or the baseline's score in it."""

    task: TaskDecision | None
    baseline: float | None = None


def _make_task_table(source: CandidatesReport) -> Table[_TaskRow]:
    """Each task: the score of the baseline, then each candidate with its score and drop."""
    columns: tuple[Column[_TaskRow], ...] = (
        Column("docs", "docs", lambda row: row.task.docs if row.task else None, text.format_count,
               headings={"terminal": ""}),
        Column("score", "score", _find_score, text.format_percent, "percent"),
        Column(
            "drop", "drop", lambda row: row.task.drop.value if row.task and row.task.is_decided else None,
            text.format_drop, "points, positive for worse", strong=True,
        ),
        Column(
            "interval", f"{LEVEL_TEXT} interval",
            lambda row: row.task.interval if row.task and row.task.is_decided else None,
            text.format_drop_interval, headings={"terminal": LEVEL_TEXT},
        ),
    )  # fmt: skip
    of_tasks: dict[str, dict[str, TaskDecision]] = {}
    for name, report in source.compared:
        for task in (task for task in report.tasks if not task.is_left_out):
            of_tasks.setdefault(task.name, {})[name] = task
    rows = tuple(_list_task_rows(source.baseline, of_tasks))
    every = [task for _, report in source.compared for task in report.tasks]
    legend = f"Percent and points; a positive drop is worse.{text.describe_left_out(every)}"
    if any(len(_list_baselines(tasks)) > 1 for tasks in of_tasks.values()):
        legend += f" Where candidates answered other docs, {source.baseline} has no score of its own."
    return Table("tasks", "Tasks", columns, rows, legend)


def _list_task_rows(baseline: str, of_tasks: Mapping[str, Mapping[str, TaskDecision]]) -> Iterator[Row[_TaskRow]]:
    for name, tasks in sorted(of_tasks.items()):
        scores = _list_baselines(tasks)
        yield Row(name, _TaskRow(None, scores[0] if len(scores) == 1 else None), part=baseline)
        for candidate, task in tasks.items():
            yield Row(name, _TaskRow(task), task.outcome, part=candidate)


def _list_baselines(tasks: Mapping[str, TaskDecision]) -> list[float]:
    """The baseline's score of a task for each set of docs that candidates were compared on."""
    return [score for _, score in {_identify_docs(task.drop) for task in tasks.values() if task.is_decided}]


def _find_score(row: _TaskRow) -> float | None:
    if row.task is None:
        return row.baseline
    if row.task.is_decided:
        return row.task.drop.candidate
    return row.task.scores[0].value if row.task.scores else None


def _make_place_table(ranking: Ranking) -> Table[PlaceRange]:
    columns: tuple[Column[PlaceRange], ...] = (
        Column(
            "place", "place",
            lambda place: str(place.best) if place.best == place.worst else f"{place.best} to {place.worst}",
            str, words=True,
        ),
        Column("score", "score", lambda place: place.score, text.format_percent, "mean, percent"),
        Column("drop", "drop", lambda place: place.drop, text.format_drop, "mean, points, positive for worse"),
        Column(
            "interval", f"{LEVEL_TEXT} interval", lambda place: place.interval, text.format_drop_interval,
            headings={"terminal": LEVEL_TEXT},
        ),
    )  # fmt: skip
    rows = tuple(Row(place.name, place) for place in ranking.places)
    legend = (
        f"By the plain mean of the drops in {plural(len(ranking.tasks), 'task')} that all runs share. Runs whose "
        "intervals overlap share places."
    )
    return Table("places", "Places", columns, rows, legend, first="run")


def name_runs(models: Sequence[str], folders: Sequence[Sequence[str]]) -> list[str]:
    """A short name for each run: its model where all models differ, else the shortest end of its folder that no other
    has.

    Args:
        models: The model of each run; empty if unknown.
        folders: The folders of each run, as absolute paths.
    """
    ends = shorten_folders(["+".join(of_run) for of_run in folders])
    known = list(filter(None, models))
    short = iter(shorten_models(known))
    by_model = [next(short) if model else end for model, end in zip(models, ends, strict=True)]
    distinct = len(set(known)) == len(known) > 1 and len(set(by_model)) == len(by_model)
    return _number_repeats([one_line(name) for name in (by_model if distinct else ends)])


def _number_repeats(names: Sequence[str]) -> list[str]:
    seen: dict[str, int] = {}
    numbered = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        numbered.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return numbered


def shorten_models(models: Sequence[str]) -> list[str]:
    """The last part of each name, or the whole where two would be the same."""
    short = [model.rstrip("/").rpartition("/")[2] or model for model in models]
    return short if len(set(short)) == len(short) else list(models)

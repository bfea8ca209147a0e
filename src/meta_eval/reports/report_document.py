"""The document of a report or a comparison: which tables, lists and figures it has, in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from meta_eval.base.display import plural
from meta_eval.base.thresholds import LEVEL_TEXT
from meta_eval.reports import task_tables, text
from meta_eval.reports.document import (
    BUT_PAGES,
    Column,
    Document,
    Fact,
    Figure,
    Item,
    Listing,
    Row,
    Section,
    Table,
    Verdict,
)
from meta_eval.reports.plot import make_plot

if TYPE_CHECKING:
    from meta_eval.judge.decide import Decision
    from meta_eval.judge.decision import Measure, Score, TaskDecision
    from meta_eval.reports.document import ShownSample, Table
    from meta_eval.reports.report_data import ReportData
    from meta_eval.stats import Drop, DropBreakdown, DropPart


# Lists that are longer are folded in a page.
_UNFOLDED = 4


def report_document(report: ReportData, samples: Callable[[], Iterable[ShownSample]]) -> Document:
    """The document of a report or a comparison.

    Args:
        report: What was judged.
        samples: Reads its docs with their texts.
    """
    return Document(
        report.document_type, report.title, report.decision.outcome, report.summary, _verdict(report),
        tuple(_sections(report)), report.runs, report.alarms, report.notes, report.exit_code, report, samples,
        script=True, sides=report.sides if report.document_type == "compare" else (), tasks=report.tasks,
    )  # fmt: skip


def _verdict(report: ReportData) -> Verdict:
    why, first = text.explain_decision(report.decision, report.alarms)
    return Verdict(
        report.decision.outcome,
        tuple(_facts(report.decision)) or (Fact("", "Nothing was compared."),),
        why,
        f"First: {first}." if first else "",
    )


def _facts(decision: Decision) -> Iterator[Fact]:
    if decision.mean is None:
        return
    tasks = len(decision.tasks)
    name = task_tables.MEANS[decision.weights] if tasks > 1 else "mean"
    yield Fact(f"{name} drop of {text.count_tasks(decision)}", text.format_drop(decision.mean.value), "points")
    yield Fact(f"{LEVEL_TEXT} interval", text.format_drop_interval(decision.interval))
    yield Fact("margin", text.format_percent(decision.margin))


def _sections(report: ReportData) -> Iterator[Section]:
    drops, scores = task_tables.make_drop_table(report), task_tables.make_score_table(report)
    of_two = report.document_type == "compare"
    breakdown = make_breakdown_table(report.tasks, report.drop_breakdown, of_two=of_two)
    flips = task_tables.make_flip_table(report)
    shown = make_plot(report, drops, scores)
    yield Section(
        "tasks", drops.title if drops.rows else "Tasks", "Tasks",
        (Figure("plot", shown), replace(drops, views=BUT_PAGES), *_about_tasks(report)),
    )  # fmt: skip
    yield Section("drop_breakdown", breakdown.title, "Parts of the drop", (breakdown,))
    label = (report.published_label or "scores").split(" ")[0].capitalize()
    yield Section("published", scores.title, label, (scores, *_about_scores(report)))
    metrics = task_tables.make_metric_table(report)
    yield Section("metrics", metrics.title, "Metrics", (metrics,))
    for named in report.evidence:
        yield from named.evidence.make_sections(named.findings)
    yield Section("flips", flips.title, "Flips", (flips,))
    answers = task_tables.figure_mean_table(report)
    yield Section("answers", answers.title, "Answers", (answers, *_list_costs(report)))
    yield Section("subtasks", "Subtasks", "Subtasks", tuple(_subtasks(report)))
    yield Section("provenance", "Where these numbers come from", "Provenance", tuple(_provenance(report)))
    yield Section("samples", "Samples", "Samples", (Figure("samples", report),))


def _list_costs(report: ReportData) -> Iterator[Listing]:
    """How long an answer took, and on a terminal what all cost, which the other views have with the provenance."""
    seconds = [(run.label, f"{run.seconds:.2f}") for run in report.runs if run.seconds is not None]
    costs = [(run.label, text.format_cost(run.cost)) for run in report.runs if run.cost is not None]
    time, cost = (
        ", ".join(f"{label} {value}" if report.document_type == "compare" else value for label, value in values)
        for values in (seconds, costs)
    )
    yield Listing((Item((), f"Seconds: {time}, the median of an answer."),) if seconds else ())
    words = f"Cost: {cost}, in the currency of the configured prices."
    yield Listing((Item((), words),) if costs else (), views=("terminal",))


def _about_tasks(report: ReportData) -> Iterator[Listing]:
    """What the table of drops does not say: baselines, reasons, cut answers, and known reasons for a difference."""
    yield _listing("", list(_references(report)))
    yield _listing("What else is to know", _explained(report.tasks))
    only = f"{'second' if report.document_type == 'compare' else 'first'}:limit hit"
    cut = [(task.name, words) for task in report.tasks if (words := text.describe_cut_answers(task))]
    each = _listing("Cut answers", [Item((name,), words, only=only) for name, words in cut])
    yield replace(each, views=("html", "markdown") if len(cut) > 1 else ())
    if len(cut) > 1:
        yield replace(_listing("", [Item((), text.list_cut_answers(report.tasks))]), views=("terminal",))
    sampled = [(task.name, text.describe_sampling(task)) for task in report.tasks]
    yield _listing("Sampled answers", [Item((name,), words) for name, words in sampled if words])
    noise = [(task.name, text.describe_noise(task.noise)) for task in report.tasks if task.noise]
    yield _listing("The engine's own noise", [Item((name,), words) for name, words in noise])
    below = [task for task in report.tasks if task.outcome == "worse"]
    title = "Known reasons for a difference"
    yield replace(_listing(title, _known(report.tasks)), views=("html", "markdown"), folded=("html",))
    yield replace(_listing("", _known(below)), views=("terminal",))


def _references(report: ReportData) -> Iterator[Item]:
    """What tasks are compared with. If it is the same for all of them, they are not named."""
    groups = text.group_by_reference(report.tasks)
    for what, names in groups:
        if len(names) < len(report.tasks):
            yield Item(tuple(names), f"compared with {what}")
        elif report.document_type != "compare" or what != f"run {report.runs[0].label}":
            yield Item((), f"Compared with {what}")


def _listing(title: str, items: list[Item]) -> Listing:
    return Listing(tuple(items), title, folded=("html",) if title and len(items) > _UNFOLDED else ())


def _known(tasks: Iterable[TaskDecision]) -> list[Item]:
    return [Item(tuple(names), reason) for reason, names in text.group_by_reason(tasks)]


def _explained(tasks: Iterable[TaskDecision]) -> list[Item]:
    """Outcomes with remarks that the table lacks. Tasks with the same remark stand together."""
    names: dict[tuple[str, str], list[str]] = {}
    for task in (task for task in tasks if not task.is_left_out):
        if why := text.explain_outcome(task):
            names.setdefault((task.outcome, why), []).append(task.name)
    return [Item(tuple(of), why, outcome) for (outcome, why), of in names.items()]


def _about_scores(report: ReportData) -> Iterator[Listing]:
    """lm-eval's own averages, and what the published numbers are."""
    averages = text.describe_averages(report.tasks, report.group_averages)
    yield Listing(tuple(Item((name,), numbers) for name, numbers in averages), "lm-eval's own averages")
    scores = [(task, score) for task in report.tasks for score in task.scores]
    distances = [
        Item((_name(task, score),), f"the baseline scores {words}")
        for task, score in scores
        if (gap := score.baseline_difference)
        and gap.explanation
        and not gap.within_rounding
        and (words := text.describe_distance(score))
    ]
    yield Listing(tuple(distances), views=("terminal",))
    sources = [Item((task.name,), text.describe_published(score)) for task, score in scores if score.reference]
    title = f"What the {report.published_label} are, and what the baseline scores"
    yield Listing(tuple(sources), title, ("html", "markdown"), ("html",))


def _name(task: TaskDecision, score: Score) -> str:
    return f"{task.name} {score.averaging}" if len(task.scores) > 1 else task.name


def _subtasks(report: ReportData) -> Iterator[Table[Any] | Figure]:
    if any(task.subtasks for task in report.tasks):
        yield Figure("subtasks", make_tiles(report))
    for task in report.tasks:
        yield make_subtask_table(task, report)


def _provenance(report: ReportData) -> Iterator[Listing]:
    for run in report.runs:
        facts = tuple(Item((name,), value) for name, value in run.provenance if value != run.model)
        folder = f" ({run.folder})" if run.folder else ""
        yield Listing(facts, f"{run.label}: {run.model}{folder}", ("html", "markdown"), ("markdown",), facts=True)


LEGEND = (
    "Points, positive for worse. Grader: the recorded answers under today's grader. Model: new answers to the recorded "
    "prompts. Prompts: what docs with another prompt lost beyond those. The three add up to the total."
)


# The title, the legend, and what a regraded doc is, where two runs were graded again.
_OF_TWO = (
    "The parts of the difference between the files of A and B",
    "Points, positive for worse. Grader: what went away when one grader graded both. Model: what is left, on docs with "
    "the same prompt. Prompts: what docs with another prompt lost beyond those. The three add up to the total.",
    "doc",
)
_OF_RECORD = ("The parts of the difference from the record", LEGEND, "recorded answer")


def make_breakdown_table(
    tasks: Iterable[TaskDecision], mean: DropBreakdown | None, *, of_two: bool = False
) -> Table[DropBreakdown]:
    """Table of the parts of each task's drop. The mean comes last.

    Args:
        tasks: The tasks.
        mean: The parts of the mean drop.
        of_two: Whether two runs are compared, and not one with a record.
    """
    title, legend, unit = _OF_TWO if of_two else _OF_RECORD
    named_parts = [(task.name, task.drop_breakdown) for task in tasks if task.drop_breakdown is not None]
    rows = [Row(name, parts) for name, parts in named_parts]
    if mean is not None:
        rows.append(Row(task_tables.MEANS["precision"], mean, whole=True))
    notes = ((name, "; ".join(_notes(parts, unit))) for name, parts in named_parts)
    columns: tuple[Column[DropBreakdown], ...] = (
        Column("docs", "docs", lambda parts: parts.docs, text.format_count),
        _part("total", lambda parts: parts.total),
        _part("grader", lambda parts: parts.grader),
        _part("model", lambda parts: parts.model),
        _part("prompts", lambda parts: parts.prompts),
    )
    return Table(
        "drop_breakdown", title, columns, tuple(rows), legend, tuple((name, note) for name, note in notes if note)
    )


def _part(key: str, part: Callable[[DropBreakdown], Drop | DropPart | None]) -> Column[DropBreakdown]:
    """The column of a part, with its interval below; a part that nothing tells is missing."""

    def value(parts: DropBreakdown) -> float | None:
        drop = part(parts)
        return None if drop is None else drop.value

    def detail(parts: DropBreakdown) -> str | None:
        drop = part(parts)
        if drop is parts.grader and not parts.regraded:
            return ""  # no verdict changed: it is certainly 0
        return None if drop is None else _bounds(drop)

    return Column(key, key, value, text.format_drop, detail=detail, strong=True)


def _interval(part: Drop | DropPart) -> Any:
    return part.interval() if callable(part.interval) else part.interval


def _bounds(part: Drop | DropPart) -> str:
    interval = _interval(part)
    return "" if interval.lower == interval.upper else text.format_drop_interval(interval)


def _notes(parts: DropBreakdown, unit: str) -> Iterator[str]:
    if parts.regraded:
        yield f"{plural(parts.regraded, unit)} graded otherwise today"
    if parts.docs_with_other_prompt:
        yield f"{plural(parts.docs_with_other_prompt, 'doc')} asked with another prompt than the recorded one"
    if parts.model is None:
        yield (
            "no doc was asked with the recorded prompt, so that model and prompts cannot be told apart: "
            f"{text.format_drop(parts.rest.value)} ({text.format_drop_interval(parts.rest.interval())}) together"
        )


# Differences of a subtask: a step of colour for every this many points, and the number of steps on either side.
_STEP = 0.025
_STEPS = 4


@dataclass(frozen=True, slots=True)
class Tile:
    """A subtask by the name to show, its difference from the other side's score, and the class of its colour."""

    name: str
    subtask: Measure
    difference: float | None
    heat: str


@dataclass(frozen=True, slots=True)
class Tiles:
    """The tiles of each task, and the owners of the scores."""

    candidate: str
    baseline: str
    tasks: tuple[tuple[str, tuple[Tile, ...]], ...]


def make_tiles(report: ReportData) -> Tiles:
    """A tile for each subtask."""
    first, second = report.sides
    candidate, baseline = "our", f"{report.baseline_owner_recorded} verdicts"
    if report.document_type == "compare":
        candidate, baseline = f"{second.label}'s", f"{first.label}'s"
    return Tiles(candidate, baseline, tuple((task.name, _tiles(task)) for task in report.tasks if task.subtasks))


def make_subtask_table(task: TaskDecision, report: ReportData) -> Table[Measure]:
    """The same as a table, for Markdown."""
    candidate, baseline = ("B", "A") if report.document_type == "compare" else ("ours", report.baseline_owner)
    columns: tuple[Column[Measure], ...] = (
        Column("docs", "docs", lambda subtask: subtask.docs, text.format_count),
        Column("score", candidate, lambda subtask: subtask.value, text.format_percent),
        Column("baseline", baseline, lambda subtask: subtask.baseline, text.format_percent),
        Column("difference", "difference", _difference, text.format_points),
    )
    rows = tuple(Row(subtask.name, subtask) for subtask in task.subtasks)
    views = ("markdown",)
    title = f"Subtasks of {task.name}"
    return Table("subtasks", title, columns, rows, first="subtask", views=views, folded=views)


def _difference(subtask: Measure) -> float | None:
    return None if subtask.baseline is None else subtask.value - subtask.baseline


def _tiles(task: TaskDecision) -> tuple[Tile, ...]:
    names = text.shorten_names([subtask.name for subtask in task.subtasks])
    sign = -1 if task.lower_is_better else 1
    differences = [(subtask, _difference(subtask)) for subtask in task.subtasks]
    return tuple(
        Tile(names[subtask.name], subtask, value, _heat(subtask, None if value is None else sign * value))
        for subtask, value in differences
    )


def _heat(subtask: Measure, difference: float | None) -> str:
    """A difference diverges from nought; where there is none to show, the score itself is the heat."""
    if difference is None:
        return f"heat s{min(9, int(10 * subtask.value))}"
    most = _STEPS if subtask.clear else 1
    step = max(-most, min(most, round(difference / _STEP)))
    return f"heat {'n' if step < 0 else 'p'}{abs(step)}"

"""The document of a report or a comparison: which tables, lists and figures it has, in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from meta_eval.base.thresholds import LEVEL_TEXT
from meta_eval.reports import subtasks, task_tables, text
from meta_eval.reports.breakdown_table import make_breakdown_table
from meta_eval.reports.document import Document, Fact, Figure, Item, Listing, Section, Verdict
from meta_eval.reports.plot import make_plot

if TYPE_CHECKING:
    from meta_eval.judge.decide import Decision
    from meta_eval.judge.decision import Score, TaskDecision
    from meta_eval.reports.model import Report, ShownSample
    from meta_eval.reports.tables import Table

# Where a figure of the page shows a table, the page does not repeat it.
_BUT_PAGES = ("json", "markdown", "terminal")

# Lists that are longer are folded in a page.
_UNFOLDED = 4


def report_document(report: Report, samples: Callable[[], Iterable[ShownSample]]) -> Document:
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


def _verdict(report: Report) -> Verdict:
    decision = report.decision
    advice = text.describe_repeats(decision.repeats_needed) or ""
    return Verdict(
        decision.outcome,
        decision.caveats,
        tuple(_facts(decision)) or (Fact("", "Nothing was compared."),),
        decision.reasons[len(decision.caveats) :],
        f"{advice[:1].upper()}{advice[1:]}." if advice else "",
    )


def _facts(decision: Decision) -> Iterator[Fact]:
    if decision.mean is None:
        return
    tasks = len(decision.tasks)
    weighed = f" {task_tables.describe_weights(decision)}" if tasks > 1 else ""
    yield Fact(f"mean drop of {text.count_tasks(decision)}{weighed}", text.format_drop(decision.mean.value), "points")
    yield Fact(f"{LEVEL_TEXT} interval", text.format_drop_interval(decision.interval))
    yield Fact("margin", text.format_percent(decision.margin))


def _sections(report: Report) -> Iterator[Section]:
    drops, scores = task_tables.make_drop_table(report), task_tables.make_score_table(report)
    of_two = report.document_type == "compare"
    breakdown = make_breakdown_table(report.tasks, report.drop_breakdown, of_two=of_two)
    flips = task_tables.make_flip_table(report)
    shown = make_plot(report, drops, scores)
    yield Section(
        "tasks", drops.title if drops.rows else "Scores", "Tasks",
        (Figure("plot", shown), replace(drops, views=_BUT_PAGES), *_about_tasks(report)),
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
    yield Section("answers", answers.title, "Answers", (answers,))
    yield Section("subtasks", "Subtasks", "Subtasks", tuple(_subtasks(report)))
    yield Section("provenance", "Where these numbers come from", "Provenance", tuple(_provenance(report)))
    yield Section("samples", "Samples", "Samples", (Figure("samples", report),))


def _about_tasks(report: Report) -> Iterator[Listing]:
    """What the table of drops does not say: baselines, reasons, cut answers, and known reasons for a difference."""
    yield _listing("", list(_references(report)))
    yield _listing("What else is to know", _explained(report.tasks))
    only = f"{'second' if report.document_type == 'compare' else 'first'}:limit hit"
    cut = [(task.name, text.describe_cut_answers(task)) for task in report.tasks]
    yield _listing("Cut answers", [Item((name,), words, only=only) for name, words in cut if words])
    sampled = [(task.name, text.describe_sampling(task)) for task in report.tasks]
    yield _listing("Sampled answers", [Item((name,), words) for name, words in sampled if words])
    noise = [(task.name, text.describe_noise(task.noise)) for task in report.tasks if task.noise]
    yield _listing("The engine's own noise", [Item((name,), words) for name, words in noise])
    below = [task for task in report.tasks if task.outcome == "worse"]
    title = "Known reasons for a difference"
    yield replace(_listing(title, _known(report.tasks)), views=("html", "markdown"), folded=("html",))
    yield replace(_listing("", _known(below)), views=("terminal",))


def _references(report: Report) -> Iterator[Item]:
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
    for task in tasks:
        if why := text.explain_outcome(task):
            names.setdefault((task.outcome, why), []).append(task.name)
    return [Item(tuple(of), why, outcome) for (outcome, why), of in names.items()]


def _about_scores(report: Report) -> Iterator[Listing]:
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


def _subtasks(report: Report) -> Iterator[Table[Any] | Figure]:
    if any(task.subtasks for task in report.tasks):
        yield Figure("subtasks", subtasks.make_tiles(report))
    for task in report.tasks:
        yield subtasks.make_subtask_table(task, report)


def _provenance(report: Report) -> Iterator[Listing]:
    for run in report.runs:
        facts = tuple(Item((name,), value) for name, value in run.provenance if value != run.model)
        folder = f" ({run.folder})" if run.folder else ""
        yield Listing(facts, f"{run.label}: {run.model}{folder}", ("html", "markdown"), ("markdown",), facts=True)

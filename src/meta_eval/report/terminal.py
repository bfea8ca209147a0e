"""The report on a terminal of 80 columns. Colour only repeats what words and numbers say already."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from meta_eval.judging.model import Score, Task
from meta_eval.report import apart
from meta_eval.report import text as write
from meta_eval.report.model import Report

if TYPE_CHECKING:
    from rich.console import Console

STYLES = {
    "shown to hold": "green", "shown below": "red", "not shown": "yellow",
    "SHIP": "bold green", "DON'T": "bold red", "NOT SHOWN": "bold yellow",
}  # fmt: skip


def show(report: Report, console: Console) -> None:
    """Print a report: the decision, what went wrong, the drops, the scores beside the published numbers, flips."""
    say = Speaker(console)
    say.line(report.title, "bold")
    say.line(report.summary, STYLES[report.decision.outcome])
    say.line()
    for alarm in report.alarms:
        tasks = write.alarm_tasks(alarm)
        say.line(f"! {alarm.kind}{f': {tasks}' if tasks else ''}. {alarm.hint}", "red" if alarm.veto else "yellow")
    for note in report.notes:
        say.line(f"note: {note}", "yellow")
    if report.alarms or report.notes:
        say.line()
    if any(task.decision for task in report.tasks):
        console.print(_drops(report))
        say.line(
            f"Percent and points; a positive drop is worse, and at most {100 * report.decision.margin:g} is allowed. "
            "The weight is a task's share of the mean by precision.",
            "dim",
        )
        for words, names in write.compared_with(report.tasks):
            say.line(f"compared with {words}: {', '.join(names)}", "dim")
        say.line()
    if told := apart.rows(report.tasks, report.apart):
        _show_apart(told, console, say)
    if any(task.scores for task in report.tasks):
        console.print(_scores(report))
        beside = report.beside.removesuffix("s")
        differences = f"; differences of the run and of the baseline from the {beside}" if beside else ""
        say.line(f"Percent{differences}.", "dim")
    for line in _besides(report):
        say.line(line, "dim")
    explained = _explained(report)
    if explained:
        say.line()
    for outcome, named, reason in explained:
        say.line(f"{outcome}: {named}: {reason}", STYLES[outcome])
    if any(task.flips for task in report.tasks):
        say.line()
        console.print(_flips(report))


def _besides(report: Report) -> Iterator[str]:
    """What is no part of a drop: cut answers, baselines and published numbers, lm-eval's averages, known reasons."""
    for task in report.tasks:
        if cut := write.cut(task):
            yield f"{task.name}: {cut}"
        for score in task.scores:
            beside = None if score.distance and score.distance.rounded else write.distance(score)
            if beside:
                yield f"{_of(task, score)}: the baseline scores {beside}"
    for name, numbers in write.averages(report.tasks, report.totals):
        yield f"{name}: {numbers}"
    for one in report.fidelity:
        yield f"fidelity of {one.model}: {one.summary}"
    for reason, names in write.known_reasons(task for task in report.tasks if task.outcome == "shown below"):
        yield f"{', '.join(names)}: {reason}"


def _explained(report: Report) -> list[tuple[str, str, str]]:
    """Outcomes with what the table does not say; tasks of which the same is to be said stand together."""
    names: dict[tuple[str, str], list[str]] = {}
    for task in report.tasks:
        if why := write.why(task):
            names.setdefault((task.outcome, why), []).append(task.name)
    return [(outcome, ", ".join(of), why) for (outcome, why), of in names.items()]


class Speaker:
    """Lines in which data are never markup and hide nothing; what follows the first is indented."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def line(self, text: str = "", style: str | None = None) -> None:
        lines = textwrap.wrap(write.visible(text), width=self._console.width, subsequent_indent="  ") or [""]
        self._console.print(Text("\n".join(lines), style=style or ""), highlight=False)


def _table(*headings: str, outcome: bool = False) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("task", overflow="fold", ratio=1)
    if outcome:
        table.add_column("outcome", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _drops(report: Report) -> Table:
    first, second, last = ("A", "B", "of A") if report.kind == "compare" else ("base", "ours", "could\nsee")
    table = _table(first, second, "drop", "95 %", last, "weight", outcome=True)
    for task in report.tasks:
        one = task.decision
        if one is None:
            table.add_row(_name(task), _styled(task.outcome), *["-"] * 6)
            continue
        recovery = f"{write.percent(one.drop.recovery)} %" if one.drop.recovery is not None else "-"
        table.add_row(
            _name(task),
            _styled(one.outcome),
            write.percent(one.drop.before),
            write.percent(one.drop.after),
            write.drop(one.drop.value),
            write.drop_interval(one.interval),
            recovery if report.kind == "compare" else write.percent(one.could_see),
            write.weight(one.weight),
        )
    decision = report.decision
    if decision.mean and decision.equal and len(decision.tasks) > 1:
        for name, outcome, mean, bounds in (
            ("mean, by precision", decision.outcome, decision.mean, decision.interval),
            ("mean, every task the same", "", decision.equal, decision.equal_interval),
        ):
            row = write.drop(mean.value), write.drop_interval(bounds)
            table.add_row(Text(name, style="bold"), _styled(outcome), "", "", *row, "", "")
    return table


def _show_apart(rows: list[apart.Row], console: Console, say: Speaker) -> None:
    table = _table("docs", *apart.HEADINGS)
    for row in rows:
        name = Text(write.visible(row.name)) if row.name else Text("mean, by precision", style="bold")
        cells = [Text(f"{value}\n{bounds}" if bounds else value) for value, bounds in row.cells]
        table.add_row(name, write.count(row.docs), *cells)
    say.line("The difference from the record, told apart", "bold")
    console.print(table)
    say.line(apart.LEGEND, "dim")
    for row in rows:
        if row.name and row.note:
            say.line(f"{row.name}: {row.note}", "dim")
    say.line()


def _scores(report: Report) -> Table:
    publ = "rec." if report.beside.startswith("rec") else "publ."
    table = _table("docs", "B" if report.kind == "compare" else "ours", "95 %", publ, "diff.", "base.")
    for task in report.tasks:
        for number, score in enumerate(task.scores):
            comparable = score.published and score.difference is not None
            table.add_row(
                _name(task, score) if number == 0 else Text(f"  {score.averaging}"),
                write.count(score.n),
                write.percent(score.value),
                write.interval(score.interval),
                write.percent(score.published.value if score.published and comparable else None),
                write.points(score.difference),
                write.points(score.distance.distance if score.distance else None),
            )
    return table


def _flips(report: Report) -> Table:
    """Two verdicts on each doc; the headings name whose they are."""
    first, second = ("A", "B") if report.kind == "compare" else ("ours", report.whose)
    table = _table("docs", "agree", f"only\n{first}", f"only\n{second}")
    for task in report.tasks:
        if (flips := task.flips) is not None and flips.compared:
            share = write.percent(flips.agreed / flips.compared)
            counts = flips.compared, flips.first_only, flips.second_only
            docs, up, down = map(write.count, counts)
            table.add_row(_name(task), docs, share, up, down)
    return table


def _of(task: Task, score: Score) -> str:
    return f"{task.name} {score.averaging}" if len(task.scores) > 1 else task.name


def _name(task: Task, score: Score | None = None) -> Text:
    missing = task.prepared is not None and task.docs < task.prepared
    part = f" ({write.plural(task.prepared or 0, 'doc')} prepared)" if missing else ""
    part = f" ({write.plural(len(task.members), 'task')})" if task.members else part
    runs = f" ({write.plural(task.runs, 'run')})" if task.runs > 1 else ""
    return Text(write.visible((_of(task, score) if score else task.name) + part + runs))


def _styled(outcome: str) -> Text:
    return Text(outcome, style=STYLES.get(outcome, ""))

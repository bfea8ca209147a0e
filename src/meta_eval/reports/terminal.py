"""The report on a terminal of 80 columns. Colour only repeats what words and numbers say already."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from meta_eval.judging.judgement import Score, Task
from meta_eval.reports import tables
from meta_eval.reports import text as write
from meta_eval.reports.model import Report
from meta_eval.reports.task_tables import tables_of

if TYPE_CHECKING:
    from rich.console import Console

STYLES = {
    "shown to hold": "green", "shown below": "red", "not shown": "yellow",
    "SHIP": "bold green", "DON'T": "bold red", "NOT SHOWN": "bold yellow", "same": "green", "different": "red",
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
    shown = tables_of(report)
    for table in shown:
        if table.key != "flips":
            _show_table(table, report, console, say)
    for line in _besides(report):
        say.line(line, "dim")
    explained = _explained(report)
    if explained:
        say.line()
    for outcome, named, reason in explained:
        say.line(f"{outcome}: {named}: {reason}", STYLES[outcome])
    for table in shown:
        if table.key == "flips":
            say.line()
            print_table(console, table)


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


def print_table(console: Console, table: tables.Table[Any]) -> None:
    """Print a table without borders; the first column is a name, and figures stand on the right."""
    columns = table.columns_in("terminal")
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    made.add_column(table.first, overflow="fold", ratio=1)
    if table.has_outcomes:
        made.add_column(table.verdict, no_wrap=True)
    for heading, column in columns:
        made.add_column(heading, justify="left" if column.words else "right", no_wrap=True)
    above = None
    for row in table.rows:
        outcome = (_styled(row.outcome),) if table.has_outcomes else ()
        cells = (table.cell(row, column, "terminal") for _, column in columns)
        texts = (Text(write.visible("\n".join(filter(None, (one.text, one.detail))))) for one in cells)
        made.add_row(_name(row, above), *outcome, *texts)
        above = row.name
    console.print(made)


def _name(row: tables.Row[Any], above: str | None) -> Text:
    """What a row is about; of the parts of one task only the first repeats its name."""
    if row.part and row.name == above:
        return Text(f"  {write.visible(row.part)}")
    remarks = "".join(f" ({remark})" for remark in row.remarks)
    name = f"{row.name} {row.part}" if row.part else row.name
    return Text(write.visible(name + remarks), style="bold" if row.whole else "")


def _show_table(table: tables.Table[Any], report: Report, console: Console, say: Speaker) -> None:
    if table.key == "apart":
        say.line(table.title, "bold")
    print_table(console, table)
    if table.legend:
        say.line(table.legend, "dim")
    for words, names in write.compared_with(report.tasks) if table.key == "drops" else ():
        say.line(f"compared with {words}: {', '.join(names)}", "dim")
    for name, note in table.notes:
        say.line(f"{name}: {note}", "dim")
    if table.key != "scores":
        say.line()


def _of(task: Task, score: Score) -> str:
    return f"{task.name} {score.averaging}" if len(task.scores) > 1 else task.name


def _styled(outcome: str) -> Text:
    return Text(outcome, style=STYLES.get(outcome, ""))

"""A document on a terminal of 80 columns. Colour only repeats what words and numbers say already."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from rich.table import Table as Grid
from rich.text import Text

from meta_eval.base.display import CAUTION
from meta_eval.reports import text as write
from meta_eval.reports.document import Block, Cell, Column, Document, Listing, Row, Section, Table

if TYPE_CHECKING:
    from rich.console import Console

# Columns of a terminal that names of tasks need, if they are that long, before spare columns are shown.
_NAME = 20

# Tasks that an alarm names; pages and Markdown name all.
_NAMED_TASKS = 6

STYLES = {
    "no alarm": "bold green", "alarm": "bold red", "too few runs": CAUTION,
    "within margin": "green", "worse": "red", "undecided": CAUTION,
    "SHIP": "bold green", "DON'T SHIP": "bold red", "UNDECIDED": f"bold {CAUTION}", "same": "green", "different": "red",
    "no fault seen": "green", "not compared": "red",
}  # fmt: skip


def show_document(document: Document, console: Console) -> None:
    """Print a document: the verdict, the first section, what went wrong, then the other sections."""
    say = Speaker(console)
    say.line(document.title, "bold")
    for line, style in zip_longest(document.summary.splitlines(), (STYLES.get(document.outcome or ""),)):
        say.line(line, style)
    sections = document.sections_in("terminal")
    for section, blocks in sections[:1]:
        _show_section(section, blocks, console, say)
    _show_alarms(document, say)
    for section, blocks in sections[1:]:
        _show_section(section, blocks, console, say)


class Speaker:
    """Lines in which data are never markup and hide nothing; what follows the first is indented."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def line(self, text: str = "", style: str | None = None) -> None:
        """Print a paragraph."""
        lines = textwrap.wrap(write.visible(text), width=self._console.width, subsequent_indent="  ") or [""]
        self._console.print(Text("\n".join(lines), style=style or ""), highlight=False)


def _show_section(section: Section, blocks: Sequence[Block], console: Console, say: Speaker) -> None:
    say.line()
    say.line(section.title, "bold")
    for block in blocks:
        _show_block(block, section, console, say)


def _show_alarms(document: Document, say: Speaker) -> None:
    if document.alarms or document.notes:
        say.line()
    for alarm in document.alarms:
        tasks = write.describe_alarm_tasks(alarm, _NAMED_TASKS, said=document.summary)
        say.line(f"! {alarm.kind}{f': {tasks}' if tasks else ''}. {alarm.hint}", "red" if alarm.veto else CAUTION)
    for note in document.notes:
        say.line(f"note: {note}", CAUTION)


def _show_block(block: Block, section: Section, console: Console, say: Speaker) -> None:
    if isinstance(block, Table):
        _show_table(block, section, console, say)
    elif isinstance(block, Listing):
        _show_listing(block, say)


def _show_table(table: Table[Any], section: Section, console: Console, say: Speaker) -> None:
    if table.title != section.title:
        say.line()
        say.line(table.title, "bold")
    print_table(console, table)
    if table.legend:
        say.line(table.legend, "dim")
    for name, note in table.notes:
        say.line(f"{name}: {note}", "dim")


def _show_listing(listing: Listing, say: Speaker) -> None:
    for item in listing.items:
        parts = (item.outcome, ", ".join(item.names), item.text)
        say.line(": ".join(filter(None, parts)), STYLES.get(item.outcome, "dim"))


def print_table(console: Console, table: Table[Any]) -> None:
    """Print a table without borders; the first column is a name, and figures stand on the right."""
    columns = table.columns_in("terminal")
    cells = [[_cell(table.cell(row, column, "terminal"), column) for row in table.rows] for _, column in columns]
    headings = [_break(heading, texts) for (heading, _), texts in zip(columns, cells, strict=True)]
    widths = [max(map(_width, (head, *(text.plain for text in of)))) for head, of in zip(headings, cells, strict=True)]
    room = console.width - 1 - max((len(row.outcome) + 1 for row in table.rows if row.outcome), default=0)
    names = min(max((len(row.name) for row in table.rows if not row.whole), default=0), _NAME)
    while room - names < sum(widths) + len(widths) and (spare := [n for n, (_, of) in enumerate(columns) if of.spare]):
        for content in (columns, cells, headings, widths):
            del content[spare[0]]
    fits = sum(widths) + len(widths) + _NAME // 2 <= room
    grid = Grid(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    grid.add_column(table.first, overflow="fold", ratio=1)
    if table.has_outcomes:
        grid.add_column("outcome", no_wrap=True)
    for heading, (_, column) in zip(headings, columns, strict=True):
        grid.add_column(heading, justify="left" if column.words else "right", no_wrap=fits, overflow="fold")
    above = None
    for row, *texts in zip(table.rows, *cells, strict=True):
        outcome = (_outcome(row.outcome),) if table.has_outcomes else ()
        grid.add_row(_name(row, above), *outcome, *texts)
        above = row.name
    console.print(grid)


def _width(text: str) -> int:
    return max(map(len, text.split("\n")))


def _break(heading: str, cells: Sequence[Text]) -> str:
    """Break a heading at spaces, so that it is hardly wider than the figures below it."""
    words = write.visible(heading)
    width = max(len(line) for text in (*words.split(), *(cell.plain for cell in cells)) for line in text.split("\n"))
    lines = (textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False) for line in words.split("\n"))
    return "\n".join(part for line in lines for part in line)


def _cell(cell: Cell, column: Column[Any]) -> Text:
    return Text(write.visible((" " if column.beside else "\n").join(filter(None, (cell.text, cell.detail)))))


def _name(row: Row[Any], above: str | None) -> Text:
    """The name of a row. Of several parts of a task only the first repeats its name."""
    if row.part and row.name == above:
        return Text(f"  {write.visible(row.part)}")
    remarks = "".join(f" ({remark})" for remark in row.remarks)
    name = f"{row.name} {row.part}" if row.part else row.name
    return Text(write.visible(name + remarks), style="bold" if row.whole else "")


def _outcome(outcome: str) -> Text:
    return Text(outcome, style=STYLES.get(outcome, ""))

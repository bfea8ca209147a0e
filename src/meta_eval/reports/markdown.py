"""A document as Markdown, to be put into a model card."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from typing import Any

from meta_eval.base.version import __version__
from meta_eval.judge.alarm_kinds import Alarm
from meta_eval.reports import text
from meta_eval.reports.document import Block, Cell, Column, Document, Figure, Item, Listing, Row, Section, Table

# What Markdown or the HTML in it would take for markup; an underscore inside a word is none.
_MARKUP = re.compile(r"([\\`*\[\]<>|~$&]|(?<![^\W_])_|_(?![^\W_]))")


def render(document: Document) -> str:
    """The whole document; ends with a line break."""
    return "\n\n".join(_paragraphs(document)) + "\n"


def _paragraphs(document: Document) -> Iterator[str]:
    yield f"## {document.heading}: {_plain(document.title)}"
    decided, *others = document.summary.splitlines()
    outcome, colon, rest = decided.partition(":")
    yield f"**{outcome}**: {_plain(rest)}" if document.outcome and colon else _plain(decided)
    yield from filter(None, ["\n".join(f"- {_plain(line)}" for line in others)])
    sections = document.sections_in("markdown")
    for section, blocks in sections[:1]:
        yield from _section(section, blocks)
    if document.alarms:
        yield "### Alarms"
        yield "\n".join(_alarm(alarm, document.summary) for alarm in document.alarms)
    for section, blocks in sections[1:]:
        yield from _section(section, blocks)
    if document.notes:
        yield "\n".join(f"- {_plain(note)}" for note in document.notes)
    yield f"<sub>Made by meta-eval {__version__}.</sub>"


def _section(section: Section, blocks: Iterable[Block]) -> Iterator[str]:
    yield f"### {_plain(section.title)}"
    for block in blocks:
        yield from _block(block, section)


def _alarm(alarm: Alarm, summary: str) -> str:
    tasks = text.describe_alarm_tasks(alarm, said=summary)
    return f"- {_plain(alarm.kind)}{f': {_plain(tasks)}' if tasks else ''}. {_plain(alarm.hint)}"


def _block(block: Block, section: Section) -> Iterator[str]:
    assert not isinstance(block, Figure)  # noqa: S101 (figures are of pages alone)
    content = list(_table(block) if isinstance(block, Table) else _items(block))
    title = "" if block.title == section.title else _plain(block.title)
    if "markdown" in block.folded:
        yield f"<details><summary>{html.escape(text.visible(' '.join(block.title.split())))}</summary>"
        yield from content
        yield "</details>"
    else:
        yield from ([f"{title}:"] if title else [])
        yield from content


def _items(listing: Listing) -> Iterator[str]:
    yield "\n".join(_item(item, listing.facts) for item in listing.items)


def _item(item: Item, fact: bool) -> str:
    names = ", ".join(map(_plain if fact else _code, item.names))
    return f"- {': '.join(filter(None, (names, item.outcome, _plain(item.text))))}"


def _table(table: Table[Any]) -> Iterator[str]:
    """A table with its legend, that of its columns, and its notes."""
    yield _rows(table)
    legends = [f"{heading}: {column.legend}" for heading, column in table.columns_in("markdown") if column.legend]
    sentences = [table.legend, *([f"{'; '.join(legends)}."] if legends else [])]
    if any(sentences):
        yield _plain(" ".join(filter(None, sentences)))
    if table.notes:
        yield "\n".join(f"- {_code(name)}: {_plain(note)}" for name, note in table.notes)


def _rows(table: Table[Any]) -> str:
    columns = table.columns_in("markdown")
    outcome = ["outcome"] if table.has_outcomes else []
    heads = [table.first, *outcome, *(_plain(heading) for heading, _ in columns)]
    rules = ["---"] * (1 + len(outcome)) + ["---" if column.words else "--:" for _, column in columns]
    lines = [f"| {' | '.join(heads)} |", f"|{'|'.join(rules)}|"]
    for row in table.rows:
        cells = [_name(row), *([_strong(row.outcome, row.whole)] if outcome else [])]
        cells += [_cell(table.cell(row, column, "markdown"), column) for _, column in columns]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _name(row: Row[Any]) -> str:
    if row.whole:
        return f"**{_plain(row.name)}**"
    return ", ".join([_code(row.name), *([_plain(row.part)] if row.part else []), *row.remarks])


def _cell(cell: Cell, column: Column[Any]) -> str:
    words = _plain(cell.text) if column.words else cell.text
    detail = f" ({cell.detail})" if cell.detail else ""
    return _strong(words, column.strong and cell.value is not None) + detail


def _strong(words: str, strong: bool) -> str:
    return f"**{words}**" if strong and words else words


def _plain(words: str) -> str:
    """Escape text for Markdown, on a single line."""
    return _MARKUP.sub(r"\\\1", text.visible(" ".join(words.split())))


def _code(name: str) -> str:
    """A name in a code span, unless a character of it would end the span or the cell."""
    return f"`{text.visible(name)}`" if re.fullmatch(r"[\w.:/-]+", name) else _plain(name)

"""The report as Markdown, to be put into a model card: what templates/report.md.j2 makes of it."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from meta_eval.judging.judgement import Score
from meta_eval.reports import fidelity_text, tables, text
from meta_eval.reports.fidelity import FidelityReport
from meta_eval.reports.fidelity_tables import fidelity_tables_by_key
from meta_eval.reports.model import Report
from meta_eval.reports.task_tables import PLACED, tables_by_key
from meta_eval.thresholds import LEVEL_TEXT
from meta_eval.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment

# What Markdown or the HTML in it would take for markup; an underscore inside a word is none.
_MARKUP = re.compile(r"([\\`*\[\]<>|~$&]|(?<![^\W_])_|_(?![^\W_]))")


def render(report: Report) -> str:
    """The whole report; ends with a line break."""
    averages = text.averages(report.tasks, report.totals)
    page = _environment().get_template("report.md.j2")
    return (
        page.render(
            report=report, averages=averages, tables=tables_by_key(report), placed=PLACED, version=__version__
        ).strip("\n")
        + "\n"
    )


def render_fidelity(report: FidelityReport) -> str:
    """A fidelity report, whole; ends with a line break."""
    page = _environment().get_template("fidelity.md.j2")
    shown = fidelity_tables_by_key(report)
    return (
        page.render(report=report, tables=shown, yardstick=fidelity_text.YARDSTICK, version=__version__).strip("\n")
        + "\n"
    )


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(  # noqa: S701 (what is foreign goes through `plain` or `code`)
        loader=PackageLoader("meta_eval.reports"), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    for words in (
        text.percent, text.points, text.count,
        text.alarm_tasks, text.compared_with, text.known_reasons, text.why, text.cut,
    ):  # fmt: skip
        environment.filters[words.__name__] = words
    environment.filters["divergence"] = fidelity_text.divergence
    environment.filters |= {"plain": _plain, "code": _code, "definition": _definition, "table": _table}
    environment.globals["level"] = LEVEL_TEXT
    return environment


def _table(table: tables.Table[Any]) -> str:
    """A table without its title and legend; ends without a line break."""
    columns = table.columns_in("markdown")
    outcome = [table.verdict] if table.has_outcomes else []
    heads = [table.first, *outcome, *(heading for heading, _ in columns)]
    lines = [
        " | ".join(heads),
        "|".join(["---"] * (1 + len(outcome)) + ["---" if c.words else "--:" for _, c in columns]),
    ]
    lines = [f"| {lines[0]} |", f"|{lines[1]}|"]
    for row in table.rows:
        cells = [_name(row), *([_strong(row.outcome, row.whole)] if outcome else [])]
        cells += [_cell(table.cell(row, column, "markdown"), column) for _, column in columns]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _name(row: tables.Row[Any]) -> str:
    if row.whole:
        return f"**{_plain(row.name)}**"
    return ", ".join([_code(row.name), *([_plain(row.part)] if row.part else []), *row.remarks])


def _cell(cell: tables.Cell, column: tables.Column[Any]) -> str:
    text = _plain(cell.text) if column.words else cell.text
    detail = f" ({cell.detail})" if cell.detail else ""
    return _strong(text, column.strong and cell.value is not None) + detail


def _strong(words: str, strong: bool) -> str:
    return f"**{words}**" if strong and words else words


def _definition(score: Score) -> str:
    """What the published number beside a score is a number of, and why the two may not be compared."""
    published = score.published
    assert published is not None  # noqa: S101 (the template asks for no other)
    shots = f"{published.shots}-shot" if published.shots is not None else None
    what = ", ".join(filter(None, (published.benchmark, shots, published.averaging, published.metric)))
    note = f" {published.note}" if published.note else ""
    apart = "" if score.difference is not None else f" Not comparable: {score.reason}."
    beside = text.distance(score)
    return f"{what}; {published.source}.{note}{apart}{f' The baseline scores {beside}.' if beside else ''}"


def _plain(words: str) -> str:
    """Text that stays text, on one line."""
    return _MARKUP.sub(r"\\\1", text.visible(" ".join(words.split())))


def _code(name: str) -> str:
    """A name in a code span, unless a character of it would end the span or the cell."""
    return f"`{name}`" if re.fullmatch(r"[\w.:/-]+", name) else _plain(name)

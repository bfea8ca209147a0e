"""A drop from a recorded run in its parts, for every view: a table of its parts with intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from meta_eval.base.counts import plural
from meta_eval.reports import text
from meta_eval.reports.tables import Column, Row, Table

if TYPE_CHECKING:
    from meta_eval.judge.decision import TaskDecision
    from meta_eval.stats import Drop, DropBreakdown, DropPart

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
        rows.append(Row("mean, by precision", mean, whole=True))
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
        return None if drop is None else _bounds(drop)

    return Column(key, key, value, text.format_drop, detail=detail, strong=True)


def make_json(parts: DropBreakdown) -> dict[str, Any]:
    """As plain JSON data, from -1 to 1; a part that nothing tells is null, ``rest`` is model and prompts together."""
    parts_by_name = {
        "total": parts.total,
        "grader": parts.grader,
        "model": parts.model,
        "prompts": parts.prompts,
        "rest": parts.rest,
    }
    counts = {name: getattr(parts, name) for name in ("docs", "regraded", "changed", "docs_with_other_prompt")}
    return {**{name: None if part is None else _plain(part) for name, part in parts_by_name.items()}, **counts}


def _plain(part: Drop | DropPart) -> dict[str, Any]:
    interval = _interval(part)
    return {"value": part.value, "interval": {"lower": interval.lower, "upper": interval.upper}}


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

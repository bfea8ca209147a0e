"""A drop from a recorded run told apart, for every view: a table of its parts with intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from meta_eval.reports import text
from meta_eval.reports.tables import Column, Row, Table

if TYPE_CHECKING:
    from meta_eval.judging.judgement import Task
    from meta_eval.stats import Decomposition, Drop, DropPart

LEGEND = (
    "Points, positive for worse. Grader: the recorded answers under today's grader. Model: new answers to the recorded "
    "prompts. Prompts: what docs with another prompt lost beyond those. The three add up to the total."
)


def apart_table(tasks: Iterable[Task], mean: Decomposition | None) -> Table[Decomposition]:
    """A row for each task whose drop is told apart, the mean of them last."""
    found = [(task.name, task.apart) for task in tasks if task.apart is not None]
    rows = [Row(name, one) for name, one in found]
    if mean is not None:
        rows.append(Row("mean, by precision", mean, whole=True))
    notes = ((name, "; ".join(_notes(one))) for name, one in found)
    columns: tuple[Column[Decomposition], ...] = (
        Column("docs", "docs", lambda one: one.docs, text.count),
        _part("total", lambda one: one.total),
        _part("grader", lambda one: one.grader),
        _part("model", lambda one: one.model),
        _part("prompts", lambda one: one.prompts),
    )
    title = "The difference from the record, told apart"
    return Table("apart", title, columns, tuple(rows), LEGEND, tuple((name, note) for name, note in notes if note))


def _part(key: str, part: Callable[[Decomposition], Drop | DropPart | None]) -> Column[Decomposition]:
    """The column of a part, with its interval below; a part that nothing tells is missing."""

    def value(one: Decomposition) -> float | None:
        found = part(one)
        return None if found is None else found.value

    def detail(one: Decomposition) -> str | None:
        found = part(one)
        return None if found is None else _bounds(found)

    return Column(key, key, value, text.drop, detail=detail, strong=True)


def figures(one: Decomposition) -> dict[str, Any]:
    """As plain JSON data, from -1 to 1; a part that nothing tells is null, ``rest`` is model and prompts together."""
    named = {"total": one.total, "grader": one.grader, "model": one.model, "prompts": one.prompts, "rest": one.rest}
    counts = {name: getattr(one, name) for name in ("docs", "regraded", "changed", "other_prompts")}
    return {**{name: None if part is None else _plain(part) for name, part in named.items()}, **counts}


def _plain(part: Drop | DropPart) -> dict[str, Any]:
    interval = _interval(part)
    return {"value": part.value, "interval": {"lower": interval.lower, "upper": interval.upper}}


def _interval(part: Drop | DropPart) -> Any:
    return part.interval() if callable(part.interval) else part.interval


def _bounds(part: Drop | DropPart) -> str:
    interval = _interval(part)
    return "" if interval.lower == interval.upper else text.drop_interval(interval)


def _notes(one: Decomposition) -> Iterator[str]:
    if one.regraded:
        yield f"{text.plural(one.regraded, 'recorded answer')} graded otherwise today"
    if one.other_prompts:
        yield f"{text.plural(one.other_prompts, 'doc')} asked with another prompt than the recorded one"
    if one.model is None:
        yield (
            "no doc was asked with the recorded prompt, so that model and prompts cannot be told apart: "
            f"{text.drop(one.rest.value)} ({text.drop_interval(one.rest.interval())}) together"
        )

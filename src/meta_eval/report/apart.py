"""A drop from a recorded run told apart, for every view: rows of figures with intervals, and what they are of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from meta_eval.report import text

if TYPE_CHECKING:
    from meta_eval.judging.model import Task
    from meta_eval.stats import Apart, Drop, Part

HEADINGS = ("total", "grader", "model", "prompts")

LEGEND = (
    "Points, positive for worse. Grader: the recorded answers under today's grader. Model: new answers to the recorded "
    "prompts. Prompts: what docs with another prompt lost beyond those. The three add up to the total."
)


@dataclass(frozen=True, slots=True)
class Row:
    """One task, or the mean of all.

    Attributes:
        name: The task; None for the mean.
        docs: Docs that have a recorded verdict, its answer graded today, and a new answer.
        cells: By heading the figure and its interval as text.
        note: What the figures are of, a clause; None where nothing is to be said.
    """

    name: str | None
    docs: int
    cells: tuple[tuple[str, str], ...]
    note: str | None


def rows(tasks: Iterable[Task], mean: Apart | None) -> list[Row]:
    """A row for each task whose drop is told apart, the mean of them last."""
    found = [_row(task.name, task.apart) for task in tasks if task.apart is not None]
    return found if mean is None else [*found, _row(None, mean)]


def figures(one: Apart) -> dict[str, Any]:
    """As plain JSON data, from -1 to 1; a part that nothing tells is null, ``rest`` is model and prompts together."""
    named = {"total": one.total, "grader": one.grader, "model": one.model, "prompts": one.prompts, "rest": one.rest}
    counts = {name: getattr(one, name) for name in ("docs", "regraded", "changed", "other_prompts")}
    return {**{name: None if part is None else _plain(part) for name, part in named.items()}, **counts}


def _plain(part: Drop | Part) -> dict[str, Any]:
    interval = _interval(part)
    return {"value": part.value, "interval": {"lower": interval.lower, "upper": interval.upper}}


def _interval(part: Drop | Part) -> Any:
    return part.interval() if callable(part.interval) else part.interval


def _row(name: str | None, one: Apart) -> Row:
    parts = (one.total, one.grader, one.model, one.prompts)
    cells = [(text.NONE, "") if part is None else (text.drop(part.value), _bounds(part)) for part in parts]
    return Row(name, one.docs, tuple(cells), "; ".join(_notes(one)) or None)


def _bounds(part: Drop | Part) -> str:
    interval = _interval(part)
    return "" if interval.lower == interval.upper else text.drop_interval(interval)


def _notes(one: Apart) -> Iterator[str]:
    if one.regraded:
        yield f"{text.plural(one.regraded, 'recorded answer')} graded otherwise today"
    if one.other_prompts:
        yield f"{text.plural(one.other_prompts, 'doc')} asked with another prompt than the recorded one"
    if one.model is None:
        yield (
            "no doc was asked with the recorded prompt, so that model and prompts cannot be told apart: "
            f"{text.drop(one.rest.value)} ({text.drop_interval(one.rest.interval())}) together"
        )

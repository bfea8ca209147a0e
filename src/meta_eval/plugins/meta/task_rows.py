"""Fetches, reads and checks the rows of one task, and joins them with their original."""

from __future__ import annotations

from dataclasses import dataclass, replace

from meta_eval.plugins.meta.joins import JOINS
from meta_eval.plugins.meta.joins.join import Joined
from meta_eval.plugins.meta.joins.original_reader import Originals
from meta_eval.plugins.meta.row_checks import CheckedRows, check_rows
from meta_eval.plugins.meta.source.dataset import EvalsDataset
from meta_eval.plugins.meta.source.rows import RowPlace, SourceRow, read_rows
from meta_eval.sockets import Template, report_progress


@dataclass(frozen=True, slots=True)
class TaskRows:
    """The rows of a task, and what was noticed while reading them.

    Attributes:
        rows: Input of the template. No other object holds them, so that docs can replace them in memory.
        count: How many the evals dataset has.
        labels: Their ``benchmark_label``.
        checked: What the checks found, without the rows.
        joined: The result of the join, without the rows; None for a task without a join.
    """

    rows: list[SourceRow]
    count: int
    labels: frozenset[str]
    checked: CheckedRows
    joined: Joined | None


def read_task_rows(
    template: Template,
    dataset: EvalsDataset,
    originals: Originals,
    *,
    allow_unmatched: bool = False,
    first: int | None = None,
) -> TaskRows:
    """Fetch, read, check and join the rows of a task.

    Args:
        template: The task.
        dataset: The evals dataset that it reads.
        originals: The original datasets, for joins.
        allow_unmatched: Leave out rows without an original.
        first: Only so many rows; None for all.

    Raises:
        SourceError: Rows or originals are not available.
        DataError: A row would make a wrong number, or does not match its original.
    """
    subset, name = template.spec.subset, template.spec.join
    place = RowPlace(dataset.dataset_id, subset)
    report_progress(f"{template.name}: reading {place}")
    rows = read_rows(dataset.fetch(subset), dataset_id=dataset.dataset_id, subset=subset)[:first]
    join = JOINS[name] if name is not None else None
    needs_gold = join is None or not join.brings_gold
    checked = check_rows(rows, place, output_type=template.output_type, needs_gold=needs_gold)
    joined = None
    if join is not None:
        report_progress(f"{template.name}: reading the original of {join.name}")
        joined = join.join(checked.rows, place, originals.rows(join), allow_unmatched=allow_unmatched)
    return TaskRows(
        joined.rows if joined else checked.rows,
        len(rows),
        frozenset(str(row.get("benchmark_label")) for row in rows),
        replace(checked, rows=[]),
        replace(joined, rows=[]) if joined else None,
    )

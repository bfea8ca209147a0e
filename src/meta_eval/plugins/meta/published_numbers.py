"""Finds the published scores of a task, in the evals dataset's metrics or else in the catalog.

A score is compared only with a metric of the same subset and averaging; the catalog describes each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from meta_eval.base.display import quoted
from meta_eval.pack.manifest import KnownGapEntry, ReferenceScoreEntry
from meta_eval.pack.templates.spec import PublishedMetric, Template
from meta_eval.plugins.meta import catalog
from meta_eval.plugins.meta.catalog.dataset_names import Identity
from meta_eval.plugins.meta.source.dataset import EvalsDataset
from meta_eval.plugins.meta.source.rows import SourceRow, read_evals_rows
from meta_eval.plugins.meta.thresholds import SAME_PUBLISHED
from meta_eval.sockets import DataError, SourceError, log

# Averaging by the tags of the metrics subset, such as ``macro_avg/acc``.
_AVERAGING = {"macro_avg": "macro", "micro_avg": "micro", "average": "micro"}


def read_published_metrics(dataset: EvalsDataset) -> list[SourceRow]:
    """The rows of the ``__metrics`` subset: benchmark_label, metric_tag, metric_value_computed (percent).

    If the subset is missing or unreadable there are no rows, and the catalog is used.

    Raises:
        DataError: A value is not a percentage.
    """
    try:
        files = dataset.fetch_metrics()
        rows = read_evals_rows(files, dataset_id=dataset.dataset_id, subset="__metrics") if files else []
    except SourceError as error:
        log.warning(f"{error}. Using the numbers of the model cards instead")
        return []
    good = []
    for number, row in enumerate(rows):
        label, tag, value = (row.get(name) for name in ("benchmark_label", "metric_tag", "metric_value_computed"))
        if not isinstance(label, str) or not isinstance(tag, str) or not isinstance(value, (bool, int, float)):
            continue
        if isinstance(value, bool) or not 0 <= value <= 100:
            raise DataError(
                f"column metric_value_computed is {quoted(value)} and should be a number from 0 to 100 "
                f"({quoted(label)}, {quoted(tag)})",
                where=f"{dataset.dataset_id}, __metrics, row {number}",
                hint="Fix the value, or remove the __metrics file to use the model cards' numbers",
            )
        good.append(row)
    if len(good) < len(rows):
        bad = len(rows) - len(good)
        log.warning(f"{dataset.dataset_id}: {bad} of {len(rows)} rows of __metrics have an unknown format")
    return good


def find_published_numbers(
    template: Template,
    dataset: EvalsDataset,
    labels: Iterable[str],
    metrics: Sequence[Mapping[str, Any]],
) -> tuple[ReferenceScoreEntry, ...]:
    """Find the published scores that the metrics of a task are compared with.

    Args:
        template: The task.
        dataset: The evals dataset that it reads.
        labels: The ``benchmark_label`` values of its rows, which the metrics subset repeats.
        metrics: The rows of the metrics subset.
    """
    model = dataset.identity.model
    catalog_numbers = catalog.find_published(model, template.spec.subset) if model else ()
    wanted_labels = set(labels)
    entries = []
    for metric in template.spec.published:
        reported = _reported(metric, [row for row in metrics if row["benchmark_label"] in wanted_labels])
        numbers = [
            number
            for number in catalog_numbers
            if metric.averaging in (None, number.averaging) and metric.benchmark in (None, number.benchmark)
        ]
        for number in numbers if reported is None else []:
            fields = number.model_dump(exclude={"model", "subset", "commit", "metric"})
            entries.append(
                ReferenceScoreEntry.model_validate({"metric": metric.metric, "source_metric": number.metric, **fields})
            )
        if reported is not None:
            value = round(float(reported["metric_value_computed"]), 2)
            card = next((number for number in numbers if number.same_settings), None)
            if card is not None and abs(card.value - value) > SAME_PUBLISHED:
                log.warning(
                    f"{template.name}: {dataset.dataset_id} reports {value:g} ({reported['benchmark_label']}, "
                    f"{reported['metric_tag']}), and {card.source} says {card.value:g}; using the first"
                )
            entries.append(
                ReferenceScoreEntry(
                    metric=metric.metric,
                    benchmark=str(reported["benchmark_label"]),
                    value=value,
                    source_metric=str(reported["metric_tag"]).rpartition("/")[2],
                    averaging=metric.averaging,
                    shots=card.shots if card else None,
                    cot=card.cot if card else None,
                    same_settings=True,
                    source=f"{dataset.dataset_id}, __metrics",
                    note=card.note if card else None,
                )
            )
    return tuple(entries)


def _reported(metric: PublishedMetric, rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The row of the metrics subset with the wanted score; None unless there is exactly one.

    No evals dataset has the mean of IFEval's four accuracies; their metrics have prompt accuracies only.
    """
    if metric.averaging == "mean of four":
        return None
    fitting = [
        row
        for row in rows
        if metric.averaging is None or _AVERAGING.get(str(row["metric_tag"]).partition("/")[0]) == metric.averaging
    ]
    return fitting[0] if len(fitting) == 1 else None


def find_known_gaps(template: Template, identity: Identity) -> tuple[KnownGapEntry, ...]:
    """The reasons that apply to a task, then what others measured on its rows.

    Args:
        template: The task.
        identity: The model whose published scores it is compared with.
    """
    spec = template.spec
    gaps = [
        KnownGapEntry(text=gap.text, source=gap.source, backends=gap.backends, recorded=gap.recorded)
        for gap in catalog.list_gaps()
        if (not gap.subsets or spec.subset in gap.subsets)
        and (not gap.families or identity.family in gap.families)
        and gap.graded_by in (None, spec.graded_by)
        and gap.row_format in (None, spec.row_format)
    ]
    others = catalog.find_reproductions(identity.model, spec.subset) if identity.model else ()
    measured = [
        KnownGapEntry(
            text=f"Others measured {score.value:g}{f' ({score.averaging})' if score.averaging else ''} on these rows "
            f"({score.source}){f': {score.note}' if score.note else ''}."
        )
        for score in others
    ]
    return (*gaps, *measured)

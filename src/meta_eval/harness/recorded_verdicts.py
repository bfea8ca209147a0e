"""Reads recorded verdicts, and defines when two verdicts are equal, for verify and report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from meta_eval.base.errors import locating
from meta_eval.harness.doc_results import DocResult, FilterResult, ResultsError
from meta_eval.harness.sample_parser import read_metrics


class Verdicts(Protocol):
    """Meta's verdict on an answer, and its metrics as JSON text. Either may be missing."""

    @property
    def recorded_is_correct(self) -> bool | None: ...

    @property
    def recorded_metrics(self) -> str | None: ...


def read_recorded_verdicts(
    docs: Sequence[Verdicts], metric: str, reading: str | None = None
) -> tuple[list[float | None], str]:
    """Read Meta's verdict on each doc, None if it recorded none, and where the verdicts come from.

    If any doc has a recorded metric of this name (such as F1 or ROUGE), that metric is used, otherwise ``is_correct``.
    They are never mixed: a value of 0.6 cannot be compared with a yes.

    Raises:
        ResultsError: A recorded metric of this name is not a share.

    Args:
        docs: The recorded data of each doc.
        metric: The name of the recorded metric.
        reading: The metric with the meaning of ``is_correct``, if that is not a verdict. ``is_correct`` is then not
            used as a verdict, because a difference between readings does not show which answer is better.
    """
    values = [_metric(doc.recorded_metrics, metric) for doc in docs]
    if any(value is not None for value in values):
        return values, f"recorded {metric}"
    plain = [doc.recorded_is_correct if reading is None else None for doc in docs]
    return [None if value is None else float(value) for value in plain], "is_correct"


def _metric(text: str | None, metric: str) -> float | None:
    metrics = json.loads(text, parse_int=float) if text else None
    value = metrics.get(metric) if isinstance(metrics, dict) else None
    if not isinstance(value, (bool, float)):
        return None
    if not 0 <= value <= 1:
        raise ResultsError(
            f"the recorded metric {metric} of a doc is {value}, and must be a number from 0 to 1",
            hint="Prepare the pack again, and run it",
        )
    return float(value)


def restore_recorded_docs(docs: Sequence[DocResult]) -> list[DocResult]:
    """Restore the recorded metrics of the docs of a recorded run. Docs without metrics are dropped."""
    recorded = []
    for doc in docs:
        metrics = json.loads(doc.recorded_metrics) if doc.recorded_metrics else None
        if isinstance(metrics, dict) and metrics:
            with locating(f"doc {doc.doc_id}"):
                recorded.append(doc.with_recorded(read_filter_results(metrics)))
    return recorded


def read_filter_results(metrics: Mapping[str, Any]) -> dict[str, FilterResult]:
    """Make the result of each filter; ``metrics`` by ``metric,filter``, as lm-eval wrote them.

    Raises:
        ResultsError: A metric is not a number.
    """
    by_filter: dict[str, dict[str, Any]] = {}
    for metric_key, value in metrics.items():
        metric, _, name = metric_key.partition(",")
        by_filter.setdefault(name, {})[metric] = value
    # Values that are not numbers are left out, as in the task's own average.
    return {name: FilterResult(None, read_metrics(metrics, metrics), 0, 0) for name, metrics in by_filter.items()}

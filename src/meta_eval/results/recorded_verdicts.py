"""Meta's recorded verdicts, and the rule by which two verdicts are equal, for verify and report alike."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from meta_eval.messages.errors import locating
from meta_eval.results.doc_results import Doc, FilterResult, ResultsError
from meta_eval.results.sample_parser import read_metrics


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

    Where any doc has a recorded metric of this name (F1, ROUGE and the like), that; else ``is_correct``. Never the one
    for some docs and the other for the rest: a verdict of 0.6 has nothing to be compared with in a yes.

    Raises:
        ResultsError: A recorded metric of this name is no share.

    Args:
        docs: What was recorded of each doc.
        metric: The name of the recorded metric.
        reading: The metric that says what ``is_correct`` says where that is no verdict: ``is_correct`` is then not
            taken for one, since a difference between readings does not say which answer is better.
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


def restore_recorded_docs(docs: Sequence[Doc]) -> list[Doc]:
    """Restore the recorded metrics of the docs of a recorded run. Docs without metrics are dropped."""
    recorded = []
    for doc in docs:
        metrics = json.loads(doc.recorded_metrics) if doc.recorded_metrics else None
        if isinstance(metrics, dict) and metrics:
            with locating(f"doc {doc.doc_id}"):
                recorded.append(doc.with_recorded(read_filter_results(metrics)))
    return recorded


def read_filter_results(metrics: Mapping[str, Any]) -> dict[str, FilterResult]:
    """What each filter's metrics gave an answer; ``metrics`` by ``metric,filter``, as lm-eval wrote them.

    Raises:
        ResultsError: One is no number.
    """
    by_filter: dict[str, dict[str, Any]] = {}
    for spec, value in metrics.items():
        metric, _, name = spec.partition(",")
        by_filter.setdefault(name, {})[metric] = value
    # What is no number is left out, as the task's own average of it does.
    return {name: FilterResult(None, read_metrics(metrics, metrics), 0, 0) for name, metrics in by_filter.items()}

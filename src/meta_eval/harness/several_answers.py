"""Averages several answers to a doc: the verdict on the doc is their mean verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from meta_eval.harness.doc_results import DocResult
from meta_eval.harness.metrics import MetricValue


def average_answers(docs: Iterable[DocResult]) -> None:
    """Give each doc the mean verdict of its answers, if all verdicts are known. A filter that takes the first answer
    ignores the others in lm-eval's own average; here they count.
    """
    for doc in docs:
        for result in doc.filter_results.values():
            for metric, verdicts in result.verdict_of_each.items():
                result.metrics[metric] = replace_verdict(result.metrics[metric], math.fsum(verdicts) / len(verdicts))


def replace_verdict(value: MetricValue, verdict: float) -> MetricValue:
    """Replace the verdict in a metric's value, 0 to 1; all verdicts on instructions become its rounded value."""
    if isinstance(value, float):
        return verdict
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], float):
        return value[0], verdict  # type: ignore[return-value]
    if isinstance(value, tuple):
        right = verdict >= 0.5
        parts: Any = [tuple(right for _ in part) if isinstance(part, tuple) else right for part in value]
        return tuple(parts)
    return value

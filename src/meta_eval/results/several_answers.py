"""Several answers to a doc: the verdict on the doc is the mean of those on its answers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from meta_eval.results.doc_results import Doc
from meta_eval.results.metrics import Value


def average_answers(docs: Iterable[Doc]) -> None:
    """Give each doc the mean verdict of its answers, where the verdict on each is known.

    A filter that takes the first answer leaves the others out of lm-eval's own average; these are in here.
    """
    for doc in docs:
        for result in doc.answers.values():
            for metric, verdicts in result.each.items():
                result.metrics[metric] = replace_share(result.metrics[metric], math.fsum(verdicts) / len(verdicts))


def replace_share(value: Value, share: float) -> Value:
    """The value of a metric with another verdict, 0 to 1; of verdicts on instructions all are what it rounds to."""
    if isinstance(value, float):
        return share
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], float):
        return value[0], share  # type: ignore[return-value]
    if isinstance(value, tuple):
        right = share >= 0.5
        parts: Any = [tuple(right for _ in part) if isinstance(part, tuple) else right for part in value]
        return tuple(parts)
    return value

"""Second answers of a run to some of its docs, and the random order of its docs, as its results file tells them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from meta_eval.base.hashing import hash_text
from meta_eval.harness.doc_results import ResultsError
from meta_eval.harness.results_file import as_mapping, read_finite_number


@dataclass(frozen=True, slots=True)
class RerunValues:
    """What second answers to docs of one task were graded as.

    Attributes:
        metric: ``metric,filter`` of the values.
        values: By doc, from 0 to 1.
    """

    metric: str
    values: Mapping[int, float]


def read_rerun(config: Mapping[str, Any], task: str) -> RerunValues | None:
    """The second answers of a task; None where there are none.

    Args:
        config: ``config.meta_eval`` of the results file.
        task: The task.

    Raises:
        ResultsError: They are not what `meta-eval run` writes.
    """
    content = as_mapping(as_mapping(config.get("rerun")).get(task))
    if not content:
        return None
    metric, docs, values = (content.get(name) for name in ("metric", "docs", "values"))
    docs, values = (part if isinstance(part, list) else [None] for part in (docs, values))
    shares = [read_finite_number(value) for value in values]
    is_valid = isinstance(metric, str) and all(type(doc) is int for doc in docs)
    if not is_valid or len(shares) != len(docs) or any(share is None or not 0 <= share <= 1 for share in shares):
        raise ResultsError(f"{task}: its second answers are damaged", hint="Grade the run again with --grade-only")
    return RerunValues(str(metric), {doc: share for doc, share in zip(docs, shares, strict=True) if share is not None})


def describe_order(config: Mapping[str, Any]) -> str | None:
    """The random order of a run in words; None where there is none.

    Raises:
        ResultsError: Its seed is not the one whose hash was recorded.
    """
    order = as_mapping(config.get("order"))
    if not order:
        return None
    seed, sha256 = str(order.get("seed")), str(order.get("seed_sha256"))
    if hash_text(seed) != sha256:
        raise ResultsError("the seed of the order is not the one whose hash was recorded before the run")
    return f"random, seed {seed[:80]}, {'secret until the end' if order.get('secret') is True else 'not secret'}"

"""Parses the metrics that lm-eval logs for a doc."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Keys of a sample that are not metrics.
NON_METRIC_FIELDS = frozenset(
    (
        "doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics", "doc_hash",
        "prompt_hash", "target_hash", "finish_reason", "finish_reasons", "prompt_tokens",
        "completion_tokens", "each_answer", "majority_answer", "random_place", "tools_lost",
    )
)  # fmt: skip

# Metrics of rolling likelihoods, which lm-eval averages over words or bytes instead of docs.
_WEIGHTED = frozenset(("word_perplexity", "byte_perplexity", "bits_per_byte"))

# Metrics of lm-eval and its tasks that are never shares from 0 to 1. Others are recognised by a value outside 0 to 1.
UNBOUNDED_METRICS = _WEIGHTED | {
    "perplexity", "bleu", "chrf", "chrf++", "ter", "brier_score", "mcc", "eqbench", "likelihood", "likelihood_diff",
    "bleurt", "pearsonr", "difference_male_female", "bias_score_disambig", "bias_score_ambig", "amb_bias_score",
    "disamb_bias_score",
    *(f"{name}_{which}" for name in ("bleu", "rouge1", "rouge2", "rougeL", "bleurt") for which in ("max", "diff")),
}  # fmt: skip

# Metrics where lower is better, if no results file says so (before 0.4.3 only a task's metric list has it).
LOWER_IS_BETTER = _WEIGHTED | {
    "perplexity", "ter", "wer", "cer", "brier_score", "likelihood_diff", "pct_stereotype", "unextracted", "ungraded",
    "self_judged",
}  # fmt: skip


# Facts about an answer, which are counted and no score.
COUNTED = frozenset(("unextracted", "ungraded", "self_judged"))


@dataclass(frozen=True, slots=True)
class PerplexityParts:
    """A doc's contribution to a perplexity: its log-likelihood, and its number of words or bytes."""

    log_likelihood: float
    weight: float


# How lm-eval up to 0.4.11 writes numpy booleans.
_TRUTH = {"True": True, "False": False}

# score | (subtask, score) | verdict per instruction | (strict, loose) verdicts per instruction | perplexity parts
MetricValue = (
    float | tuple[str | None, float] | tuple[bool, ...] | tuple[tuple[bool, ...], tuple[bool, ...]] | PerplexityParts
)


def read_value(name: str, logged: Any) -> MetricValue | None:
    """Parse the logged value of a metric; None for a shape that only the metric's own aggregation understands."""
    return _weighted(logged) if name in _WEIGHTED else _value(logged)


def has_bad_perplexity(sample: Mapping[str, Any]) -> bool:
    """Whether a rolling log-likelihood of a doc is no finite number."""
    parts = [_weighted(sample[name]) for name in _WEIGHTED if name in sample]
    return any(part is not None and not math.isfinite(part.log_likelihood) for part in parts)


def _weighted(value: Any) -> PerplexityParts | None:
    if not isinstance(value, list) or len(value) != 2:
        return None
    log_likelihood, weight = to_plain_number(value[0]), _number(value[1])
    try:
        log_likelihood = float(log_likelihood)
    except (TypeError, ValueError, OverflowError):
        log_likelihood = math.nan
    return None if weight is None else PerplexityParts(log_likelihood, weight)


def _value(value: Any) -> MetricValue | None:
    if not isinstance(value, list) or not value:
        return _number(value)
    if all(isinstance(flag, bool) for flag in value):
        return tuple(value)
    if len(value) == 2:
        first, second = value
        if isinstance(first, list) and isinstance(second, list) and len(first) == len(second) > 0:
            return (tuple(first), tuple(second)) if all(isinstance(flag, bool) for flag in first + second) else None
        if first is None or isinstance(first, str):
            score = _number(second)
            return None if score is None else (first, score)
    return None


def to_plain_number(logged: Any) -> Any:
    """Convert a logged value to a Python number if it is a numpy number or lm-eval's text of one ("False")."""
    if isinstance(logged, str):
        return _TRUTH.get(logged, logged)
    return logged.item() if getattr(logged, "ndim", None) == 0 else logged


def _number(value: Any) -> float | None:
    """A number, possibly infinite or NaN; None for other JSON values."""
    value = to_plain_number(value)
    try:
        return float(value) if isinstance(value, (bool, int, float)) else None
    except OverflowError:
        return math.inf

"""What the tasks of `meta-eval fidelity --write-stock` do with a doc; plain lm-eval, nothing of meta-eval."""

import math
from collections.abc import Sequence
from typing import Any


def doc_to_text(doc: dict[str, Any]) -> str:
    """The prompt as it is: no template is applied to it."""
    return str(doc["prompt"])


def doc_to_target(doc: dict[str, Any]) -> str:
    """The answer that Meta recorded."""
    return str(doc["recorded"])


def process_results(doc: dict[str, Any], results: Sequence[tuple[float, bool]]) -> dict[str, Any]:
    """Of the sum of its log-probabilities (nats), and whether each of its tokens is the likeliest."""
    ((logprob, greedy),) = results
    metrics: dict[str, Any] = {
        "greedy": float(greedy),
        "logprob_per_byte": (logprob, len(doc["recorded"].encode())),
    }
    if doc.get("tokens") is not None:
        metrics["logprob_per_token"] = metrics["perplexity_per_token"] = (logprob, doc["tokens"])
    return metrics


def per_unit(items: Sequence[tuple[float, int]]) -> float:
    """The mean over all units of all docs: a long answer counts as much as its length."""
    return sum(value for value, _ in items) / sum(units for _, units in items)


def perplexity(items: Sequence[tuple[float, int]]) -> float:
    """e to the mean negative log-probability."""
    return math.exp(-per_unit(items))

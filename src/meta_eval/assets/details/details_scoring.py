"""How details were graded: by the harness of the first Open LLM Leaderboard (lm-evaluation-harness b281b09, June 2023),
and by lighteval 0.13.
"""

import math
import re
from typing import Any

_ANSWER = re.compile(r"#### (-?[0-9.,]+)")


def truthfulqa_mc(doc: dict[str, Any], results: list[tuple[float, bool]]) -> dict[str, float]:
    """``mc1``: the likeliest of its choices is the first; ``mc2``: the share of the true ones' probabilities.

    Args:
        doc: ``mc1`` says how many choices are of mc1, ``true`` how many of the others are true and come first.
        results: The log-likelihood of each choice, and whether it is what the model would write.
    """
    costs = [result[0] for result in results]
    first, second = costs[: doc["mc1"]], costs[doc["mc1"] :]
    shares = [math.exp(cost) for cost in second]
    whole = sum(shares)
    mc2 = sum(shares[: doc["true"]]) / whole if whole else math.nan
    return {"mc1": float(first.index(max(first)) == 0), "mc2": mc2}


def lighteval_choices(doc: dict[str, Any], results: list[tuple[float, bool]]) -> dict[str, float]:
    """Whether the best choice is a right one, lighteval's ``loglikelihood_acc``.

    ``acc`` by likelihood; ``acc_norm`` by likelihood a character (``LogProbCharNorm``); ``acc_norm_no_space`` the same,
    a leading space not counted (``ignore_first_space``).
    """
    costs = [result[0] for result in results]
    lengths = [len(choice) for choice in doc["choices"]]
    bare = [len(choice.removeprefix(" ")) for choice in doc["choices"]]

    def right(values: list[float]) -> float:
        return float(values.index(max(values)) in doc["golds"])

    return {
        "acc": right(costs),
        "acc_norm": right([cost / length for cost, length in zip(costs, lengths, strict=True)]),
        "acc_norm_no_space": right([cost / length for cost, length in zip(costs, bare, strict=True)]),
    }


def exact_match(doc: dict[str, Any], results: list[str]) -> dict[str, float]:
    """``em``: the answer is one of the golds, both without white space around them (``Metrics.exact_match``)."""
    return {"em": float(bool(results[0]) and results[0].strip() in [gold.strip() for gold in doc["golds"]])}


def gsm8k(doc: dict[str, Any], results: list[str]) -> dict[str, float]:
    """``acc``: the first number behind ``####`` is the gold's."""
    answer = _number(results[0])
    return {"acc": float(answer is not None and answer == _number(doc["gold"]))}


def _number(text: str) -> str | None:
    match = _ANSWER.search(text)
    return match[1].strip().replace(",", "") if match else None

"""Counts which deployments and models gave some answers, for the results file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from meta_eval.harness.answer import Answer

# Models that are counted by name.
_MOST_NAMES = 20

# Stands in every set of endpoints of which the user says that it is the deployment of all other answers.
SAME = "same"


def join_endpoints(deployments: Iterable[frozenset[str]]) -> list[frozenset[str]]:
    """Join sets of endpoints that have one in common."""
    joined: list[frozenset[str]] = []
    for deployment in deployments:
        apart = [other for other in joined if not other & deployment]
        joined = [*apart, deployment.union(*(other for other in joined if other & deployment))]
    return joined


def count_origins(answers: Iterable[Answer], deployments: Sequence[frozenset[str]]) -> dict[str, Any]:
    """Count answers by the model that they name and by deployment, the most frequent first; empty if nothing is known.

    Args:
        answers: The answers of a task.
        deployments: Sets of endpoints that are one deployment.
    """
    joined = join_endpoints(deployments)
    names, models, endpoints = Counter[str](), Counter[str](), Counter[frozenset[str]]()
    for answer in answers:
        names.update(filter(None, [answer.model]))
        models.update(filter(None, [answer.response_model]))
        if answer.endpoint is not None:
            own = next((some for some in joined if answer.endpoint in some), frozenset({answer.endpoint}))
            endpoints[own] += 1
    deployed = [{"addresses": sorted(some - {SAME}), "answers": count} for some, count in endpoints.most_common()]
    named = dict(models.most_common(_MOST_NAMES))
    if rest := models.total() - sum(named.values()):
        named["others"] = rest
    origins = {"asked": next(iter(names), None), "models": named, "endpoints": deployed}
    return {name: value for name, value in origins.items() if value} if models or deployed else {}

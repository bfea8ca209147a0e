"""Finds docs of a task that share a question or a passage and so are not independent.

Meta's rows have no column for this. A template names a rule that finds the clusters (``metadata.meta_eval.cluster``),
or its `process_docs` makes a column ``cluster``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from meta_eval.pack.templates.spec import ClusterRule

_Doc = Mapping[str, Any]

# A line that asks or answers. The text right before the last such lines of a prompt is the passage of its question;
# shots and dialogs have their passages further up.
_ASKS = re.compile(r"\s*(?:Q|A|Question|Answer|Choices)\s*:", re.IGNORECASE)


def cluster_docs(docs: Sequence[_Doc], rule: ClusterRule) -> tuple[list[str | None], str | None]:
    """Find the cluster of each doc, an ordinal; None if a doc has no other in its cluster.

    Returns:
        The clusters, and the short name of a warning if the docs do not fit the rule.
    """
    if rule == "parallel" and not _parallel(docs):
        return _named([doc["gold"] for doc in docs]), "docs_are_not_parallel_over_subtasks"
    ordinals = _named(list(_KEYS[rule](docs)))
    # A rule that finds nothing, or one cluster of everything, has not found the passages.
    if len(docs) > 1 and len(set(ordinals)) == 1:
        return [None] * len(docs), "docs_do_not_show_what_they_share"
    return ordinals, None


def _passage(prompt: str) -> str:
    lines = [line.strip() for line in prompt.splitlines() if line.strip() and not _ASKS.match(line)]
    return lines[-1] if lines else prompt


def _document(prompt: str) -> str:
    return max(prompt.splitlines(), key=len).strip()


def _positions(docs: Sequence[_Doc]) -> list[str]:
    seen: Counter[str | None] = Counter()
    places = []
    for doc in docs:
        places.append(str(seen[doc["subtask_name"]]))
        seen[doc["subtask_name"]] += 1
    return places


def _parallel(docs: Sequence[_Doc]) -> bool:
    """Whether docs at the same position of all subtasks have the same gold."""
    if len(set(Counter(doc["subtask_name"] for doc in docs).values())) > 1:
        return False
    answers: dict[str, set[str]] = {}
    for place, doc in zip(_positions(docs), docs, strict=True):
        answers.setdefault(place, set(doc["answers"])).intersection_update(doc["answers"])
    return all(answers.values())


def _named(keys: Sequence[str]) -> list[str | None]:
    """Number the repeated keys. A number reveals nothing about the gated text that the key hashes."""
    count = Counter(keys)
    ids: dict[str, str] = {}
    return [ids.setdefault(key, str(len(ids))) if count[key] > 1 else None for key in keys]


_KEYS: Mapping[ClusterRule, Callable[[Sequence[_Doc]], list[str]]] = {
    "passage": lambda docs: [_passage(doc["prompt"]) for doc in docs],
    "document": lambda docs: [_document(doc["prompt"]) for doc in docs],
    "parallel": _positions,
}

"""Finds the docs that count as a unit: those of a cluster, and docs of several tasks with the same question."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from meta_eval.harness.doc_results import DocResult


def find_shared_questions(tasks: Sequence[Sequence[DocResult]]) -> frozenset[str]:
    """The question hashes that docs of several tasks have."""
    seen: set[str] = set()
    twice: set[str] = set()
    for docs in tasks:
        here = {doc.question_hash for doc in docs}
        twice |= here & seen
        seen |= here
    return frozenset(twice)


def find_cluster_names(task: str, docs: Sequence[DocResult], shared: frozenset[str]) -> list[Hashable] | None:
    """The cluster of each doc; None where no doc shares anything with another.

    Args:
        task: Its name: docs of two tasks are related only through a common question.
        docs: The docs.
        shared: Question hashes that occur in several tasks of the report.
    """
    question_of_cluster: dict[str, str] = {}
    for doc in docs:
        if doc.cluster is not None and doc.question_hash in shared:
            question_of_cluster[doc.cluster] = min(
                question_of_cluster.get(doc.cluster, doc.question_hash), doc.question_hash
            )
    names: list[Hashable] = []
    for doc in docs:
        question = doc.question_hash if doc.cluster is None else question_of_cluster.get(doc.cluster)
        names.append(question if question in shared else (task, doc.doc_id if doc.cluster is None else doc.cluster))
    independent = all(doc.cluster is None and doc.question_hash not in shared for doc in docs)
    return None if independent else names

"""Docs of a task that a run lacks: whether an order that was fixed before left them out, or the model did.

A model that does not answer the docs it would get wrong must not gain by it, whatever number of docs a gate asks for.
"""

from __future__ import annotations

import math

from meta_eval.harness.lm_eval_run import TaskRun
from meta_eval.pack.manifest import TaskEntry


def has_fixed_order(result: TaskRun, entry: TaskEntry | None) -> bool:
    """Whether a run has all docs that it was meant to have, so that what it lacks does not depend on its answers.

    These are the docs of its pack; those of a stop by `run --stop-when-decided`, in its random order; or the first
    docs of the task, as many as its ``--limit`` says.
    """
    provenance, numbers = result.provenance, sorted(doc.doc_id for doc in result.docs)
    if result.skipped:
        return False
    if provenance.stopped or (entry is not None and len(numbers) == entry.docs):
        return True
    limit = provenance.limit
    if limit is not None and limit < 1:
        limit = None if provenance.docs_of_task is None else math.ceil(limit * provenance.docs_of_task)
    return limit is not None and 0 < int(limit) <= len(numbers) and numbers == list(range(len(numbers)))

"""What verify stored of a pack, made of docs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from meta_eval.harness.doc_results import DocResult
from meta_eval.harness.lm_eval_run import Run, TaskRun
from meta_eval.harness.provenance import GraderFacts, Provenance
from meta_eval.pack.baseline import Baseline


def stored(docs: Mapping[str, Sequence[DocResult]], *, lm_eval: str | None = None) -> Baseline:
    """The recorded answers of tasks, graded by this lm-eval."""
    return Baseline(run_of(docs, lm_eval=lm_eval))


def run_of(docs: Mapping[str, Sequence[DocResult]], *, lm_eval: str | None = None) -> Run:
    """A run of these docs, of which nothing else is known."""
    provenance = Provenance(lm_eval=lm_eval, grader=GraderFacts(lm_eval=lm_eval))
    return Run({name: TaskRun(name, docs=tuple(of), provenance=provenance) for name, of in docs.items()})

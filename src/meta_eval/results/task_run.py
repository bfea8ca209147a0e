"""A task as a model ran it: its docs, lm-eval's averages, and provenance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from meta_eval.results.doc_results import Doc
from meta_eval.results.metrics import LOWER_IS_BETTER
from meta_eval.results.provenance import Provenance
from meta_eval.results.results_file import Aggregate


@dataclass(frozen=True, slots=True)
class TaskRun:
    """One task as a model ran it.

    Attributes:
        task: Its name.
        time: The time in the file's name; of lm-eval before 0.4.3 that in the results file.
        docs: By doc id; none when no samples were logged.
        filters: The filters of its answers, in lm-eval's order; without samples those of its averages.
        aggregates: lm-eval's own averages with their standard errors, by ``metric,filter``; all there is of a task
            without samples and of metrics that are no shares (perplexity, BLEU).
        only_aggregated: The ``metric,filter`` whose average the values of the docs do not give, because the task has a
            way of its own to average (an F1 of the whole, a weighted mean). Their values are not kept in the docs.
        samples_file: Where the docs stand; `meta_eval.results.sample_files.open_samples` reads a whole one.
        skipped: Damaged samples and docs that were left out.
        published_metrics: The metrics that answer published numbers, from the template.
        verdict: The ``metric,filter`` that says whether one answer is right, from the template.
        reading: The one that says what Meta's ``is_correct`` says, where that is something else; from the template.
        provenance: Where all this came from.
        lower_is_better: The metrics of which less is better.
    """

    task: str
    time: str
    docs: tuple[Doc, ...]
    filters: tuple[str, ...]
    aggregates: Mapping[str, Aggregate]
    only_aggregated: tuple[str, ...]
    samples_file: Path | None
    skipped: int
    published_metrics: tuple[str, ...]
    verdict: str | None
    reading: str | None
    provenance: Provenance
    lower_is_better: frozenset[str] = LOWER_IS_BETTER

"""A task as a model ran it: its docs, lm-eval's averages, and provenance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from meta_eval.harness.doc_results import DocResult
from meta_eval.harness.metrics import LOWER_IS_BETTER
from meta_eval.harness.provenance import Provenance
from meta_eval.harness.results_file import Aggregate


@dataclass(frozen=True, slots=True)
class TaskRun:
    """A task as a model ran it.

    Attributes:
        task: Its name.
        time: The time in the file's name; for lm-eval before 0.4.3 the time in the results file.
        docs: The docs by doc id; empty if no samples were logged.
        filters: The filters of its answers, in lm-eval's order; without samples, those of its averages.
        aggregates: lm-eval's own averages with standard errors, by ``metric,filter``. A task without samples, and
            metrics that are not shares (perplexity, BLEU), have only these.
        custom_aggregation: The ``metric,filter`` with the task's own aggregation (an F1 of the whole, a weighted mean).
            The mean over docs is not the score, so the docs do not keep their values.
        samples_file: The samples file; `meta_eval.harness.sample_files.open_samples` reads whole samples.
        skipped: Damaged samples and docs that were left out.
        published_metrics: Metrics with published scores, from the template.
        primary_metric: The ``metric,filter`` that says whether an answer is right, from the template.
        is_correct_metric: The metric with the meaning of Meta's ``is_correct``, if that is not a verdict; from the
            template.
        provenance: The provenance.
        lower_is_better: Metrics where lower is better.
        is_chat: Whether its prompts are chat messages, from the template.
        higher_is_better: Whether more is better, for the metrics of which the results file says so.
    """

    task: str
    time: str
    docs: tuple[DocResult, ...]
    filters: tuple[str, ...]
    aggregates: Mapping[str, Aggregate]
    custom_aggregation: tuple[str, ...]
    samples_file: Path | None
    skipped: int
    published_metrics: tuple[str, ...]
    primary_metric: str | None
    is_correct_metric: str | None
    provenance: Provenance
    lower_is_better: frozenset[str] = LOWER_IS_BETTER
    is_chat: bool = False
    higher_is_better: Mapping[str, bool] = field(default_factory=dict)


def find_disputed_metrics(*runs: TaskRun) -> frozenset[str]:
    """The metrics of which one results file says that more is better, and another that less is."""
    said: dict[str, set[bool]] = {}
    for run in runs:
        for metric, higher in run.higher_is_better.items():
            said.setdefault(metric, set()).add(higher)
    return frozenset(metric for metric, directions in said.items() if len(directions) > 1)

"""Compares our verdicts with others, doc by doc. Pure: lm-eval's samples in, counts and disagreements out.

A verdict is a number: 1 for right, 0 for wrong, or the value of an F1 or ROUGE. If Meta's ``is_correct`` does not mean
that an answer is right, the template's ``is_correct_metric`` computes its meaning from ours and replaces the verdict.

Two verdicts agree when they differ by no more than `SAME_VERDICT`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

from meta_eval.base.errors import TemplateError
from meta_eval.base.thresholds import SAME_VERDICT
from meta_eval.harness.doc_results import MAX_TAIL_CHARS, UNBOUNDED_METRICS, to_plain_number
from meta_eval.harness.replay import has_recorded_answer
from meta_eval.harness.sample_files import is_empty_answer
from meta_eval.harness.sample_parser import (
    list_metrics,
    read_extraction,
    read_output,
    read_outputs,
    read_recorded_verdicts,
    read_unextracted,
)
from meta_eval.pack.manifest import BaselineEntry, ReferenceScoreEntry, TaskEntry

# lm-eval's samples of a doc.
SamplesByFilter = Mapping[str, Mapping[str, Any]]


@dataclass(slots=True)
class Tally:
    """Counts over the docs of a task or a subtask."""

    docs: int = 0
    """All docs."""

    compared: int = 0
    """Docs with both verdicts, ours and theirs."""

    graded: float = 0.0
    """Sum of our verdicts (readings) over all docs."""

    reference: float = 0.0
    """Sum of their verdicts over the ``with_reference`` docs that have a verdict."""

    with_reference: int = 0
    meta: float = 0.0
    """Sum of Meta's recorded verdicts; ``like_meta`` counts the docs with the same verdict as ours. If a finished run
    is graded again, these differ from ``reference``, because they belong to another model's answers."""

    with_meta: int = 0
    like_meta: int = 0
    agreed: int = 0
    """Docs on which both verdicts agree."""

    graded_only: int = 0
    """Docs with our verdict higher; for yes or no, docs that only we call right."""

    reference_only: int = 0
    """Docs with their verdict higher."""

    unextracted: int | None = None
    """Docs without an extracted answer; None if the task does not report it."""

    ungraded: int = 0
    """Docs on which a grader failed."""

    not_recorded: int = 0
    """Docs without a recorded answer or without a verdict to compare with."""

    @property
    def agreement(self) -> float | None:
        """The share of the compared docs on which both verdicts agree; None when none was compared."""
        return self.agreed / self.compared if self.compared else None

    @property
    def graded_score(self) -> float | None:
        return self.graded / self.docs if self.docs else None

    @property
    def reference_score(self) -> float | None:
        return self.reference / self.with_reference if self.with_reference else None

    @property
    def meta_score(self) -> float | None:
        return self.meta / self.with_meta if self.with_meta else None

    def add(
        self,
        graded: float | None,
        reference: float | None,
        meta: float | None,
        *,
        agrees: bool | None,
        is_like_meta: bool,
        unread: bool | None,
        ungraded: bool = False,
    ) -> None:
        """Count a doc.

        Args:
            graded: Our verdict; None where it is no number.
            reference: The verdict that it is compared with; None where there is none.
            meta: Meta's recorded verdict; None likewise.
            agrees: Whether both verdicts agree; None where there is nothing to compare.
            is_like_meta: Whether Meta's verdict is the same as ours.
            unread: Whether no answer was found; None if the task does not report it.
            ungraded: Whether a grader failed.
        """
        self.docs += 1
        self.graded += graded or 0.0
        if reference is not None:
            self.reference += reference
            self.with_reference += 1
        if meta is not None:
            self.meta += meta
            self.with_meta += 1
        self.like_meta += is_like_meta
        if unread is not None:
            self.unextracted = (self.unextracted or 0) + unread
        self.ungraded += ungraded
        self.compared += agrees is not None
        self.not_recorded += agrees is None
        self.agreed += agrees is True
        if agrees is False and graded is not None and reference is not None:
            self.graded_only += graded > reference
            self.reference_only += graded < reference


@dataclass(slots=True)
class Tallies:
    """The counts and disagreements of a task; ``metric`` is the ``metric,filter`` of our verdicts or readings."""

    metric: str
    total: Tally
    subtasks: dict[str, Tally]
    disagreements: list[dict[str, Any]]
    compared_with: str

    def of(self, subtask: object) -> list[Tally]:
        """Those that a doc belongs to: that of all, and that of its subtask."""
        return [self.total, *([self.subtasks.setdefault(subtask, Tally())] if isinstance(subtask, str) else [])]


@dataclass(slots=True)
class Explanations:
    """Explanations of verdicts by doc: why graders failed, how the scorer reads an answer, and the values of a run."""

    failures: Mapping[int, str] = field(default_factory=dict)
    extract: Callable[[str], str | None] | None = None
    saved: Mapping[int, float | None] | None = None


def group_by_doc(samples: Sequence[Mapping[str, Any]]) -> list[tuple[int, SamplesByFilter]]:
    """The samples of each doc by filter, in the order of doc ids."""
    docs: dict[int, dict[str, Mapping[str, Any]]] = {}
    for sample in samples:
        docs.setdefault(sample["doc_id"], {})[sample["filter"]] = sample
    return sorted(docs.items(), key=itemgetter(0))


def tally_task(name: str, entry: TaskEntry, samples: Sequence[Mapping[str, Any]], context: Explanations) -> Tallies:
    """Compare every verdict of a task with Meta's, or with the saved verdicts of a finished run.

    Raises:
        TemplateError: The manifest's metric of verdicts is missing or not a number.
    """
    reading = entry.is_correct_metric or entry.primary_metric
    compared = reading if context.saved is None else entry.primary_metric
    by_doc = group_by_doc(samples)
    docs = [next(iter(rows.values()))["doc"] for _, rows in by_doc]
    recorded, compared_with = read_recorded_verdicts(
        [doc.get("recorded_is_correct") for doc in docs],
        [doc.get("recorded_metrics") for doc in docs],
        entry.recorded_metric or reading.partition(",")[0],
    )
    result = Tallies(compared, Tally(), {}, [], compared_with if context.saved is None else "saved verdicts")
    for (number, rows), doc, meta in zip(by_doc, docs, recorded, strict=True):
        row, graded = _scored(rows, compared, name)
        read = graded if reading == compared else _scored(rows, reading, name)[1]
        reference = meta if context.saved is None else context.saved.get(number)
        is_comparable = reference is not None and (context.saved is not None or has_recorded_answer(doc))
        agrees = is_same_verdict(graded, reference) if is_comparable else None
        unread, is_like_meta = is_unread(row), is_same_verdict(read, meta)
        for tally in result.of(doc.get("subtask_name")):
            tally.add(
                graded, reference, meta, agrees=agrees, is_like_meta=is_like_meta, unread=unread,
                ungraded=bool(row.get("ungraded")),
            )  # fmt: skip
        if agrees is False and reference is not None:
            line = _disagreement(number, graded, reference, meta, rows, entry, compared, context)
            result.disagreements.append(line)
    result.subtasks = dict(sorted(result.subtasks.items()))
    return result


def is_same_verdict(one: float, other: float | None) -> bool:
    """Whether two verdicts agree."""
    return other is not None and abs(one - other) <= SAME_VERDICT


def is_unread(sample: Mapping[str, Any]) -> bool | None:
    """Whether an answer is empty, or its filter found nothing in it (`read_unextracted`); None for a choice by
    likelihood whose grader says nothing of it."""
    outputs = read_outputs(sample)
    if not outputs:
        return None if "unextracted" not in sample else bool(read_unextracted(sample, outputs))
    return all(map(is_empty_answer, outputs)) or read_unextracted(sample, outputs)


def _scored(by_filter: SamplesByFilter, metric_key: str, name: str) -> tuple[Mapping[str, Any], float]:
    """The sample of a doc under the filter of ``metric,filter``, and its value.

    Raises:
        TemplateError: There is no such metric or filter, or the value is not a number.
    """
    metric, _, filter_name = metric_key.partition(",")
    row = by_filter.get(filter_name)
    if row is None or metric not in row:
        raise TemplateError(
            f"the verdict {metric_key!r} was not scored: filters {', '.join(by_filter)}, "
            f"metrics {', '.join(list_metrics(next(iter(by_filter.values()))))}",
            where=name,
            hint="Set metadata.meta_eval.primary_metric (or is_correct_metric) of the template",
        )
    return row, read_number(row[metric], f"{name}: {metric_key}")


def read_number(value: Any, where: str) -> float:
    """Read a metric's value of a doc; a pair ``(subtask, value)`` gives its value.

    Raises:
        TemplateError: It is not a number.
    """
    if isinstance(value, (list, tuple)) and len(value) == 2:
        value = value[1]
    value = to_plain_number(value)
    if isinstance(value, (bool, int, float)) and math.isfinite(value):
        return float(value)
    raise TemplateError(
        f"{value!r} is no verdict", where=where, hint="A verdict is one number a doc; name another metric"
    )


def macro_score(tallies: Mapping[str, Tally], score: Callable[[Tally], float | None]) -> float | None:
    """The mean of a score over subtasks; None without subtasks."""
    scores = [value for tally in tallies.values() if (value := score(tally)) is not None]
    return math.fsum(scores) / len(scores) if scores else None


def _disagreement(
    number: int,
    graded: float,
    reference: float,
    meta: float | None,
    by_filter: SamplesByFilter,
    entry: TaskEntry,
    compared: str,
    context: Explanations,
) -> dict[str, Any]:
    """Make a line of ``<task>.jsonl``; ``compared`` is the metric of the verdict, or a reading of it."""
    metric, _, chosen = compared.partition(",")
    row = by_filter[chosen]
    answer, gold = read_output(row), row["doc"]["gold"]
    # If no filter extracts the answer, a scorer that reads the whole output shows its extraction.
    scorer = context.extract if answer is not None and not read_unextracted(row) else None
    extracted_answer = scorer(answer) if scorer and answer is not None else read_extraction(row)
    others = [
        name
        for name, other in by_filter.items()
        if name != chosen and is_same_verdict(read_number(other[metric], f"{metric},{name}"), reference)
    ]
    right = graded > reference
    also = f"; filter {', '.join(others)} finds one that gives the other verdict" if others else ""
    # The first that applies.
    reasons = (
        (
            row.get("ungraded"), "ungraded",
            context.failures.get(number) or "a grader failed, so that the answer counts as wrong",
        ),
        (is_unread(row) and not right, "no match", f"no answer was found in the output{also}"),
        (not {graded, reference} <= {0.0, 1.0}, "other score", f"{graded:.4f} here, {reference:.4f} there"),
        (
            compared != entry.primary_metric, "reads otherwise",
            f"is_correct is not what {metric} makes of our verdicts",
        ),
        (extracted_answer is None, "graded otherwise", "the whole output is graded, and the graders differ"),
        (right and extracted_answer == gold, "equals gold", "the extracted answer is the gold to the letter"),
        (right, "normalisation", "the extracted answer equals the gold only after normalisation"),
        (others, "other filter", f"another answer than filter {', '.join(others)} finds"),
        (True, "differs from gold", "the extracted answer is not the gold"),
    )  # fmt: skip
    why, detail = next((why, detail) for holds, why, detail in reasons if holds)
    verdicts = {"ours": graded, "meta": meta, **({"saved": reference} if context.saved is not None else {})}
    metrics = {name: row[name] for name in list_metrics(row)}
    line = make_line(number, row, extracted_answer, gold, verdicts, why, detail, metrics)
    if answer is None:
        line["choices"] = [str(argument[1]).strip() for argument in row["arguments"]]
        likelihoods = (response[0] for response in row["filtered_resps"])
        line["log_likelihoods"] = [value if math.isfinite(value) else None for value in likelihoods]
    return line


def make_line(
    number: int,
    row: Mapping[str, Any],
    extracted: str | None,
    gold: str,
    verdicts: Mapping[str, float | None],
    why: str,
    detail: str,
    metrics: Mapping[str, Any],
) -> dict[str, Any]:
    """A line of ``<task>.jsonl``: a doc on which verdicts differ, with a short name for the kind of it, and a
    sentence."""
    doc, answer = row["doc"], read_output(row)
    return {
        "doc": number,
        "question_hash": doc["input_question_hash"],
        "subtask": doc.get("subtask_name"),
        "output_tail": None if answer is None else answer[-MAX_TAIL_CHARS:],
        "extracted": extracted,
        "gold": gold,
        **verdicts,
        "why": why,
        "detail": detail,
        "metrics": metrics,
    }


# below: under the required agreement. unfinished: some docs not scored. not checked: nothing to compare. failed: the
# task cannot run.
ProofStatus = Literal["passed", "below", "unfinished", "not checked", "failed"]


@dataclass(slots=True)
class TaskProof:
    """The result of a task."""

    entry: TaskEntry
    """Its entry in the manifest."""

    status: ProofStatus
    """Only ``passed`` is a pass."""

    reason: str | None
    """Why it did not pass; None for a pass."""

    min_agreement: float
    """The required agreement, 0 to 1."""

    tallies: Tallies | None = None
    """Counts and disagreements; None when nothing was scored."""

    scores: Mapping[str, float] = field(default_factory=dict)
    """All scores of the task's own aggregations, 0 to 1, by ``metric,filter``."""

    file: Path | None = None
    """The file of disagreements."""

    of_baseline: BaselineEntry | None = None
    """The run of ``baseline:`` whose verdicts are compared; None for those of the evals dataset."""

    @property
    def published(self) -> ReferenceScoreEntry | None:
        """The published score to compare with: that of the verdict, of its macro average, or else the first."""
        for metric in (self.entry.primary_metric, self._macro):
            for number in self.entry.reference_scores:
                if number.metric == metric:
                    return number
        return next(iter(self.entry.reference_scores), None)

    @property
    def metric(self) -> str:
        """The ``metric,filter`` of our score: that of the published score, or else the verdict."""
        return self.published.metric if self.published else self.entry.primary_metric

    @property
    def averaging(self) -> str:
        """How our score is averaged: ``macro`` over subtasks, ``micro`` over docs, or as the published score."""
        if self.metric == self._macro:
            return "macro"
        return (self.published.averaging if self.published else None) or "micro"

    @property
    def graded_score(self) -> float | None:
        """Our score of the task by its own aggregation, 0 to 1; None if it is not a share."""
        score = None if self.metric.partition(",")[0] in UNBOUNDED_METRICS else self.scores.get(self.metric)
        return score if score is not None and 0 <= score <= 1 else None

    @property
    def compares_verdicts(self) -> bool:
        """Whether verdicts were compared. The mean of readings is not a score."""
        return self.tallies is not None and self.tallies.metric == self.entry.primary_metric

    def mean(self, which: Callable[[Tally], float | None]) -> float | None:
        """The mean of other verdicts, 0 to 1, averaged like our score; None if they are not in its metric."""
        if self.tallies is None or not self.compares_verdicts:
            return None
        if self.metric == self._macro:
            return macro_score(self.tallies.subtasks, which) if self.tallies.subtasks else which(self.tallies.total)
        return which(self.tallies.total) if self.metric == self.entry.primary_metric else None

    @property
    def _macro(self) -> str:
        metric, _, filter_name = self.entry.primary_metric.partition(",")
        return f"{metric}_macro,{filter_name}"


@dataclass(slots=True)
class Proof:
    """The result of verify for a pack."""

    pack: Path
    """The folder."""

    regraded: Path | None
    """The folder of the run whose answers were graded, if any."""

    edited: tuple[str, ...] = ()
    """Files of the pack that changed since prepare."""

    tasks: dict[str, TaskProof] = field(default_factory=dict)
    """By name."""

    @property
    def passed(self) -> bool:
        """Whether every checked task passed, and at least one was checked."""
        statuses = {report.status for report in self.tasks.values()}
        return "passed" in statuses and statuses <= {"passed", "not checked"}

    @property
    def exit_code(self) -> int:
        """0: passed. 2: a task cannot run, for a reason that you can fix. 1: any other failure."""
        if any(report.status == "failed" for report in self.tasks.values()):
            return 2
        return 0 if self.passed else 1

"""Compares our verdicts with others, doc by doc. Pure: lm-eval's samples in, counts and disagreements out.

A verdict is a number: 1 for right, 0 for wrong, or the value of an F1 or ROUGE. If Meta's ``is_correct`` does not mean
that an answer is right, the template's ``is_correct_metric`` computes its meaning from ours and replaces the verdict.

Two verdicts agree when they differ by no more than `SAME_VERDICT`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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

    def add(self, judged: Judged) -> None:
        self.docs += 1
        self.graded += judged.graded
        if judged.reference is not None:
            self.reference += judged.reference
            self.with_reference += 1
        if judged.meta is not None:
            self.meta += judged.meta
            self.with_meta += 1
            self.like_meta += abs(judged.read - judged.meta) <= SAME_VERDICT
        if judged.unextracted is not None:
            self.unextracted = (self.unextracted or 0) + judged.unextracted
        self.ungraded += judged.ungraded
        if not judged.comparable or judged.reference is None:
            self.not_recorded += 1
            return
        self.compared += 1
        if judged.agrees:
            self.agreed += 1
        elif judged.graded > judged.reference:
            self.graded_only += 1
        else:
            self.reference_only += 1


@dataclass(frozen=True, slots=True)
class Judged:
    """A doc: our verdict, theirs (with which ours is compared), Meta's, and other counts.

    ``read`` is compared with Meta's verdict: our verdict, or the template's ``is_correct_metric`` of the answer.
    """

    graded: float
    read: float
    reference: float | None
    meta: float | None
    comparable: bool
    unextracted: bool | None
    ungraded: bool

    @property
    def agrees(self) -> bool:
        return self.reference is not None and abs(self.graded - self.reference) <= SAME_VERDICT


@dataclass(slots=True)
class Tallies:
    """The counts and disagreements of a task; ``metric`` is the ``metric,filter`` of our verdicts or readings."""

    metric: str
    total: Tally
    subtasks: dict[str, Tally]
    disagreements: list[dict[str, Any]]
    compared_with: str


@dataclass(slots=True)
class Explanations:
    """Explanations of verdicts by doc: why graders failed, how the scorer reads an answer, and the values of a run."""

    failures: Mapping[int, str] = field(default_factory=dict)
    extract: Callable[[str], str | None] | None = None
    saved: Mapping[int, float | None] | None = None


@dataclass(frozen=True, slots=True)
class _Recorded:
    """Meta's verdicts in a doc of a pack."""

    recorded_is_correct: bool | None
    recorded_metrics: str | None

    @classmethod
    def of(cls, doc: Mapping[str, Any]) -> _Recorded:
        return cls(doc.get("recorded_is_correct"), doc.get("recorded_metrics"))


def tally_task(name: str, entry: TaskEntry, samples: Sequence[Mapping[str, Any]], context: Explanations) -> Tallies:
    """Compare every verdict of a task with Meta's, or with the saved verdicts of a finished run.

    Raises:
        TemplateError: The manifest's metric of verdicts is missing or not a number.
    """
    reading = entry.is_correct_metric or entry.primary_metric
    compared = reading if context.saved is None else entry.primary_metric
    metric, _, filter_name = compared.partition(",")
    rows: dict[int, dict[str, Mapping[str, Any]]] = {}
    for sample in samples:
        rows.setdefault(sample["doc_id"], {})[sample["filter"]] = sample
    numbers = sorted(rows)
    docs = [_Recorded.of(next(iter(rows[number].values()))["doc"]) for number in numbers]
    recorded, compared_with = read_recorded_verdicts(docs, entry.recorded_metric or reading.partition(",")[0])
    result = Tallies(compared, Tally(), {}, [], compared_with if context.saved is None else "saved verdicts")
    for number, meta in zip(numbers, recorded, strict=True):
        row, graded = _scored(rows[number], compared, name)
        doc = row["doc"]
        judged = Judged(
            graded=graded,
            read=graded if reading == compared else _scored(rows[number], reading, name)[1],
            reference=context.saved.get(number) if context.saved is not None else meta,
            meta=meta,
            comparable=context.saved is not None or has_recorded_answer(doc),
            unextracted=is_unread(row),
            ungraded=bool(row.get("ungraded")),
        )
        result.total.add(judged)
        subtask = doc.get("subtask_name")
        if subtask is not None:
            result.subtasks.setdefault(subtask, Tally()).add(judged)
        if judged.comparable and judged.reference is not None and not judged.agrees:
            reads = compared != entry.primary_metric
            line = _disagreement(number, judged, rows[number], filter_name, metric, context, reads)
            result.disagreements.append(line)
    result.subtasks = dict(sorted(result.subtasks.items()))
    return result


def is_unread(sample: Mapping[str, Any]) -> bool | None:
    """Whether an answer is empty, or its filter found nothing in it (`read_unextracted`); None for a choice by
    likelihood whose grader says nothing of it."""
    outputs = read_outputs(sample)
    if not outputs:
        return None if "unextracted" not in sample else bool(read_unextracted(sample, outputs))
    return all(map(is_empty_answer, outputs)) or read_unextracted(sample, outputs)


def _scored(by_filter: Mapping[str, Mapping[str, Any]], metric_key: str, name: str) -> tuple[Mapping[str, Any], float]:
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
    judged: Judged,
    by_filter: Mapping[str, Mapping[str, Any]],
    chosen: str,
    metric: str,
    context: Explanations,
    reads: bool,
) -> dict[str, Any]:
    """Make a line of ``<task>.jsonl``; ``reads`` if the metric is a reading."""
    row = by_filter[chosen]
    doc = row["doc"]
    answer = read_output(row)
    # If no filter extracts the answer, a scorer that reads the whole output shows its extraction.
    scorer = context.extract if answer is not None and not read_unextracted(row) else None
    extracted_answer = scorer(answer) if scorer and answer is not None else read_extraction(row)
    others = [
        name
        for name, other in by_filter.items()
        if name != chosen
        and judged.reference is not None
        and abs(read_number(other[metric], f"{metric},{name}") - judged.reference) <= SAME_VERDICT
    ]
    why, detail = _why(
        judged, extracted_answer, doc["gold"], others, context.failures.get(number), metric if reads else None
    )
    line = {
        "doc": number,
        "question_hash": doc["input_question_hash"],
        "subtask": doc.get("subtask_name"),
        "output_tail": None if answer is None else answer[-MAX_TAIL_CHARS:],
        "extracted": extracted_answer,
        "gold": doc["gold"],
        "ours": judged.graded,
        "meta": judged.meta,
        **({"saved": judged.reference} if context.saved is not None else {}),
        "why": why,
        "detail": detail,
        "metrics": {name: row[name] for name in list_metrics(row)},
    }
    if answer is None:
        line["choices"] = [str(argument[1]).strip() for argument in row["arguments"]]
        likelihoods = (response[0] for response in row["filtered_resps"])
        line["log_likelihoods"] = [value if math.isfinite(value) else None for value in likelihoods]
    return line


def _why(
    judged: Judged,
    answer: str | None,
    gold: str,
    others: Sequence[str],
    failure: str | None,
    reading: str | None,
) -> tuple[str, str]:
    """A short name for the kind of disagreement, and a sentence; the first that applies."""
    right = judged.reference is not None and judged.graded > judged.reference
    also = f"; filter {', '.join(others)} finds one that gives the other verdict" if others else ""
    reasons = (
        (judged.ungraded, "ungraded", failure or "a grader failed, so that the answer counts as wrong"),
        (judged.unextracted and not right, "no match", f"no answer was found in the output{also}"),
        (
            not {judged.graded, judged.reference} <= {0.0, 1.0},
            "other score",
            f"{judged.graded:.4f} here, {judged.reference:.4f} there",
        ),
        (reading is not None, "reads otherwise", f"is_correct is not what {reading} makes of our verdicts"),
        (answer is None, "graded otherwise", "the whole output is graded, and the graders differ"),
        (right and answer == gold, "equals gold", "the extracted answer is the gold to the letter"),
        (right, "normalisation", "the extracted answer equals the gold only after normalisation"),
        (bool(others), "other filter", f"another answer than filter {', '.join(others)} finds"),
        (True, "differs from gold", "the extracted answer is not the gold"),
    )
    return next((why, detail) for holds, why, detail in reasons if holds)


# below: under the required agreement. unfinished: some docs not scored. not checked: nothing to compare. failed: the
# task cannot run.
Status = Literal["passed", "below", "unfinished", "not checked", "failed"]


@dataclass(slots=True)
class TaskProof:
    """The result of a task."""

    entry: TaskEntry
    """Its entry in the manifest."""

    status: Status
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

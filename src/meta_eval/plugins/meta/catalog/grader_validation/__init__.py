"""What the tasks were compared with: every comparison with real rows, an official scorer or a document, as measured.

The comparisons stand in the YAML files beside this one, each with the command that makes its numbers again. A file is
a list under ``checks:``; `Comparison` says what the keys mean. docs/plugins/meta/grader_validation.md, its
.json and ``meta-eval tasks`` are made of them.

No entry says that a task is verified. A status follows from the comparisons that were made by the metric that is the
task's verdict, from the answers that no rule was read off.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Literal, Self

from pydantic import Field, model_validator

from meta_eval.pack.manifest import Trust
from meta_eval.pack.templates.spec import Variant
from meta_eval.plugins.meta.catalog import CatalogFact, Percent, parse_catalog, read_catalog, read_catalog_text
from meta_eval.plugins.meta.thresholds import MIN_VALIDATED_AGREEMENT, MIN_VALIDATED_ROWS

_Status = Literal["seen", "documented", "assumed"]


class Rest(CatalogFact):
    """Answers with another verdict, and why."""

    count: int = Field(gt=0)
    why: str = Field(min_length=1)


class HeldOut(CatalogFact):
    """Of answers that a rule was read off, those that it was not read off: none where ``answers`` is 0."""

    answers: int = Field(ge=0)
    agreed: int = Field(ge=0)
    how: str = Field(min_length=1)


class Comparison(CatalogFact):
    """One comparison."""

    id: str = Field(min_length=1)
    """Unique among all checks."""

    date: datetime.date
    """When its numbers were entered here."""

    subsets: Mapping[Variant, tuple[str, ...]] = Field(min_length=1)
    """The details subsets that it speaks of, by variant of the evals datasets."""

    tasks: tuple[str, ...]
    """The tasks whose status it carries."""

    aspect: Literal["grading", "format"]
    """``grading``, of verdicts; ``format``, of prompts, golds and columns."""

    compared_with: Literal[
        "recorded verdicts", "official scorer", "reference implementation", "quoted rows", "documents"
    ]
    """``recorded verdicts`` of Meta; an ``official scorer`` of the benchmark; a ``reference implementation`` by others;
    ``quoted rows`` in public code; ``documents``."""

    reference: str = Field(min_length=1)
    """What exactly: implementation and version, or whose verdicts."""

    source: str = Field(min_length=1)
    """Where the answers or rows were read: repository, commit and path."""

    metric: str | None = None
    """Our metric, as lm-eval writes it, by which verdicts were compared; None for a format."""

    real: bool = False
    """Of grading, whether real models gave the answers; False for cases made up for the check. Of a format, whether
    Meta's own rows were seen."""

    answers: int | None = Field(default=None, gt=0)
    """How many were compared; None where nothing can be counted."""

    agreed: int | None = Field(default=None, ge=0)
    """On how many both verdicts are the same."""

    held_out: HeldOut | None = None
    """Where a rule of ours was read off these answers, the part that it was not read off; else None."""

    ours: Percent | None = None
    """Our score in percent."""

    theirs: Percent | None = None
    """Theirs."""

    command: str | None = None
    """What makes the numbers again, from data that the reader fetches."""

    rest: tuple[Rest, ...] = ()
    """Why the others differ; adds up to ``answers - agreed``."""

    note: str | None = None
    """What else one must know."""

    @model_validator(mode="after")
    def _every_other_verdict_has_its_reason(self) -> Self:
        if (self.answers is None) != (self.agreed is None):
            raise ValueError(f"{self.id}: answers and agreed come together")
        if self.answers is not None and self.agreed is not None:
            left = self.answers - self.agreed
            explained = sum(part.count for part in self.rest)
            if left < 0 or explained != left:
                raise ValueError(f"{self.id}: {left} answers differ and {explained} are explained")
            if not self.command:
                raise ValueError(f"{self.id}: a number needs the command that makes it again")
            if self.aspect == "grading" and not self.metric:
                raise ValueError(f"{self.id}: verdicts were compared by a metric, which must be named")
        return self

    @model_validator(mode="after")
    def _what_is_held_out_is_a_part(self) -> Self:
        part = self.held_out
        if part and not (part.agreed <= part.answers <= (self.answers or 0) and part.agreed <= (self.agreed or 0)):
            raise ValueError(f"{self.id}: {part.agreed} of {part.answers} held out are no part of what was compared")
        return self

    @property
    def agreement(self) -> float | None:
        """The share of equal verdicts, 0 to 1; None where nothing was counted."""
        return None if self.answers is None or self.agreed is None else self.agreed / self.answers

    @property
    def evidence(self) -> HeldOut:
        """The answers that say something of a grader: all, or those held out where a rule was read off the others."""
        return self.held_out or HeldOut(answers=self.answers or 0, agreed=self.agreed or 0, how="all")

    def judges_by(self, verdict: str) -> bool:
        """Whether verdicts were compared by this metric, ``metric,filter``, or by its mean over subtasks."""
        return self.aspect == "grading" and (self.metric or "").replace("_macro,", ",") == verdict

    def proves(self, verdict: str) -> bool:
        """Whether many real answers get by it the verdicts that Meta or the benchmark's own scorer gave them."""
        judged = self.compared_with in ("recorded verdicts", "official scorer")
        seen = self.evidence
        many = seen.answers >= MIN_VALIDATED_ROWS and seen.agreed >= MIN_VALIDATED_AGREEMENT * seen.answers
        return self.judges_by(verdict) and self.real and judged and many

    @property
    def saw_rows(self) -> bool:
        """Whether many of Meta's own rows went through the task."""
        many = (self.answers or 0) >= MIN_VALIDATED_ROWS
        return self.real and many and (self.aspect == "format" or self.compared_with == "recorded verdicts")


class _File(CatalogFact):
    checks: tuple[Comparison, ...]


@cache
def list_comparisons() -> tuple[Comparison, ...]:
    """All comparisons, in the order of the files' names.

    Raises:
        ValueError: Two of one id: a fault of meta-eval.
    """
    comparisons = [check for text in _texts() for check in _parse(text)]
    ids = [check.id for check in comparisons]
    if len(ids) != len(set(ids)):
        raise ValueError(f"grader_validation: ids stand twice: {sorted({name for name in ids if ids.count(name) > 1})}")
    return tuple(comparisons)


@cache
def _texts() -> tuple[str, ...]:
    """The files, sorted by name."""
    names = sorted(file.name for file in files(__name__).iterdir() if file.name.endswith(".yaml"))
    return tuple(read_catalog_text(f"grader_validation/{name}") for name in names)


@cache
def _parse(text: str) -> tuple[Comparison, ...]:
    return _File.model_validate(parse_catalog(text)).checks


def list_task_comparisons(task: str) -> tuple[Comparison, ...]:
    """The comparisons that carry the status of a task; none for a task of the user's own.

    Only files that name it are parsed.
    """
    return tuple(check for text in _texts() if task in text for check in _parse(text) if task in check.tasks)


def find_format_status(task: str) -> _Status:
    """What a task's idea of the rows rests on: ``seen`` where Meta's own rows went through it, ``documented`` where
    there is another comparison of the format, else ``assumed``. The template's ``format:`` says the same.
    """
    comparisons = list_task_comparisons(task)
    if any(check.saw_rows for check in comparisons):
        return "seen"
    return "documented" if any(check.aspect == "format" for check in comparisons) else "assumed"


def find_grading(task: str, verdict: str) -> Comparison | None:
    """The comparison that says most of a task's verdicts: one that proves them before any other, then one on real
    answers, and among equals the one over most answers.

    Args:
        task: The task.
        verdict: The metric that is its verdict, ``metric,filter``; what was compared by another one says nothing of it.

    Returns:
        None where nothing was compared by that metric, on answers that no rule was read off.
    """
    comparisons = [
        check for check in list_task_comparisons(task) if check.judges_by(verdict) and check.evidence.answers
    ]
    return max(comparisons, key=lambda check: (check.proves(verdict), check.real, check.evidence.answers), default=None)


@cache
def _same_graders() -> Mapping[str, str]:
    graders: dict[str, str] = read_catalog("same_graders.yaml")
    return graders


def find_same_grader(task: str) -> str | None:
    """The compared task whose grader a task has, of whose own verdicts none were compared; None if there is none."""
    return _same_graders().get(task)


def find_trust(task: str, verdict: str) -> Trust:
    """How far the verdicts of a task are proven. A task with the grader of a compared task has a verified or a compared
    grader.

    Args:
        task: The task.
        verdict: The metric that is its verdict, ``metric,filter``.
    """
    if check := find_grading(task, verdict):
        return "verified" if check.proves(verdict) else "compared"
    other = find_same_grader(task)
    if other and (check := find_grading(other, verdict)):
        return "with a verified grader" if check.proves(verdict) else "with a compared grader"
    return "never compared"


def describe_grading(task: str, verdict: str) -> str:
    """``verified on 1,324 answers``, ``compared on 4,000 cases``, ``grader of meta_math_hard`` or ``-``."""
    check = find_grading(task, verdict)
    if check is None:
        other = find_same_grader(task)
        return f"grader of {other}" if other and find_grading(other, verdict) else "-"
    word = "verified" if check.proves(verdict) else "compared"
    return f"{word} on {check.evidence.answers:,} {'answers' if check.real else 'cases'}"

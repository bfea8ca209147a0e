"""Conditions of a gate on the answers of a run, apart from scores.

A condition is a row of `CONDITIONS`: its key under ``limits`` of ``gate.yaml``, the answers that it counts, and the
effect on the decision if a task has more of them than allowed. Only conditions in the gate apply. A row counts answers
of the run, not of the baseline. A plug-in adds rows by its evidence (`meta_eval.judge.evidence`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from meta_eval.harness.doc_results import DocResult
from meta_eval.judge.decision import AlarmOccurrence
from meta_eval.judge.evidence import list_evidence

# The effect on the decision, as the kind of its alarm (`meta_eval.judge.alarms`).
Severity = Literal["gate failed", "gate not met"]


@dataclass(frozen=True, slots=True)
class Condition:
    """A property that at most a share of a task's answers may have.

    Attributes:
        key: Its name under ``limits``; the value is the largest share, in percent.
        counted: The answers that it counts, in words for messages and pages.
        severity: The effect of too many: DON'T SHIP (``gate failed``), or no SHIP (``gate not met``).
        check: Whether a doc's answer by a filter is counted; None if unknown.
    """

    key: str
    counted: str
    severity: Severity
    check: Callable[[DocResult, str], bool | None]


def is_unextracted(doc: DocResult, filter_name: str) -> bool | None:
    """Whether a filter found nothing in the answer; None if unknown."""
    answer = doc.filter_results.get(filter_name)
    return None if answer is None else answer.is_unextracted


CONDITIONS = (
    Condition("unextracted", "answers in which nothing was found to grade", "gate failed", is_unextracted),
    Condition(
        "cut",
        "answers that reached the token limit",
        "gate not met",
        lambda doc, _: doc.is_cut_thinking or doc.limit_hit,
    ),
    Condition(
        "empty", "empty answers, and likelihoods that are no numbers", "gate not met", lambda doc, _: doc.is_unanswered
    ),
)


def list_conditions() -> tuple[Condition, ...]:
    """All conditions: those of the core, then those of plug-ins."""
    return (*CONDITIONS, *(condition for evidence in list_evidence().values() for condition in evidence.conditions))


def check_conditions(
    task: str, docs: Sequence[DocResult], filter_name: str, limits: Mapping[str, float]
) -> Iterator[tuple[Severity, AlarmOccurrence]]:
    """The limits of a gate that a run of a task exceeds or may exceed, grouped by severity.

    Args:
        task: Its name.
        docs: The docs of the run.
        filter_name: The filter of its verdicts.
        limits: The largest allowed share by key of a condition, in percent.
    """
    notes: dict[Severity, list[str]] = {}
    is_core = limits.keys() <= {condition.key for condition in CONDITIONS}
    for condition in CONDITIONS if is_core else list_conditions():
        if condition.key in limits and docs:
            for severity, note in _compare_share(condition, docs, filter_name, limits[condition.key]):
                notes.setdefault(severity, []).append(note)
    for severity, clauses in notes.items():
        yield severity, AlarmOccurrence(task, note="; ".join(clauses))


def _compare_share(
    condition: Condition, docs: Sequence[DocResult], filter_name: str, limit: float
) -> Iterator[tuple[Severity, str]]:
    marks = [condition.check(doc, filter_name) for doc in docs]
    count, unknown = marks.count(True), marks.count(None)
    allowed = f"{condition.counted}, and {limit:g} % are allowed"
    if 100 * count > limit * len(docs):
        yield condition.severity, f"{count:,} of {len(docs):,} are {allowed}"
    elif 100 * (count + unknown) > limit * len(docs):
        yield "gate not met", f"of {unknown:,} of {len(docs):,} it is not known whether they are {allowed}"

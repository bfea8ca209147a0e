"""Alarms: their kinds, the rules for docs that raise them, and what they happened to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from meta_eval.harness.doc_results import DocResult

# The effect on the decision, as the kind of its alarm (`meta_eval.judge.alarms`).
Severity = Literal["gate failed", "gate not met"]


# A doc of the baseline, and the same doc of the candidate.
DocPair = tuple[DocResult, DocResult]


@dataclass(frozen=True, slots=True)
class AlarmOccurrence:
    """A task that an alarm is about."""

    task: str | None
    """Its name; None for the whole run."""

    run: str | None = None
    """``A`` or ``B``, where two are compared; ``the baseline`` where the candidate stands beside a record."""

    count: int | None = None
    """Docs that it is true of; None where it is of the whole task."""

    of: int | None = None
    """The number of docs that were looked at."""

    note: str | None = None
    """What else there is to say, a clause."""

    veto: bool = True
    """Whether this forbids SHIP."""


@dataclass(frozen=True, slots=True)
class DocsAbove:
    """A rule of an alarm: more than a share of the docs of a run have a fault."""

    has: Callable[[DocResult, str], bool | None]
    """Takes a doc and the filter of the task's verdict: whether the doc has the fault. A doc of which that is not known
    (None) does not count."""

    above: float
    """The largest share of docs that raises no alarm."""

    grave: float = 0.0
    """Above this share the alarm forbids SHIP. At 0 it does wherever it is raised."""

    beside: bool = False
    """Whether the share of the other side is taken off first. Where nothing is known of its answers, nothing is taken
    off."""

    beyond_chance: bool = False
    """Whether it forbids SHIP only where so many are more than chance brings at this share (one-sided, p < 5 %)."""

    metric: str | None = None
    """The logged metric that says so. Where no doc has it, none has the fault."""

    of_candidate: bool = False
    """Whether the candidate alone raises it, and with ``beside`` only where the answers of the baseline are known. Else
    a baseline with more faults raises it too."""


@dataclass(frozen=True, slots=True)
class AlarmKind:
    """A way in which runs go wrong."""

    name: str
    """What is wrong, in a few words."""

    hint: str
    """What it means or what to do, one sentence."""

    flag: str | None = None
    """The flag under which the table of samples finds these docs; None where it cannot."""

    first: bool = False
    """Whether it is stated before all scores."""

    fails: bool = False
    """Whether a veto means DON'T SHIP, not only no SHIP."""

    invalid: bool = False
    """Whether it makes a comparison invalid, so that it says nothing about the model."""

    docs: DocsAbove | None = None
    """The rule that raises it, where faults of docs do. Functions raise other kinds."""


# The kind, as `meta_eval.judge.alarms.KINDS` names it or the name of a kind of a plug-in, and what happened.
RaisedAlarm = tuple[str, AlarmOccurrence]


@dataclass(frozen=True, slots=True)
class Alarm:
    """One way in which runs go wrong, and the tasks that it happened to: said before any score."""

    kind: str
    """What is wrong, in a few words: ``empty answers``."""

    hint: str
    """What it means or what to do, one sentence."""

    flag: str | None
    """The flag under which the table of samples finds these docs; None where it cannot."""

    tasks: tuple[AlarmOccurrence, ...]
    """In the order of the report."""

    json_also: ClassVar = ("veto",)

    @property
    def veto(self) -> bool:
        return any(task.veto for task in self.tasks)


@dataclass(frozen=True, slots=True)
class Condition:
    """A property that at most a share of a task's answers may have."""

    key: str
    """Its name under ``limits``; the value is the largest share, in percent."""

    counted: str
    """The answers that it counts, in words for messages and pages."""

    severity: Severity
    """The effect of too many: DON'T SHIP (``gate failed``), or no SHIP (``gate not met``)."""

    check: Callable[[DocResult, str], bool | None] | None = None
    """Whether a doc's answer by a filter is counted; None if unknown."""

    compare: Callable[[DocResult, DocResult, str], bool | None] | None = None
    """Instead of ``check``: whether a doc is counted by the answers of baseline and candidate; unknown without a
    baseline.
    """

    def mark(self, docs: Sequence[DocResult], pairs: Sequence[DocPair], filter_name: str) -> list[bool | None]:
        """Whether each doc is counted.

        Args:
            docs: The docs of a run.
            pairs: Those that the baseline answered too; empty if it has no answers.
            filter_name: The filter of the verdicts.
        """
        if self.compare is not None:
            return [self.compare(*pair, filter_name) for pair in pairs] or [None] * len(docs)
        return [self.check(doc, filter_name) if self.check else None for doc in docs]


def is_unextracted(doc: DocResult, filter_name: str) -> bool | None:
    """Whether a filter found nothing in the answer; None if unknown."""
    answer = doc.filter_results.get(filter_name)
    return None if answer is None else answer.is_unextracted

"""What a report says, as plain frozen data. Whoever shows a report reads only this.

All scores, bounds, differences and published numbers are shares from 0 to 1; renderers write percent and points.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Verdict = Literal["holds", "below", "above", "cannot say"]
Outcome = Literal["GO", "NO-GO", "INCONCLUSIVE"]


@dataclass(frozen=True, slots=True)
class Published:
    """A published number and what it is a number of.

    ``comparable`` is False where no score of this run may be put beside it: it is then named, with the reason, and
    shown in no table and no plot.
    """

    value: float
    benchmark: str
    metric: str | None
    averaging: str | None
    shots: str | None
    comparable: bool
    source: str
    note: str | None


@dataclass(frozen=True, slots=True)
class Score:
    """One metric of one task.

    Attributes:
        metric: ``metric,filter`` as lm-eval names it.
        averaging: ``micro``, ``macro``, ``mean of four`` …; in words. Of a task of no pack that has several metrics
            the metric.
        n: Docs that it is the score of; None where nobody wrote it down.
        value: The score; None where the run has none.
        low: Lower bound of its 95 % interval; None where there is no interval, and so ``high``.
        high: Upper bound.
        published: The number beside which it may stand; None where there is none.
        difference: ``value`` minus the published number; None where they are not to be compared.
        difference_low: Lower bound of its 95 % interval.
        difference_high: Upper bound.
        paired: Whether the difference was taken doc by doc, against Meta's recorded verdicts.
        smallest: The smallest difference that this many docs would have shown with a power of 80 %.
        verdict: What follows.
        reason: Why, a clause; None where the numbers say it.
    """

    metric: str
    averaging: str
    n: int | None
    value: float | None
    low: float | None
    high: float | None
    published: Published | None
    difference: float | None
    difference_low: float | None
    difference_high: float | None
    paired: bool
    smallest: float | None
    verdict: Verdict
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Alarm:
    """How a run goes wrong: said before any score.

    Attributes:
        kind: A short name: ``unextracted``, ``limit hit``, ``below chance`` …
        text: One sentence.
        count: Docs that it is of; None where it is of the whole task.
        flag: The flag under which the table of samples finds these docs; None where it cannot.
    """

    kind: str
    text: str
    count: int | None = None
    flag: str | None = None


@dataclass(frozen=True, slots=True)
class Paired:
    """Two verdicts on the same docs: ours beside Meta's recorded one, or B's beside A's.

    Attributes:
        first: Whose verdict the first is: ``ours``, or A's label.
        second: Whose the second is: ``Meta's``, or B's label.
        compared: Docs with both.
        agreed: Docs on which they agree.
        first_only: Docs to which only the first gives the point (of other scores: to which it gives the higher one).
        second_only: The other way round.
        difference: Mean of first minus second; of B minus A in a comparison. None where nothing was compared.
        low: Lower bound of its 95 % interval; None where there is none.
        high: Upper bound.
        p: Two-sided, of no difference: exact McNemar, of other scores than yes and no the paired t test. In a
            comparison that of the drop whose interval is shown, corrected for the number of tasks.
        smallest: The smallest difference that this many docs would have shown with a power of 80 %.
    """

    first: str
    second: str
    compared: int
    agreed: int
    first_only: int
    second_only: int
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    smallest: float | None = None


@dataclass(frozen=True, slots=True)
class Subtask:
    """One subtask.

    Attributes:
        name: Its name.
        n: Its docs.
        value: The score.
        other: On the same docs the score of the other, Meta's recorded one or A's; None where there is none.
        clear: Whether the difference is larger than chance alone would make it.
    """

    name: str
    n: int
    value: float
    other: float | None
    clear: bool


@dataclass(frozen=True, slots=True)
class Average:
    """lm-eval's own average, of a task in a metric that is no share (perplexity, BLEU) or of a group.

    Attributes:
        name: The task or group.
        metric: ``metric,filter`` as lm-eval names it.
        value: The average; of a share from 0 to 1.
        low: Lower bound of its 95 % interval, by lm-eval's standard error; None where it gave none, and so ``high``.
        high: Upper bound.
        share: Whether it is a share, which renderers write in percent.
    """

    name: str
    metric: str
    value: float
    low: float | None
    high: float | None
    share: bool


@dataclass(frozen=True, slots=True)
class Task:
    """One task of a report.

    Attributes:
        name: The task.
        subset: The details subset that its docs come from.
        verdict: The one word on it.
        sentence: That in one sentence, with the numbers.
        docs: Docs that were scored.
        prepared: Docs of the pack; None where no pack was named.
        scores: Each metric that answers a published number, in the order of the task.
        alarms: What went wrong.
        paired: Beside Meta's recorded verdicts, or B beside A; None where there are none.
        gaps: Known reasons why a number may differ, a sentence each.
        subtasks: By name; empty where there is only one.
        recovery: A comparison's B in percent of A, as a share; None elsewhere, as its bounds.
        averages: Its metrics that are no shares.
    """

    name: str
    subset: str | None
    verdict: Verdict
    sentence: str
    docs: int
    prepared: int | None
    scores: tuple[Score, ...] = ()
    alarms: tuple[Alarm, ...] = ()
    paired: Paired | None = None
    gaps: tuple[str, ...] = ()
    subtasks: tuple[Subtask, ...] = ()
    recovery: float | None = None
    recovery_low: float | None = None
    recovery_high: float | None = None
    averages: tuple[Average, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """Where numbers come from: a label, the model, and facts (``lm-eval``: ``0.4.13`` …) in the order to show them."""

    label: str
    model: str
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Gate:
    """What a gate decided; ``lines`` is one (what, outcome, why) a rule."""

    outcome: Outcome
    lines: tuple[tuple[str, Outcome, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """One report of a run, or of two that are compared (``kind``).

    Attributes:
        title: The model, or both.
        summary: The whole in one sentence.
        notes: What the reader must know of the files that were read.
        missing: Prepared tasks without a result.
        totals: What lm-eval averaged over groups of tasks.
    """

    kind: Literal["report", "compare"]
    title: str
    summary: str
    runs: tuple[Run, ...]
    tasks: tuple[Task, ...]
    gate: Gate | None = None
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    totals: tuple[Average, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The whole as plain JSON data; ``exit_code`` included."""
        tree: dict[str, Any] = {"schema_version": 1, **dataclasses.asdict(self), "exit_code": self.exit_code}
        for run in tree["runs"]:
            run["facts"] = dict(run["facts"])
        return tree

    @property
    def exit_code(self) -> int:
        """0 without a gate or GO, 1 NO-GO, 3 INCONCLUSIVE."""
        return {"GO": 0, "NO-GO": 1, "INCONCLUSIVE": 3}[self.gate.outcome] if self.gate else 0


@dataclass(frozen=True, slots=True)
class Answer:
    """One run's answer to one doc.

    Attributes:
        verdict: From 0 to 1.
        text: What was generated; of a choice the likelihoods, one line a continuation.
        extracted: What was taken for the answer; None where the whole is graded or nothing was found.
        flags: ``unextracted``, ``limit hit``, ``empty``, ``ungraded``: what is so.
        tokens: Its length in tokens; None where nobody can count them, and of a choice.
        limit: The tokens that it was allowed; None where nobody wrote that down.
        likelihoods: Whether the text is the likelihoods of a choice, and so has no length to speak of.
    """

    verdict: float
    text: str
    extracted: str | None
    flags: tuple[str, ...] = ()
    tokens: int | None = None
    limit: int | None = None
    likelihoods: bool = False


@dataclass(frozen=True, slots=True)
class Sample:
    """One doc with all its texts: what the table of samples shows.

    Attributes:
        answers: One, or A's and B's.
        meta: Meta's recorded verdict, 0 to 1; None where there is none.
        meta_text: Meta's recorded answer, of a choice the recorded likelihoods; None where there is none.
        meta_tokens: Its length in tokens; None where nobody can count them.
    """

    task: str
    subtask: str | None
    doc: int
    question_hash: str
    question: str
    prompt: str
    gold: str
    answers: tuple[Answer, ...]
    meta: float | None = None
    meta_text: str | None = None
    meta_tokens: int | None = None
    metrics: Mapping[str, Any] = dataclasses.field(default_factory=dict)

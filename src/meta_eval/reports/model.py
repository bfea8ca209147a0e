"""A report: what was judged, and where it comes from. Views read only this and `meta_eval.judge.decision`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from meta_eval.judge.decide import Decision, RunDecision
from meta_eval.judge.decision import META, LmEvalAverage, RepeatPlan, TaskDecision
from meta_eval.judge.evidence import NamedFindings
from meta_eval.reports import breakdown_table
from meta_eval.reports.text import write_headline
from meta_eval.stats import Drop, Interval

if TYPE_CHECKING:
    from meta_eval.reports.document import Document

# 2: decisions with drops in the place of verdicts and a gate; alarms by kind; an interval is an object.
SCHEMA_VERSION = 3

# The name of a model that no file names.
UNKNOWN_MODEL = "unknown model"


@dataclass(frozen=True, slots=True)
class RunProvenance:
    """Where numbers come from: a label, the model, and names with values
    (``lm-eval``: ``0.4.13`` …) in the order to show them.

    ``folder`` is the place of its files as the command line named it. It tells A from B if both are of the same model.
    ``seconds`` is the median time from a request to its answer, and ``cost`` that of all answers in the unit of the
    given prices; None if unknown.
    """

    label: str
    model: str
    provenance: tuple[tuple[str, str], ...]
    folder: str | None = None
    seconds: float | None = None
    cost: float | None = None


def tell_runs_apart(runs: Sequence[RunProvenance]) -> list[str]:
    """What tells runs apart: the end of their folders from where they differ, else their files, else their models."""
    parts = [Path(run.folder).parts if run.folder else () for run in runs]
    shared = next((at for at, ones in enumerate(zip(*parts, strict=False)) if len(set(ones)) > 1), min(map(len, parts)))
    if all(len(part) > shared for part in parts):
        return [str(Path(*part[shared:])) for part in parts]
    files = [dict(run.provenance).get("results") for run in runs]
    files_differ = len(set(files)) == len(files)
    return [(file if files_differ else None) or run.folder or run.model for file, run in zip(files, runs, strict=True)]


@dataclass(frozen=True, slots=True)
class VerdictOwner:
    """The owner of a verdict: ``B``; in full ``B · results_fp8``; and a description."""

    label: str
    full_label: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(RunDecision):
    """What is decided of a run, or of two that are compared, and where it comes from."""

    document_type: Literal["report", "compare"]
    """Whether it is of a run, or of two that are compared."""

    title: str
    """The model, or both."""

    runs: tuple[RunProvenance, ...]
    """Where the numbers come from."""

    group_averages: tuple[LmEvalAverage, ...] = ()
    """What lm-eval averaged over groups of tasks, and what a board would show."""

    exit_follows_decision: bool = False
    """Whether the exit code follows the decision."""

    evidence: tuple[NamedFindings, ...] = ()
    """What the evidence of plug-ins found."""

    @property
    def summary(self) -> str:
        """The result in one line."""
        return write_headline(self.decision)

    @property
    def baseline_owner(self) -> str:
        """Whose recorded answers and verdicts stand beside the run's: ``Meta's`` or ``the record's``; else ``the
        baseline's``. In a comparison A is the baseline, so that what its docs hold is the record's."""
        if self.document_type != "report":
            return "the record's"
        return next((task.flips.baseline for task in self.tasks if task.flips), "the baseline's")

    @property
    def baseline_owner_recorded(self) -> str:
        """The same before *answers* or *verdicts*: ``Meta's recorded``, or ``the record's``."""
        return f"{META} recorded" if self.baseline_owner == META else self.baseline_owner

    @property
    def sides(self) -> tuple[VerdictOwner, VerdictOwner]:
        """Whose the two verdicts on each doc are."""
        if self.document_type != "compare":
            owner = self.baseline_owner
            label = owner.removeprefix("the ").removesuffix("'s") if owner != META else owner
            other = VerdictOwner(label, f"{owner}, recorded", f"{self.baseline_owner_recorded} answers")
            return VerdictOwner("ours", "ours", "this run"), other
        first, second = (
            VerdictOwner(
                run.label,
                f"{run.label} · {name}",
                f"{run.label}: {run.model}, from {run.folder or 'an unknown folder'}",
            )
            for run, name in zip(self.runs, tell_runs_apart(self.runs), strict=True)
        )
        return first, second

    @property
    def published_label(self) -> str:
        """What the scores stand beside: ``published numbers``, or of a recorded run its ``recorded scores``; else the
        empty text."""
        numbers = [score.reference for task in self.tasks for score in task.scores if score.reference]
        if not numbers:
            return ""
        return "recorded scores" if all(number.origin == "recorded" for number in numbers) else "published numbers"

    @property
    def exit_code(self) -> int:
        """0, or where the report is a gate 0 for SHIP, 1 for DON'T SHIP, 3 for UNDECIDED."""
        return self.decision.exit_code if self.exit_follows_decision else 0

    def document(self, samples: Callable[[], Iterable[ShownSample]] = tuple) -> Document:
        """The document that views show.

        Args:
            samples: Reads the docs with their texts.
        """
        from meta_eval.reports.report_document import report_document

        return report_document(self, samples)

    def to_json(self) -> dict[str, Any]:
        """The whole as plain JSON data; scores, drops and bounds are from 0 to 1."""
        return {
            "schema_version": SCHEMA_VERSION,
            "document_type": self.document_type,
            "title": self.title,
            "summary": self.summary,
            "decision": _decision(self.decision),
            "runs": [
                {"label": run.label, "model": run.model, "folder": run.folder, "provenance": dict(run.provenance)}
                for run in self.runs
            ],
            "alarms": [{**_plain(alarm), "veto": alarm.veto} for alarm in self.alarms],
            "tasks": [_task(task) for task in self.tasks],
            "drop_breakdown": breakdown_table.make_json(self.drop_breakdown) if self.drop_breakdown else None,
            "notes": list(self.notes),
            "group_averages": [_plain(average) for average in self.group_averages],
            **{named.name: named.findings.json for named in self.evidence if named.findings.json is not None},
            "exit_follows_decision": self.exit_follows_decision,
            "exit_code": self.exit_code,
        }


def _decision(decision: Decision) -> dict[str, Any]:
    return {
        "outcome": decision.outcome,
        "margin": decision.margin,
        "weights": decision.weighting,
        "mean": _drop(decision.mean, decision.interval) if decision.mean and decision.interval else None,
        "unweighted_mean": _drop(decision.unweighted_mean, decision.unweighted_interval)
        if decision.unweighted_mean and decision.unweighted_interval
        else None,
        "left_out": decision.left_out,
        "heterogeneity_p": decision.heterogeneity_p,
        "invalid": decision.invalid,
        "caveats": list(decision.caveats),
        "reasons": list(decision.reasons),
        "vetoes": [veto.reason for veto in decision.vetoes],
        "repeats_needed": _plan_json(decision.repeats_needed),
    }


def _task(task: TaskDecision) -> dict[str, Any]:
    tree = {name: getattr(task, name) for name in ("name", "subset", "outcome", "docs", "prepared", "runs")}
    tree |= {
        name: getattr(task, name) for name in ("metric", "baseline_label", "not_compared_reason", "fallback_reason")
    }
    tree["drop"] = _task_drop(task) if task.is_decided else None
    tree["own_unit"] = _plain(task.own_unit) if task.own_unit else None
    tree["scores"] = [_plain(score) for score in task.scores]
    tree["metrics"] = [_plain(metric) for metric in task.metrics]
    tree["flips"] = {**_plain(task.flips), "agreed": task.flips.agreed} if task.flips else None
    if task.noise is not None:
        tree["noise"] = {**_plain(task.noise), "flipped": task.noise.flipped}
    tree["drop_breakdown"] = breakdown_table.make_json(task.drop_breakdown) if task.drop_breakdown else None
    tree["cut"] = _plain(task.cut) if task.cut else None
    tree["sampling"] = _plain(task.sampling) if task.sampling else None
    tree |= {name: [_plain(part) for part in getattr(task, name)] for name in ("subtasks", "averages")}
    tree["figures"] = {"candidate": dict(task.candidate_figures), "baseline": dict(task.baseline_figures)}
    tree["gaps"] = list(task.gaps)
    tree["members"] = list(task.members)
    return tree


def _task_drop(task: TaskDecision) -> dict[str, Any]:
    recovery = task.drop.recovery_interval()
    return {
        **_drop(task.drop, task.interval),
        **{
            name: getattr(task, name)
            for name in ("margin", "cap", "p", "p_corrected", "detectable_drop", "weight", "remark")
        },
        "paired": task.drop.paired,
        "docs": task.drop.docs,
        "clusters": task.drop.clusters,
        "recovery": task.drop.recovery,
        "recovery_interval": None if recovery is None else _plain(recovery),
        "repeats_needed": _plan_json(task.repeats_needed),
    }


def _drop(drop: Drop, interval: Interval) -> dict[str, Any]:
    return {
        "value": drop.value,
        "interval": _plain(interval),
        "has_run_effect": drop.has_run_effect,
        "baseline": drop.baseline,
        "candidate": drop.candidate,
    }


def _plan_json(plan: RepeatPlan | None) -> dict[str, Any] | None:
    return None if plan is None else {**_plain(plan), "runs": dict(plan.runs)}


def _plain(value: Any) -> dict[str, Any]:
    return dataclasses.asdict(value)


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """The answer of a run to a doc.

    Attributes:
        verdict: From 0 to 1.
        text: The generated text. For a choice the likelihoods, a line per continuation.
        extracted: What was taken for the answer; None where the whole is graded or nothing was found.
        flags: ``unextracted``, ``limit hit``, ``empty``, ``ungraded``, ``other prompt``: what is so.
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
class ShownSample:
    """One doc with all its texts: what the table of samples shows.

    Attributes:
        answers: One, or A's and B's.
        recorded_verdict: The verdict on Meta's recorded answer, 0 to 1; None where there is none.
        recorded_text: Meta's recorded answer, of a choice the recorded likelihoods; None where there is none.
        recorded_tokens: Its length in tokens; None where nobody can count them.
    """

    task: str
    subtask: str | None
    doc: int
    question_hash: str
    question: str
    prompt: str
    gold: str
    answers: tuple[ShownAnswer, ...]
    recorded_verdict: float | None = None
    recorded_text: str | None = None
    recorded_tokens: int | None = None
    metrics: Mapping[str, Any] = dataclasses.field(default_factory=dict)

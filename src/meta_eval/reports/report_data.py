"""What a report holds, for its tables and as JSON: what is decided of a run or of two, and where it comes from."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from meta_eval.judge.decide import Decision, RunDecision
from meta_eval.judge.decision import META, LmEvalAverage, RepeatPlan, TaskDecision
from meta_eval.judge.evidence import NamedFindings
from meta_eval.reports.document import RunProvenance, VerdictOwner
from meta_eval.reports.text import write_headline
from meta_eval.stats import Drop, Interval
from meta_eval.stats.breakdown import DropBreakdown, DropPart

# 2: decisions with drops in the place of verdicts and a gate; alarms by kind; an interval is an object.
SCHEMA_VERSION = 3


def shorten_folders(folders: Sequence[str]) -> list[str]:
    """The shortest end of each folder that no other has, and never a whole path from the root of the disk."""
    parts = [[part for part in folder.split("/") if part] or ["/"] for folder in folders]
    others = [*map(list, dict.fromkeys(map(tuple, parts)))]  # the baseline may be a candidate, too
    return [
        next(
            (
                "/".join(of[-depth:])
                for depth in range(1, len(of))
                if sum(other[-depth:] == of[-depth:] for other in others) == 1
            ),
            "/".join(of),
        )
        for of in parts
    ]


def tell_runs_apart(runs: Sequence[RunProvenance]) -> list[str]:
    """What tells runs apart: the end of their folders, else their files, else their models."""
    folders = [run.folder for run in runs if run.folder]
    if len(set(folders)) == len(runs):
        return shorten_folders(folders)
    files = [dict(run.provenance).get("results") for run in runs]
    files_differ = len(set(files)) == len(files)
    short = [run.folder and shorten_folders([run.folder])[0] for run in runs]
    return [
        (file if files_differ else None) or folder or run.model
        for file, folder, run in zip(files, short, runs, strict=True)
    ]


def title_two_runs(a: RunProvenance, b: RunProvenance) -> str:
    """Name both models. If the names are equal, name what tells the runs apart."""
    first, second = tell_runs_apart((a, b))
    if a.model != b.model or first == second:
        return f"{b.model or 'B'} (B) beside {a.model or 'A'} (A)"
    return f"{a.model}: {second} (B) beside {first} (A)" if a.model else f"{second} (B) beside {first} (A)"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportData(RunDecision):
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
                f"{run.label} is {run.model}, from {name if run.folder else 'an unknown folder'}",
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
            "drop_breakdown": _breakdown_json(self.drop_breakdown) if self.drop_breakdown else None,
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
    tree["drop_breakdown"] = _breakdown_json(task.drop_breakdown) if task.drop_breakdown else None
    tree["cut"] = _plain(task.cut) if task.cut else None
    tree["sampling"] = _plain(task.sampling) if task.sampling else None
    tree |= {name: [_plain(part) for part in getattr(task, name)] for name in ("subtasks", "averages")}
    tree["figures"] = {"candidate": dict(task.candidate_figures), "baseline": dict(task.baseline_figures)}
    tree["gaps"] = list(task.gaps)
    tree["members"] = list(task.members)
    return tree


def _breakdown_json(parts: DropBreakdown) -> dict[str, Any]:
    """As plain JSON data, from -1 to 1; a part that nothing tells is null, ``rest`` is model and prompts together."""
    parts_by_name = {
        "total": parts.total,
        "grader": parts.grader,
        "model": parts.model,
        "prompts": parts.prompts,
        "rest": parts.rest,
    }
    counts = {name: getattr(parts, name) for name in ("docs", "regraded", "changed", "docs_with_other_prompt")}
    return {**{name: None if part is None else _part_json(part) for name, part in parts_by_name.items()}, **counts}


def _part_json(part: Drop | DropPart) -> dict[str, Any]:
    interval: Any = part.interval() if callable(part.interval) else part.interval
    return {"value": part.value, "interval": {"lower": interval.lower, "upper": interval.upper}}


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

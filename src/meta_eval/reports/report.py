"""A report: what is decided of a run or of two, where it comes from, and the same as JSON."""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from meta_eval.base.display import visible
from meta_eval.base.hashing import hash_file
from meta_eval.harness.lm_eval_run import Run
from meta_eval.harness.provenance import Provenance
from meta_eval.judge.decide import Decision, RunDecision
from meta_eval.judge.decision import META, LmEvalAverage, RepeatPlan, TaskDecision
from meta_eval.judge.evidence import NamedFindings
from meta_eval.judge.figures import list_averages
from meta_eval.judge.groups import compute_group_scores
from meta_eval.pack.manifest import MANIFEST, Manifest
from meta_eval.reports.text import format_cost, write_headline
from meta_eval.stats import Drop, Interval
from meta_eval.stats.breakdown import DropBreakdown, DropPart

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


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """The answer of a run to a doc."""

    verdict: float
    """From 0 to 1."""

    text: str
    """The generated text. For a choice the likelihoods, a line per continuation."""

    extracted: str | None
    """What was taken for the answer; None where the whole is graded or nothing was found."""

    flags: tuple[str, ...] = ()
    """``unextracted``, ``limit hit``, ``empty``, ``ungraded``, ``other prompt``: what is so."""

    tokens: int | None = None
    """Its length in tokens; None where nobody can count them, and of a choice."""

    limit: int | None = None
    """The tokens that it was allowed; None where nobody wrote that down."""

    likelihoods: bool = False
    """Whether the text is the likelihoods of a choice, and so has no length to speak of."""

    metrics: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """What each metric gave it, by ``METRIC,FILTER``."""


@dataclass(frozen=True, slots=True)
class ShownSample:
    """One doc with all its texts: what the table of samples shows."""

    task: str
    subtask: str | None
    doc: int
    question_hash: str
    question: str
    prompt: str
    gold: str
    answers: tuple[ShownAnswer, ...]
    """One, or A's and B's."""

    recorded_verdict: float | None = None
    """The verdict on Meta's recorded answer, 0 to 1; None where there is none."""

    recorded_text: str | None = None
    """Meta's recorded answer, of a choice the recorded likelihoods; None where there is none."""

    recorded_tokens: int | None = None
    """Its length in tokens; None where nobody can count them."""


def build_report(
    run: Run,
    judged: RunDecision,
    *,
    pack: Path | None = None,
    manifest: Manifest | None = None,
    exit_follows_decision: bool = False,
    evidence: Sequence[NamedFindings] = (),
) -> Report:
    """Build the report of a run and its pack."""
    totals = [list_averages(group.name, group.aggregates) for group in run.groups.values() if not run.repeats]
    if manifest is not None:
        totals.append(compute_group_scores(manifest, run.tasks))
    facts = _describe_run("this run", run, run.tasks, pack, manifest)
    return Report(
        document_type="report",
        title=facts.model,
        decision=judged.decision,
        runs=(facts,),
        tasks=tuple(task for task in judged.tasks if task.name in run.tasks or task.members),
        alarms=judged.alarms,
        notes=(*run.notes, *judged.notes, *_list_notes(evidence)),
        group_averages=tuple(average for group in totals for average in group),
        exit_follows_decision=exit_follows_decision,
        evidence=tuple(evidence),
        drop_breakdown=judged.drop_breakdown,
    )


def build_report_of_two(
    judged: RunDecision,
    baseline: Run,
    candidate: Run,
    *,
    exit_follows_decision: bool = False,
    evidence: Sequence[NamedFindings] = (),
) -> Report:
    """The report of two runs: A, the baseline, and B."""
    labelled = {"A": baseline, "B": candidate}
    tasks = [task.name for task in judged.tasks]
    runs = tuple(_describe_run(label, run, tasks) for label, run in labelled.items())
    notes = (f"{label}: {note}" for label, run in labelled.items() for note in run.notes)
    return Report(
        document_type="compare",
        title=title_two_runs(*runs),
        decision=judged.decision,
        runs=runs,
        tasks=judged.tasks,
        alarms=judged.alarms,
        notes=(*notes, *judged.notes, *_list_notes(evidence)),
        exit_follows_decision=exit_follows_decision,
        evidence=tuple(evidence),
        drop_breakdown=judged.drop_breakdown,
    )


def _list_notes(evidence: Iterable[NamedFindings]) -> list[str]:
    return [note for named in evidence for note in named.findings.notes]


def _describe_run(
    label: str, run: Run, tasks: Iterable[str], pack: Path | None = None, manifest: Manifest | None = None
) -> RunProvenance:
    provenances = _provenances(run, tasks)
    files = list({provenance.results_file: provenance for provenance in provenances}.values())
    seconds = sorted(file.median_seconds for file in files if file.median_seconds is not None)
    costs = [file.cost for file in files if file.cost is not None]
    return RunProvenance(
        label, _model_name(run), _facts(provenances, pack, manifest), _folder(run),
        seconds[len(seconds) // 2] if seconds else None, sum(costs) if costs else None,
    )  # fmt: skip


def _provenances(run: Run, tasks: Iterable[str]) -> list[Provenance]:
    return [result.provenance for task in tasks for result in run.all_runs(task)]


def _model_name(run: Run) -> str:
    models = dict.fromkeys(result.provenance.model for result in run.tasks.values())
    return ", ".join(visible(name) for name in models if name) or UNKNOWN_MODEL


def _folder(run: Run) -> str | None:
    """The folder of all files of a run, relative to this one, without the subfolder of a model."""
    results = [result for task in run.tasks for result in run.all_runs(task)]
    files = [
        file for result in results for file in (result.samples_file, result.provenance.results_file) if file is not None
    ]
    if not files:
        return None
    folder = Path(os.path.commonpath([file.parent for file in files]))
    models = {str(result.provenance.model).replace("/", "__") for result in results}
    folder = (folder.parent if folder.name in {*models, "None"} else folder).resolve()
    here = Path.cwd().resolve()
    return visible(str(folder.relative_to(here) if here in folder.parents else folder))


def _facts(
    provenances: Sequence[Provenance], pack: Path | None, manifest: Manifest | None
) -> tuple[tuple[str, str], ...]:
    """Name and value, in the order to show them; a value that differs among results files is each of them."""
    files = {provenance.results_file: provenance for provenance in provenances if provenance.results_file is not None}
    seconds = [provenance.duration_s for provenance in files.values() if provenance.duration_s is not None]
    dates = sorted(provenance.date for provenance in files.values() if provenance.date)
    facts: dict[str, list[str | None]] = {}
    if pack is not None and manifest is not None:
        digest = hash_file(pack / MANIFEST)
        facts["pack"] = [f"{pack.resolve().name}, manifest {digest[:16]}"]
        facts["evals dataset"] = [
            f"{entry.dataset_id} at {entry.dataset_revision}" for entry in manifest.tasks.values()
        ]
        facts["baseline"] = [
            f"{baseline.name} at {baseline.revision}"
            for entry in manifest.tasks.values()
            for baseline in entry.baseline
        ]
        facts["originals"] = [f"{original.id} at {original.revision}" for original in manifest.originals.values()]
    facts["model"] = [provenance.model for provenance in provenances]
    facts["backend"] = [None if provenance.names_engine else provenance.backend for provenance in provenances]
    facts["model_args"] = [
        ",".join(f"{key}={value}" for key, value in provenance.model_args.items()) for provenance in provenances
    ]
    facts["lm-eval"] = [provenance.lm_eval for provenance in provenances]
    facts["engine"] = [
        f"{provenance.backend}, by its own name"
        if provenance.names_engine and provenance.backend
        else provenance.engine
        for provenance in provenances
    ]
    facts["answered by"] = [str(provenance.origins) for provenance in provenances]
    seen = [provenance.endpoint for provenance in provenances if provenance.endpoint]
    facts["endpoint"] = [str(endpoint) for endpoint in seen]
    facts["requests"] = [endpoint.retries for endpoint in seen]
    facts["order"] = [provenance.order for provenance in provenances]
    facts["limit"] = [None if provenance.limit is None else f"{provenance.limit:g}" for provenance in provenances]
    facts["date"] = [dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"] if dates else []
    facts["duration"] = [_duration(sum(seconds))] if seconds else []
    facts["answers"] = [_tokens(provenance) for provenance in provenances]
    facts["cost"] = [None if provenance.cost is None else format_cost(provenance.cost) for provenance in provenances]
    if manifest is not None:
        facts["prepared with"] = [f"meta-eval {manifest.meta_eval}"]
        facts["command"] = [shlex.join(manifest.command)]
    facts["results"] = [file.name for file in sorted(files)]
    distinct = {name: list(dict.fromkeys(filter(None, values))) for name, values in facts.items()}
    return tuple((name, "; ".join(values)) for name, values in distinct.items() if values)


def _tokens(provenance: Provenance) -> str | None:
    if provenance.completion_tokens is None:
        return None
    rate = "" if provenance.tokens_per_second is None else f", {provenance.tokens_per_second:,.1f} a second"
    return f"{provenance.completion_tokens:,.0f} tokens{rate}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"

"""Builds the report of a run or of two, and its document."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from meta_eval.base.display import name_path, visible
from meta_eval.base.hashing import hash_file
from meta_eval.harness.lm_eval_run import Run
from meta_eval.harness.output_index import find_common_folder
from meta_eval.harness.provenance import Provenance
from meta_eval.judge.decide import RunDecision
from meta_eval.judge.decision import LmEvalAverage
from meta_eval.judge.evidence import NamedFindings
from meta_eval.judge.figures import list_averages
from meta_eval.judge.groups import compute_group_scores
from meta_eval.pack.manifest import MANIFEST, Manifest
from meta_eval.reports.document import Document, RunProvenance, ShownSample
from meta_eval.reports.report_data import ReportData, title_two_runs
from meta_eval.reports.report_document import report_document
from meta_eval.reports.text import format_cost

# The name of a model that no file names.
UNKNOWN_MODEL = "unknown model"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(ReportData):
    """What is decided of a run, or of two that are compared, and where it comes from."""

    def document(self, samples: Callable[[], Iterable[ShownSample]] = tuple) -> Document:
        """The document that views show.

        Args:
            samples: Reads the docs with their texts.
        """
        return report_document(self, samples)


def build_report(
    judged: RunDecision,
    runs: Mapping[str, Run],
    *,
    pack: Path | None = None,
    manifest: Manifest | None = None,
    exit_follows_decision: bool = False,
    evidence: Sequence[NamedFindings] = (),
) -> Report:
    """Build the report of a run and its pack, or of two runs.

    Args:
        judged: What was decided.
        runs: A run under the empty text; or the baseline as A, and B.
        pack: The folder of the pack.
        manifest: Its manifest.
        exit_follows_decision: Whether the exit code follows the decision.
        evidence: What the evidence of plug-ins found.
    """
    (run, *others), is_alone = runs.values(), len(runs) == 1
    tasks = tuple(task for task in judged.tasks if others or task.name in run.tasks or task.members)
    names = [task.name for task in tasks]
    facts = tuple(
        _describe_run(label or "this run", each, names, *((pack, manifest) if is_alone else ()))
        for label, each in runs.items()
    )
    totals: list[Sequence[LmEvalAverage]] = []
    if is_alone:
        totals += [list_averages(group.name, group.aggregates) for group in run.groups.values() if not run.repeats]
        totals += [compute_group_scores(manifest, run.tasks)] if manifest else []
    notes = [f"{label}: {note}" if label else note for label, each in runs.items() for note in each.notes]
    return Report(
        document_type="report" if is_alone else "compare",
        title=facts[0].model if is_alone else title_two_runs(*facts),
        decision=judged.decision,
        runs=facts,
        tasks=tasks,
        alarms=judged.alarms,
        notes=(*notes, *judged.notes, *(note for named in evidence for note in named.findings.notes)),
        group_averages=tuple(average for group in totals for average in group),
        exit_follows_decision=exit_follows_decision,
        evidence=tuple(evidence),
        drop_breakdown=judged.drop_breakdown,
    )


def _describe_run(
    label: str, run: Run, tasks: Iterable[str], pack: Path | None = None, manifest: Manifest | None = None
) -> RunProvenance:
    provenances = [result.provenance for task in tasks for result in run.all_runs(task)]
    files = list({provenance.results_file: provenance for provenance in provenances}.values())
    seconds = sorted(file.median_seconds for file in files if file.median_seconds is not None)
    costs = [file.cost for file in files if file.cost is not None]
    return RunProvenance(
        label, _model_name(run), _facts(provenances, pack, manifest), _folder(run),
        seconds[len(seconds) // 2] if seconds else None, sum(costs) if costs else None,
    )  # fmt: skip


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
    folder = find_common_folder(file.parent for file in files)
    models = {str(result.provenance.model).replace("/", "__") for result in results}
    folder = folder.parent if folder.name in {*models, "None"} else folder
    return visible(name_path(folder))


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

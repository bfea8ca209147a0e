"""The baseline: recorded answers graded by the pack's own graders, doc by doc. Runs are paired with it.

`meta_eval.verify` writes a JSON Lines file per task next to the pack. Of prompts and answers it has only the
extractions, and a hash of each answer. The first line identifies docs and graders, lm-eval's version among them, or
says why there is no baseline. Every other line is a doc.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, partial
from io import TextIOWrapper
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import TypeAdapter

from meta_eval.base.display import name_path
from meta_eval.base.errors import DataError, PackError, locating
from meta_eval.base.hashing import hash_file, hash_pieces, hash_text
from meta_eval.base.inputs import describe_error, open_regular, read_table
from meta_eval.base.ownership import was_edited
from meta_eval.base.pack_names import COPIED_SUFFIX
from meta_eval.harness.choice import Choice, Groups
from meta_eval.harness.doc_results import (
    FIGURES,
    MAX_SAMPLE_BYTES,
    DocResult,
    ResultsError,
    read_value,
)
from meta_eval.harness.lm_eval_run import Run, TaskRun
from meta_eval.harness.provenance import GraderFacts, Provenance, find_installed_lm_eval, read_decoding
from meta_eval.harness.results_file import as_mapping
from meta_eval.harness.sample_parser import read_filter_results
from meta_eval.pack.manifest import BaselineEntry, Manifest, TaskEntry, read_manifest
from meta_eval.pack.pack_options import make_verify_command
from meta_eval.pack.records.log_entries import LogEntry
from meta_eval.pack.templates.template_folder import FolderReader, merge_includes


def read_baseline_run(pack: Path, entry: BaselineEntry) -> tuple[list[DocResult], dict[int, dict[int, list[Any]]]]:
    """Read the answers of one run to a task's docs.

    Returns:
        The docs with their recorded metrics, and by doc the answers that the pack can grade, by the index of the
        request.

    Raises:
        PackError: The file is missing or damaged.
    """
    import pyarrow as pa

    path = pack / entry.file
    try:
        rows = read_table(path).to_pylist()
        responses = {row["doc"]: dict(enumerate(json.loads(row["responses"]))) for row in rows if row["responses"]}
        return [_restore_doc(row, json.loads(row["metrics"])) for row in rows], responses
    except (OSError, pa.ArrowException, ValueError, LookupError, TypeError, RecursionError) as error:
        raise PackError(
            f"holds no answers of a baseline ({describe_error(error)})", where=str(path),
            hint="Run `meta-eval prepare` again",
        ) from None  # fmt: skip


def _restore_doc(row: Mapping[str, Any], metrics: Mapping[str, Any]) -> DocResult:
    with locating(f"doc {row['doc']} of the baseline"):
        return DocResult(
            doc_id=row["doc"], question_hash=row["question_hash"], prompt_hashes=(),
            prompt_matches=row["prompt_matches"], subtask=None, cluster=None, gold="", n_choices=None,
            recorded_is_correct=None, recorded_metrics=row["metrics"], answer_tail="", answer_empty=False,
            limit_hit=None, filter_results=read_filter_results(metrics),
        )  # fmt: skip


# How the name of the folder that verify writes ends.
_VERIFIED = ".verify"

# Why a task of lm-eval's own has no baseline.
NOTHING_RECORDED = (
    "nobody has answered it yet, so there is nothing to verify: run two models and compare them, or name a run in "
    "baseline and prepare again"
)


@dataclass(frozen=True, slots=True)
class Baseline:
    """The baseline of a pack's tasks: what was recorded, as runs."""

    graded: Run
    """The recorded answers as the pack grades them. Each task has the docs with a recorded answer, in the order of doc
    ids, with the extractions and metrics of their answers. Several runs only if ``baseline:`` names several."""

    missing_reasons: Mapping[str, str] = field(default_factory=dict)
    """The other tasks of the pack, each with a reason (a clause)."""

    recorded: Run = field(default_factory=Run)
    """Tasks with records in ``baseline:``, with the metrics that were recorded. ``graded`` is then of these records,
    too."""

    stale: frozenset[str] = frozenset()
    """Those of the other tasks whose baseline `verify` can make."""


def find_verify_folder(pack: Path, *, regraded: bool = False) -> Path:
    """The folder that verify writes, next to the pack. The pack itself never changes."""
    real = Path(os.path.realpath(pack))  # unlike Path.resolve it accepts circular links
    return real.parent / f"{real.name}{'.regrade' if regraded else _VERIFIED}"


def find_baseline_file(pack: Path, task: str, run: BaselineEntry | None = None) -> Path:
    """The file of a task; with ``run``, for this run of ``baseline:``. Its place is that of its answers in the pack."""
    if run is None:
        return find_verify_folder(pack) / "baseline" / f"{task}.jsonl"
    return find_verify_folder(pack) / "named" / Path(*Path(run.file).parts[1:]).with_suffix(".jsonl")


def compute_baseline_run_fingerprint(key: str, manifest: Manifest, run: BaselineEntry) -> str:
    """The key as of `compute_grading_fingerprints`, for the answers of a run of ``baseline:``."""
    return hash_text(f"{key} {manifest.files[run.file].sha256}")


def read_baseline(pack: Path, manifest: Manifest, *, lm_eval: str | None = None) -> Baseline:
    """Read the verdicts that verify kept for a pack.

    Args:
        pack: The folder that prepare wrote.
        manifest: Its manifest.
        lm_eval: The version of lm-eval that must have graded them; None for any.
    """
    keys = compute_grading_fingerprints(pack, manifest)
    graded: dict[str, tuple[TaskRun, ...]] = {}
    missing: dict[str, str] = {}
    recorded: dict[str, tuple[TaskRun, ...]] = {}
    stale: set[str] = set()
    for task, entry in manifest.tasks.items():
        if not entry.has_recorded_answers:
            missing[task] = NOTHING_RECORDED
            continue
        runs: list[TaskRun] = []
        whole = True
        for run in entry.baseline or (None,):
            key = keys[task] if run is None else compute_baseline_run_fingerprint(keys[task], manifest, run)
            path = find_baseline_file(pack, task, run)
            try:
                docs, version = _read_file(path, find_verify_folder(pack), key, entry, lm_eval)
                runs.append(_make_task_run(task, entry, run, docs, path, version))
            except _NoBaselineError as error:
                again = make_verify_command(str(pack), of_sample=entry.invented, allow_code=error.runs_code)
                missing[task] = f"{error}: run `{again}`" if error.is_stale or error.runs_code else str(error)
                stale = stale | {task} if error.is_stale else stale - {task}
                whole &= error.from_verify
        # A run that verify could not grade leaves the others; a file that is missing or stale does not.
        if runs and whole:
            graded[task] = _keep_common_docs(runs)
            missing.pop(task, None)
            stale.discard(task)
        as_recorded = [
            _make_task_run(task, entry, run, [doc for doc in docs if doc.filter_results], pack / run.file, None)
            for run in entry.baseline
            for docs in [read_baseline_run(pack, run)[0]]
        ]
        if known := [run for run in as_recorded if run.docs]:
            recorded[task] = _keep_common_docs(known)
    return Baseline(_make_run(graded), missing, _make_run(recorded), frozenset(stale))


def read_verified(folder: Path, choice: Choice, groups: Groups) -> Run | None:
    """The recorded answers of a pack from the folder that verify wrote, as a run; None of another folder.

    Args:
        folder: The folder, beside its pack.
        choice: The tasks to read.
        groups: Groups that the choice may name, besides those of the pack.

    Raises:
        UserError: The pack cannot be read, or no chosen task has an answer that verify graded.
    """
    if folder.suffix != _VERIFIED or not (folder / "baseline").is_dir():
        return None
    pack = folder.with_suffix("")
    manifest = read_manifest(pack)
    baseline = read_baseline(pack, manifest)
    run, reading = baseline.graded, FolderReader(pack)
    names = choice.of(run.tasks, {**groups, **manifest.groups})
    notes = tuple(f"{name}: {reason}" for name, reason in baseline.missing_reasons.items())
    if not run.tasks:
        what, _, again = next(iter(notes), "there is no task").partition(": run ")
        raise ResultsError(what, where=str(folder), hint=f"Run {again or '`meta-eval prepare` again'}")
    tasks = {}
    for name in names:
        entry, task = manifest.tasks[name], run.tasks[name]
        asked = as_mapping(merge_includes(reading, PurePosixPath(entry.template), ())[0].get("generation_kwargs"))
        docs = manifest.files[entry.docs_file].sha256 if entry.docs_file else None
        decoding = read_decoding(asked, has_default=True)
        tasks[name] = replace(task, provenance=replace(task.provenance, docs_sha256=docs, decoding=decoding))
    return replace(
        run, tasks=tasks, notes=notes, repeats={name: run.repeats[name] for name in names if name in run.repeats},
        left_out=tuple(name for name in run.tasks if name not in tasks), known_groups=manifest.groups,
    )  # fmt: skip


def _make_run(tasks: Mapping[str, Sequence[TaskRun]]) -> Run:
    repeats = {name: tuple(runs[1:]) for name, runs in tasks.items() if runs[1:]}
    return Run({name: tasks[name][0] for name in sorted(tasks)}, repeats=repeats)


def _make_task_run(
    task: str, entry: TaskEntry, run: BaselineEntry | None, docs: Sequence[DocResult], path: Path, lm_eval: str | None
) -> TaskRun:
    """The recorded answers to a task's docs, as a run of the pack. What it was asked are the prompts of the pack, as
    they stand: whether a chat template or a system instruction is in them nobody needs to know."""
    provenance = Provenance(
        results_file=path, model=run.model if run else entry.model or entry.dataset_id, lm_eval=lm_eval,
        chat_template=None, system_instruction=None, dataset_revision=entry.dataset_revision,
        docs_of_task=entry.docs, docs_run=len(docs), grader=GraderFacts(lm_eval=lm_eval),
    )  # fmt: skip
    numbers = sorted(entry.reference_scores, key=lambda number: not number.same_settings)
    return TaskRun(
        task, docs=tuple(docs), filters=entry.filters, provenance=provenance, is_chat=entry.asked_as == "chat",
        published_metrics=tuple(dict.fromkeys(number.metric for number in numbers)),
        primary_metric=entry.primary_metric, is_correct_metric=entry.is_correct_metric,
    )  # fmt: skip


def _keep_common_docs(runs: Sequence[TaskRun]) -> tuple[TaskRun, ...]:
    """The runs with the docs that all have, in the order of doc ids."""
    by_number = [{doc.doc_id: doc for doc in run.docs} for run in runs]
    common = sorted(set.intersection(*map(set, by_number)))
    return tuple(
        replace(run, docs=tuple(docs[number] for number in common)) for run, docs in zip(runs, by_number, strict=True)
    )


def _read_file(
    path: Path, folder: Path, key: str, entry: TaskEntry, lm_eval: str | None
) -> tuple[tuple[DocResult, ...], str | None]:
    """Read the docs of a task, and the version of lm-eval that graded them.

    Raises:
        _NoBaselineError: There is none, with the reason.
    """
    try:
        docs = _read(path, key, lm_eval)
        if was_edited(folder, "verify", path.relative_to(folder).as_posix()):
            raise _NoBaselineError(f"{name_path(path)} was edited after verify wrote it", is_stale=True)
        return docs
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise _NoBaselineError("verify has not been run on this pack", is_stale=True) from None
        if entry.unsafe_code:
            raise _NoBaselineError("scoring it runs code that a model wrote", runs_code=True) from None
        raise _NoBaselineError("verify has not been run on this task", is_stale=True) from None
    except OSError as error:
        raise _NoBaselineError(f"{path} cannot be read ({error.strerror})") from None
    except (ResultsError, DataError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise _NoBaselineError(f"{path} is damaged", is_stale=True) from None


def format_baseline(key: str, docs: Sequence[DocResult], edited: Sequence[str] = ()) -> str:
    """Write the file of a task.

    Args:
        key: Identifies docs and graders (`compute_grading_fingerprints`).
        docs: The docs with a recorded answer, as they are graded today. Their texts are dropped.
        edited: Files of the pack that changed since prepare.
    """
    if not docs:
        return format_missing(key, "no doc has a recorded answer", edited)
    head = {**_make_head(key, edited), "docs": len(docs), "fields": _list_fields()}
    return json.dumps(head) + "\n" + "".join(map(_format_doc, docs))


def _format_doc(doc: DocResult) -> str:
    """A line of the file. Halves of surrogate pairs in what a grader found become U+FFFD."""
    doc.answer_tail = ""
    for result in doc.filter_results.values():
        if result.extracted and not result.extracted.isascii():
            result.extracted = result.extracted.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return _lines_of_docs().dump_json(doc, exclude_defaults=True).decode() + "\n"


@cache
def _lines_of_docs() -> TypeAdapter[DocResult]:
    return TypeAdapter(DocResult)


def format_missing(key: str, reason: str, edited: Sequence[str] = ()) -> str:
    """Write the file of a task without baseline; the reason is a clause."""
    return json.dumps({**_make_head(key, edited), "missing": reason}) + "\n"


def _make_head(key: str, edited: Sequence[str]) -> dict[str, Any]:
    return {"pack": key, "lm_eval": find_installed_lm_eval(), **({"edited": list(edited)} if edited else {})}


def compute_grading_fingerprints(pack: Path, manifest: Manifest) -> dict[str, str]:
    """Compute for each task a SHA-256 of everything that its verdicts depend on: its docs, and every YAML and module of
    the pack, lm-eval's own YAML among them.

    Docs are hashed by the manifest, which a pack checks on loading. Other files are hashed as they are on disk, because
    a grader may be edited. Tasks share modules, so each depends on all.
    """
    names = [name for name in sorted(manifest.files) if name.endswith((".py", ".yaml", COPIED_SUFFIX))]
    files = [(name, pack / name) for name in names]
    graders = hash_pieces(f"{name}\n{hash_file(path) if path.is_file() else None}\n" for name, path in files)
    keys = {}
    for task, entry in manifest.tasks.items():
        docs = manifest.files[entry.docs_file].sha256 if entry.docs_file is not None else None
        rows = [task, docs, entry.dataset_id, entry.dataset_revision, entry.dataset_config, graders]
        keys[task] = hash_text(json.dumps(rows))
    return keys


def _list_fields() -> list[str]:
    """What is stored of each answer, and how its texts are hashed. A file of an earlier meta-eval is made again."""
    return [*(field.name for field in fields(DocResult)), *sorted(figure.key for figure in FIGURES), "length:text"]


class _NoBaselineError(Exception):
    """There is no baseline: verify can make it (``is_stale``), if it may run code (``runs_code``), or the file says why
    not (``from_verify``)."""

    def __init__(
        self, reason: str, *, is_stale: bool = False, runs_code: bool = False, from_verify: bool = False
    ) -> None:
        super().__init__(reason)
        self.is_stale, self.runs_code, self.from_verify = is_stale, runs_code, from_verify


def _read(path: Path, key: str, lm_eval: str | None) -> tuple[tuple[DocResult, ...], str | None]:
    with TextIOWrapper(open_regular(path), encoding="utf-8") as file:
        lines = iter(partial(file.readline, MAX_SAMPLE_BYTES), "")
        head = LogEntry.of(json.loads(next(lines, "")), "line 1")
        if head.text("pack") != key:
            raise _NoBaselineError("the pack changed after verify", is_stale=True)
        graded_by = head.find_text("lm_eval")
        if lm_eval not in (None, graded_by):
            other = graded_by or "of another version"
            raise _NoBaselineError(f"lm-eval {other} graded it, and {lm_eval} is installed", is_stale=True)
        if "missing" in head:
            raise _NoBaselineError(head.text("missing"), from_verify=True)
        if not {*_list_fields()} <= {*map(str, head.find_list("fields"))}:
            raise _NoBaselineError("an earlier meta-eval made it, which knew less of answers", is_stale=True)
        read = partial(_lines_of_docs().validate_json, strict=True)
        docs = tuple(map(read, lines))
    if not 0 < len({doc.doc_id for doc in docs}) == len(docs) == head.find_count("docs") or not all(
        map(_is_whole, docs)
    ):
        raise ValueError
    return docs, graded_by


def _is_whole(doc: DocResult) -> bool:
    """Whether each of its tuples has the items that `read_value` and a sample give it."""
    values = [value for result in doc.filter_results.values() for value in result.metrics.values()]
    return bool(doc.cuts) and all(read_value("", value) == value for value in values if isinstance(value, tuple))

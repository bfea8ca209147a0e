"""Matches a run with a pack: the same docs, or those of the record that the pack was made from."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from meta_eval.base.inputs import read_table
from meta_eval.base.pack_names import join_names
from meta_eval.base.thresholds import MAX_GEN_TOKS, NAMED
from meta_eval.harness.doc_results import DocResult, ResultsError
from meta_eval.harness.lm_eval_run import Run, TaskRun, explain_faults
from meta_eval.harness.provenance import Provenance, read_decoding
from meta_eval.harness.shared_texts import TextCounts
from meta_eval.pack.integrity import describe_edits
from meta_eval.pack.manifest import Manifest, ReferenceScoreEntry, TaskEntry

_HASHES = ("input_question_hash", "input_final_prompts_hash")
_COLUMNS = (*_HASHES, "gold", "subtask_name", "cluster", "recorded_is_correct", "recorded_metrics")

# Percentage points by which a record's own score may differ from the mean of its docs: files may round it.
_SAME_SCORE = 0.006


def match_record_docs(docs: Sequence[DocResult], pack: Path, entry: TaskEntry) -> tuple[tuple[DocResult, ...], int]:
    """Match docs with those of a pack by the hashes of doc and prompt, and add the pack's facts.

    Args:
        docs: The docs of a run that was not made with the pack.
        pack: The folder of the pack.
        entry: The task of a record.

    Returns:
        These docs in the pack's order and numbering, and the number of unmatched docs.
    """
    waiting: dict[tuple[str, tuple[str, ...]], list[DocResult]] = {}
    for doc in reversed(docs):
        waiting.setdefault((doc.question_hash, doc.prompt_hashes), []).append(doc)
    matched = []
    for number, row in enumerate(_rows(pack, entry)):
        same = waiting.get((row["input_question_hash"], tuple(row["input_final_prompts_hash"])))
        if same:
            matched.append(_as_row(same.pop(), number, row))
    return tuple(matched), len(docs) - len(matched)


def score_recorded_docs(
    pack: Path, entry: TaskEntry, score: ReferenceScoreEntry, docs: Collection[int]
) -> float | None:
    """The score of a record on some docs only.

    Args:
        pack: The folder of the pack.
        entry: The task of a record.
        score: The record's score of all docs.
        docs: The docs.

    Returns:
        Percent; None where the record does not have the metric of each doc, or its score is not their mean.
    """
    if entry.record is None or not docs:
        return None
    values = [_metric(row.get("recorded_metrics"), score.metric) for row in _rows(pack, entry)]
    chosen = [values[doc] for doc in docs if doc < len(values)]
    known, known_chosen = ([value for value in some if value is not None] for some in (values, chosen))
    if len(known) < len(values) or len(known_chosen) < len(docs) or abs(100 * fmean(known) - score.value) > _SAME_SCORE:
        return None
    return 100 * fmean(known_chosen)


def _metric(text: str | None, metric: str) -> float | None:
    try:
        value = json.loads(text or "{}").get(metric)
    except (ValueError, AttributeError, RecursionError):
        return None
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None


def _rows(pack: Path, entry: TaskEntry) -> list[dict[str, Any]]:
    path = None if entry.docs_file is None else pack / entry.docs_file
    if path is None or not path.is_file() or not set(_HASHES) <= set(entry.columns):
        return []
    rows: list[dict[str, Any]] = read_table(
        path, columns=[column for column in _COLUMNS if column in entry.columns]
    ).to_pylist()
    return rows


def _as_row(doc: DocResult, number: int, row: dict[str, Any]) -> DocResult:
    return replace(
        doc,
        doc_id=number,
        prompt_matches=True,
        subtask=row.get("subtask_name"),
        cluster=row.get("cluster"),
        gold=row.get("gold") or doc.gold,
        recorded_is_correct=row.get("recorded_is_correct"),
        recorded_metrics=row.get("recorded_metrics"),
    )


def match_pack(run: Run, manifest: Manifest, *, pack: str) -> Run:
    """Compare a run with its pack.

    Returns:
        The run, with a note if the pack was edited. A run of lm-eval's own tasks over the docs and prompts of a
        record's pack counts as a run of the pack, with a note. Tasks with other docs than the pack's are in
        `Run.faults`.

    Raises:
        ResultsError: All tasks have other docs.
    """
    paired: list[str] = []
    faults: dict[str | None, ResultsError] = {}
    runs = {name: list(run.all_runs(name)) for name in run.tasks}
    for task, results in runs.items():
        for at, result in enumerate(results):
            entry = manifest.tasks.get(task)
            if entry is not None and (fault := _other_docs(result, entry, manifest)):
                try:
                    results[at] = _of_record(result, entry, Path(pack), fault)
                    paired.append(task)
                except ResultsError as error:
                    faults[task] = error
    if faults and not runs.keys() - faults.keys():
        raise next(iter(faults.values()))
    runs = {name: results for name, results in runs.items() if name not in faults}
    notes = [*run.notes, *filter(None, [describe_edits(Path(pack), manifest)])]
    if paired:
        names = join_names(list(dict.fromkeys(paired)), NAMED)
        notes.append(f"{names}: not run with the pack {pack}; docs and prompts are those of the pack, by their hashes")
    tasks = {name: _with_texts(results[0], manifest.tasks.get(name)) for name, results in runs.items()}
    repeats = {name: tuple(results[1:]) for name, results in runs.items() if results[1:]}
    return replace(
        run, tasks=tasks, repeats=repeats, notes=tuple(notes), faults={**run.faults, **explain_faults(faults)}
    )


def _with_texts(result: TaskRun, entry: TaskEntry | None) -> TaskRun:
    """The run with what its pack knows of the texts that its docs share."""
    if entry is None:
        return result
    uncounted = tuple(TextCounts(each.field, each.texts, each.docs) for each in entry.uncounted_texts)
    return replace(result, cluster_field=entry.cluster_field, uncounted_texts=uncounted)


def _other_docs(result: TaskRun, entry: TaskEntry, manifest: Manifest) -> str | None:
    """The reason why a run's docs are not the pack's; None if they are equal, or if this is unknown."""
    if entry.docs_file is not None:
        kind, pack_digest, run_digest = "SHA-256", manifest.files[entry.docs_file].sha256, result.provenance.docs_sha256
    else:
        kind, pack_digest, run_digest = "commit", entry.dataset_revision, result.provenance.dataset_revision
    if result.provenance.results_file is None or pack_digest == run_digest:
        return None
    return f"was run on docs with {kind} {run_digest or 'unknown'}, and in the pack they have {pack_digest}"


def _of_record(result: TaskRun, entry: TaskEntry, pack: Path, fault: str) -> TaskRun:
    """Take a run of lm-eval's own task as a run of a record's pack, if docs and prompts are equal.

    Raises:
        ResultsError: They differ, or the pack is not from a record.
    """
    where = f"{result.provenance.results_file}, beside the pack {pack}"
    hint = "Name the pack that this run was made with, or run the task again with this one"
    if entry.record is None or result.provenance.docs_sha256 is not None or not result.docs:
        raise ResultsError(f"{result.task} {fault}", where=where, hint=hint)
    docs, others = match_record_docs(result.docs, pack, entry)
    if others:
        raise ResultsError(
            f"{result.task} was not run with this pack: {others:,} of {len(result.docs):,} docs are not in it or "
            "had another prompt",
            where=where,
            hint=f"{hint}; `meta-eval compare {shlex.quote(entry.dataset_id)} RUN` compares the docs they share",
        )
    provenance = result.provenance
    changed = _find_other_decoding(entry, provenance)
    return replace(
        result,
        docs=docs,
        shared_texts=(),
        provenance=replace(provenance, gen_kwargs={**provenance.gen_kwargs, **changed}),
    )


def _find_other_decoding(entry: TaskEntry, provenance: Provenance) -> dict[str, Any]:
    """The settings of generation that a run of lm-eval's own task has otherwise than the pack's."""
    if entry.generation is None or provenance.harness is not None:
        return {}
    own, run = read_decoding(entry.generation, has_default=True), provenance.decoding
    defaults = {"max_gen_toks": MAX_GEN_TOKS}
    return {
        name: run.get(name, defaults.get(name, "none"))
        for name in sorted({*own, *run})
        if own.get(name) != run.get(name)
    }

"""The tasks of a pack out of a recorded run of lm-eval: read, checked, and given the code that grades them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from meta_eval import stats
from meta_eval.errors import DataError
from meta_eval.notes import log
from meta_eval.pack.manifest import PublishedEntry, RecordEntry
from meta_eval.pack.published import recorded_number
from meta_eval.pack.task import Context, PreparedTask
from meta_eval.records.asked import Made
from meta_eval.records.code import TaskCode
from meta_eval.records.rows import IN_WORDS, Rows, asked_with_bos, bos_of, read_rows
from meta_eval.records.runs import Record
from meta_eval.records.task import filters_of, make_task
from meta_eval.results.results_file import ResultsFile, mapping
from meta_eval.results.run import TaskRun, read_newest
from meta_eval.results.scores import scores, specs


def made_of_record(record: Record, code: TaskCode, context: Context) -> Made:
    """A task of a recorded run.

    Args:
        record: The run.
        code: What grades the task.
        context: What the tasks of the pack share.

    Raises:
        DataError: It holds no sample of the task, or one that cannot be asked again.
        ResultsError: A sample cannot be read.
    """
    name = code.name
    context.progress(f"{name}: reading samples")
    run = read_newest(record.files, record.files.tasks[name], say=log.warning)
    if run is None or run.samples_file is None:
        raise DataError("holds no sample", where=f"{record.name}, {name}")
    results, where = record.results(name), f"{record.name}, {name}"
    rows = read_rows(run, results, str(code.settings.get("output_type", "generate_until")), where)
    entry = _record_entry(record, code, results, rows)
    verdict = _verdict(code, run)
    published = _published(run, entry, verdict)
    for key, count in rows.warnings.items():
        log.warning(f"{name}: {count:,} docs {IN_WORDS[key]}")
    if entry.task_version != entry.code_version:
        log.warning(
            f"{name}: the record is of version {entry.task_version} of the task, and {code.origin} has version "
            f"{entry.code_version}; verify says whether they grade alike"
        )

    def made(delimiter: str | None) -> PreparedTask:
        return make_task(
            code, rows, entry, context, dataset_id=record.name, revision=record.revision, verdict=verdict,
            filters=filters_of(code), published=published, delimiter=delimiter,
        )  # fmt: skip

    return Made(made(None), rows, where, made)


def _record_entry(record: Record, code: TaskCode, results: ResultsFile | None, rows: Rows) -> RecordEntry:
    name = code.name
    provenance = record.provenance(name)
    tree: Mapping[str, Any] = results.tree if results else {}
    versions, shots = mapping(tree.get("versions")).get(name), mapping(tree.get("n-shot")).get(name)
    return RecordEntry(
        model=provenance.model,
        time=record.files.tasks[name][0].time or None,
        results_file=results.path.name if results else None,
        lm_eval=provenance.lm_eval,
        backend=provenance.backend,
        bos=bos_of(results),
        chat_template=provenance.chat_template,
        shots=None if shots is None else str(shots),
        task_version=None if versions is None else str(versions),
        code=code.origin,
        code_version=code.version,
        asked_with_bos=asked_with_bos(provenance, rows),
    )


def _verdict(code: TaskCode, run: TaskRun) -> str:
    """The ``metric,filter`` of single verdicts: what a template says, else the first that is a share of each doc."""
    logged = specs(run.docs)
    block = mapping(mapping(code.settings.get("metadata")).get("meta_eval"))
    wanted = block.get("verdict")
    if isinstance(wanted, str) and wanted in logged:
        return wanted
    for spec in logged:
        found = scores(run.docs, spec)
        if found is not None and found.kind == "mean":
            return spec
    return next(iter([*logged, *run.aggregates]), "none,none")


def _published(run: TaskRun, record: RecordEntry, verdict: str) -> tuple[PublishedEntry, ...]:
    """The record's own scores, as numbers to stand beside a run's: those that are shares, the verdict's first."""
    found = []
    for spec in sorted(specs(run.docs), key=lambda one: one != verdict):
        one = scores(run.docs, spec)
        if one is None:
            continue
        value = stats.mean(one.values) if one.labels is None else one.value
        averaging = {"mean": "micro", "macro": "macro", "mean of four": "mean of four"}.get(one.kind)
        found.append(recorded_number(record, spec, value, benchmark=run.task, averaging=averaging))
    return tuple(found)

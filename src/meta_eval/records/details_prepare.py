"""The tasks of a pack out of details of runs: read, checked, and given what grades them."""

from __future__ import annotations

from collections.abc import Iterator

from meta_eval import stats
from meta_eval.notes import log
from meta_eval.pack.manifest import PublishedEntry, RecordEntry
from meta_eval.pack.published import recorded_number
from meta_eval.pack.task import Context, PreparedTask
from meta_eval.records.asked import Made
from meta_eval.records.details import Details, DetailsRecord, rows_of
from meta_eval.records.details_kinds import details_code, verdict_of
from meta_eval.records.details_lighteval import lighteval_sample
from meta_eval.records.details_rows import DetailsRows, read_details
from meta_eval.records.details_samples import NESTED, Sample, columns_of, sample_of
from meta_eval.records.details_tokens import TokenCheck
from meta_eval.records.rows import IN_WORDS
from meta_eval.records.task import make_task


def made_of_details(record: DetailsRecord, name: str, context: Context) -> Made:
    """A task of details.

    Args:
        record: The details.
        name: The task.
        context: What the tasks of the pack share.

    Raises:
        DataError: It cannot be asked or graded again.
    """
    details, where = record.tasks[name], f"{record.name}, {name}"
    context.progress(f"{name}: reading {details.file}")
    check = TokenCheck(context.tokenizer)
    found = rows_of_details(record, name, check)
    found.rows.warnings.update(check.warnings)
    _say(name, found, check)
    code = details_code(found.kind, name)
    entry = RecordEntry(
        model=record.model, time=details.time, results_file=details.file, lm_eval=None, backend=None, bos=None,
        chat_template=False, shots=details.shots, task_version=None, code=code.origin, code_version=code.version,
        asked_with_bos=check.with_bos,
    )  # fmt: skip
    verdict = verdict_of(found.metrics, name)
    published = _published(entry, details.said, found, verdict)
    revision = record.revision([name])

    def made(delimiter: str | None) -> PreparedTask:
        return make_task(
            code, found.rows, entry, context, dataset_id=record.name, revision=revision, verdict=verdict,
            filters=("none",), published=published, delimiter=delimiter,
        )  # fmt: skip

    return Made(made(found.delimiter), found.rows, where, made)


def rows_of_details(record: DetailsRecord, name: str, check: TokenCheck) -> DetailsRows:
    """The rows of a task.

    Raises:
        DataError: They cannot be asked or graded again.
    """
    details, where = record.tasks[name], f"{record.name}, {name}"
    return read_details(_samples(record, details, check, where), details.said, where, check.see)


def _samples(record: DetailsRecord, details: Details, check: TokenCheck, where: str) -> Iterator[Sample]:
    path = record.fetch(details.file)
    rows = rows_of(
        path, lambda names: columns_of(names, tokens=check.tokenizer is not None), f"{where}, {details.file}"
    )
    for number, row in enumerate(rows):
        here = f"{where}, doc {number}"
        read = lighteval_sample if row.keys() >= NESTED else sample_of
        yield read(row, here, check.tokenizer)


def _say(name: str, found: DetailsRows, check: TokenCheck) -> None:
    for key, count in found.rows.warnings.items():
        if key in IN_WORDS:
            log.warning(f"{name}: {count:,} docs {IN_WORDS[key]}")
    if check.first is not None:
        log.warning(f"{name}: the first doc with other token ids: {check.first}")
    if found.kept:
        log.warning(f"{name}: recorded and not graded again: {', '.join(found.kept)}")


def _published(record: RecordEntry, said: str, found: DetailsRows, verdict: str) -> tuple[PublishedEntry, ...]:
    """The record's own scores, the verdict's first."""
    entries = []
    for spec in sorted((f"{metric},none" for metric in found.metrics), key=lambda one: one != verdict):
        values = [row.metrics[spec] for row in found.rows.rows if row.metrics and spec in row.metrics]
        entries.append(recorded_number(record, spec, stats.mean(values), benchmark=said, averaging="micro"))
    return tuple(entries)

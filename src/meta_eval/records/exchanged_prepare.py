"""The tasks of a pack out of instances of Every Eval Ever."""

from __future__ import annotations

from meta_eval.notes import log
from meta_eval.pack.manifest import RecordEntry
from meta_eval.pack.published import recorded_number
from meta_eval.pack.task import Context, PreparedTask
from meta_eval.records.asked import Made
from meta_eval.records.details_kinds import details_code
from meta_eval.records.exchanged import ExchangedRecord
from meta_eval.records.exchanged_rows import read_exchanged
from meta_eval.records.rows import IN_WORDS
from meta_eval.records.task import make_task
from meta_eval.results.results_file import mapping
from meta_eval.shown import quoted

_VERDICT = "em,none"


def made_of_exchanged(record: ExchangedRecord, name: str, context: Context) -> Made:
    """A task of an evaluation.

    Args:
        record: The evaluations.
        name: The task.
        context: What the tasks of the pack share.

    Raises:
        DataError: It cannot be asked or graded again.
    """
    evaluation, where = record.tasks[name], f"{record.name}, {name}"
    context.progress(f"{name}: reading {evaluation.instances.name}")
    said = evaluation.tasks[name]
    found = read_exchanged(evaluation, said, where)
    for key, count in found.rows.warnings.items():
        log.warning(f"{name}: {count:,} docs {IN_WORDS[key]}")
    if found.kept:
        log.warning(f"{name}: recorded and not graded again: {', '.join(map(quoted, found.kept))}")
    code = details_code("lighteval_em", name)
    library = mapping(evaluation.aggregate.get("eval_library"))
    entry = RecordEntry(
        model=evaluation.model, time=evaluation.name, results_file=evaluation.aggregate_file.name,
        lm_eval=str(library.get("version")) if library.get("name") == "lm_eval" else None, backend=None,
        bos=found.rows.bos, chat_template=False, shots=found.shots, task_version=None, code=code.origin,
        code_version=code.version,
    )  # fmt: skip
    published = recorded_number(
        entry, _VERDICT, found.average, benchmark=said, averaging="micro", metric=found.metric
    )  # fmt: skip
    revision = record.revision(name)

    def made(delimiter: str | None) -> PreparedTask:
        return make_task(
            code, found.rows, entry, context, dataset_id=record.name, revision=revision, verdict=_VERDICT,
            filters=("none",), published=(published,), delimiter=delimiter,
        )  # fmt: skip

    return Made(made(None), found.rows, where, made)

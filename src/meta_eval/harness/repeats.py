"""Checks whether two results of a task are repeats of a run, which may be averaged."""

from __future__ import annotations

from meta_eval.harness.doc_results import ResultsError
from meta_eval.harness.task_run import TaskRun, find_disputed_metrics


def check_repeat(newest: TaskRun, other: TaskRun) -> None:
    """Check that repeats differ only in answers and seeds.

    Raises:
        ResultsError: They differ otherwise, or are copies of the same run.
    """
    pairs = [
        ("limit", newest.provenance.limit, other.provenance.limit),
        ("backend", newest.provenance.backend, other.provenance.backend),
        ("generation settings", newest.provenance.gen_kwargs, other.provenance.gen_kwargs),
        ("chat template", newest.provenance.chat_template, other.provenance.chat_template),
        ("system instruction", newest.provenance.system_instruction, other.provenance.system_instruction),
        ("docs of the pack", newest.provenance.docs_sha256, other.provenance.docs_sha256),
        ("evals dataset", newest.provenance.dataset_revision, other.provenance.dataset_revision),
        ("number of docs", len(newest.docs), len(other.docs)),
    ]
    disputed = find_disputed_metrics(newest, other)
    pairs += [
        (f"higher_is_better of {metric}", newest.higher_is_better[metric], other.higher_is_better[metric])
        for metric in sorted(disputed)
    ]
    newest_args, other_args = newest.provenance.model_args, other.provenance.model_args
    pairs += [
        (name, newest_args.get(name), other_args.get(name)) for name in sorted({*newest_args, *other_args} - {"seed"})
    ]
    where, hint = f"{newest.samples_file}, {other.samples_file}", "Name runs of one model and pack alone"
    for what, value, another in pairs:
        if value != another:
            raise ResultsError(
                f"{newest.task}: these runs are not repeats, because the {what} differs: {value!s:.80} and "
                f"{another!s:.80}",
                where=where,
                hint=hint,
            )
    if newest.time == other.time and (newest.time or newest.docs == other.docs):
        raise ResultsError(f"{newest.task}: this is the same run twice, not a repeat", where=where, hint=hint)
    if any(
        (a.doc_id, a.question_hash, a.prompt_hashes) != (b.doc_id, b.question_hash, b.prompt_hashes)
        for a, b in zip(newest.docs, other.docs, strict=True)
    ):
        raise ResultsError(f"{newest.task}: these runs differ in docs or prompts", where=where, hint=hint)

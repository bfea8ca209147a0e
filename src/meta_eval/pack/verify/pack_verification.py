"""Runs verify: each task is evaluated with recorded answers, tallied, judged, and kept as a baseline."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meta_eval.base.apart import apart
from meta_eval.base.display import name_path
from meta_eval.base.errors import ConfigError, PackError, UserError, documented
from meta_eval.base.garbage import collect_seldom
from meta_eval.base.inputs import format_json
from meta_eval.base.isolation import isolate_code
from meta_eval.base.logs import Progress, display_logs, log, report_progress
from meta_eval.base.ownership import replace_folder
from meta_eval.base.thresholds import ALMOST_ALL
from meta_eval.harness.doc_results import DocResult
from meta_eval.harness.each_answer import add_each_answer
from meta_eval.harness.evaluator import Evaluated, Evaluator
from meta_eval.harness.provenance import find_installed_lm_eval
from meta_eval.harness.replay import has_recorded_answer, read_recorded
from meta_eval.harness.sample_files import RECORDED_FINISH_REASON, CountTokens, read_graded
from meta_eval.pack import integrity
from meta_eval.pack.baseline import (
    NOTHING_RECORDED,
    compute_baseline_run_fingerprint,
    compute_grading_fingerprints,
    find_baseline_file,
    find_verify_folder,
    format_baseline,
    format_missing,
    read_baseline,
    read_baseline_run,
)
from meta_eval.pack.manifest import BaselineEntry, Manifest, TaskEntry, read_manifest
from meta_eval.pack.pack_options import ScoringOptions, VerifyOptions
from meta_eval.pack.prompt_lengths import make_token_counter
from meta_eval.pack.records.recorded_docs import describe_unread
from meta_eval.pack.task_choice import choose_tasks
from meta_eval.pack.verify.record_check import tally_record
from meta_eval.pack.verify.tallies import Explanations, Proof, ProofStatus, Tallies, TaskProof, tally_task

if TYPE_CHECKING:
    from meta_eval.harness.output_index import OutputIndex

_GITIGNORE = "# These files quote evals datasets, which may be gated. `meta-eval verify` writes them again.\n*\n"


@documented
@apart
def verify(
    pack: Path | str,
    *,
    options: VerifyOptions | None = None,
    progress: Progress | None = None,
    **keywords: Any,
) -> Proof:
    """Replay the recorded answers through a pack and compare every verdict with the recorded one.

    ::

        from meta_eval import verify

        proof = verify("work_dir")
        for name, task in proof.tasks.items():
            print(name, task.status, task.reason)

    Args:
        pack: The folder that prepare wrote.
        options: Tasks and settings: the attributes of `meta_eval.pack.pack_options.VerifyOptions`.
        progress: Called with the task, the number of answers scored, and their total.
        keywords: Single options, such as ``tasks`` and ``min_agreement``, by their names.

    Raises:
        PackError: The folder is not a pack, was edited, or has nothing to grade again.
        ResultsError: A results file of the finished run is damaged, or its runs are of several models.
        ConfigError: The pack lacks a name, or a share is not between 0 and 1.
    """
    with display_logs(progress), collect_seldom():
        return _verify(Path(pack), (options or VerifyOptions()).updated(**keywords))


def _verify(pack: Path, options: VerifyOptions) -> Proof:
    min_agreement, regrade = options.min_agreement, None if options.regrade is None else Path(options.regrade)
    if min_agreement is not None and not 0 <= min_agreement <= 1:
        raise ConfigError(f"{min_agreement:g} is not a share from 0 to 1", where="--min-agreement", hint="Such as 0.98")
    manifest = read_manifest(pack)
    chosen = choose_tasks(manifest, options.tasks)
    files = None
    if regrade is not None:
        from meta_eval.pack.verify.saved_answers import find_saved_samples

        files = find_saved_samples(regrade, chosen)
    changed = integrity.check_unchanged(pack, manifest, edited=options.edited)
    evaluator = Evaluator(pack)
    keys = compute_grading_fingerprints(pack, manifest)
    proof = Proof(pack, regrade, changed)
    folder = find_verify_folder(pack, regraded=regrade is not None)
    count_tokens = make_token_counter(manifest.run_settings.tokenizer_of())
    for name in chosen:
        entry = manifest.tasks[name]
        required = entry.min_agreement if min_agreement is None else min_agreement
        result = TaskProof(entry, "failed", None, required)
        proof.tasks[name] = result
        report_progress(name, 0, 0)
        if entry.unsafe_code and not options.allow_code:
            result.status = "not checked"
            result.reason = "scoring it runs code that a model wrote: add --allow-code"
            continue
        if files is not None and name not in files.tasks:
            result.status, result.reason = "not checked", f"{regrade} has no samples file of it"
            continue
        try:
            evaluated, result.tallies = _check(evaluator, name, entry, files, options.allow_code)
            for run in entry.baseline if files is None else ():
                _check_baseline(evaluator, name, run, manifest, result, keys[name], changed, options.allow_code)
        except UserError as error:
            result.reason = str(error)
            if regrade is None:
                missing = format_missing(keys[name], f"verify failed: {error}", changed)
                _write(folder, {find_baseline_file(pack, name): missing})
            continue
        total = result.tallies.total
        if regrade is None and (unread := total.unextracted or 0) >= ALMOST_ALL * total.docs > 0:
            log.warning(f"{name}: {describe_unread(unread, total.docs)}")
        result.scores = result.scores if result.of_baseline else evaluated.scores
        result.status, result.reason = _judge(result.tallies, entry, required, of_baseline=result.of_baseline)
        result.file = folder / f"{name}.jsonl"
        texts = {result.file: "".join(map(_line, result.tallies.disagreements))}
        if regrade is None:
            texts[find_baseline_file(pack, name)] = (
                format_missing(keys[name], f"verify did not check all docs: {result.reason}", changed)
                if result.status == "unfinished"
                else format_baseline(keys[name], _read_graded(evaluated, count_tokens), changed)
            )
        _write(folder, texts)
    return proof


def _check(
    evaluator: Evaluator, name: str, entry: TaskEntry, files: OutputIndex | None, allow_code: bool
) -> tuple[Evaluated, Tallies]:
    task = evaluator.load(name)
    docs = task.eval_docs
    if not docs:
        raise PackError("holds no docs", where=name, hint="Run `meta-eval prepare` again")
    saved, verdicts = None, None
    if files is not None:
        from meta_eval.pack.verify.saved_answers import read_saved

        saved, verdicts = read_saved(files, name, docs, entry.primary_metric, log.warning)
    evaluated = evaluator.evaluate(
        name,
        task=task,
        answers=None if saved is None else list(saved.values()),
        indices=list(saved) if saved and len(saved) < len(docs) else None,
        allow_code=allow_code,
        hashed=False,
    )
    if saved is None and (answers := read_recorded(docs)):
        add_each_answer(evaluator, name, answers, evaluated, allow_code=allow_code)
    context = Explanations(evaluated.failures, evaluated.extract, verdicts)
    if entry.record is not None and saved is None:
        return evaluated, tally_record(entry, evaluated.samples, context)
    with isolate_code(evaluator.pack):  # runs the template's extraction
        return evaluated, tally_task(name, entry, evaluated.samples, context)


def _read_graded(evaluated: Evaluated, count_tokens: CountTokens) -> tuple[DocResult, ...]:
    """The docs with a recorded answer, as they are graded today."""
    samples = [sample for sample in evaluated.samples if has_recorded_answer(sample["doc"])]
    for sample in samples:
        sample.setdefault("answer", {})["finish_reason"] = sample["doc"].get(RECORDED_FINISH_REASON)
    return read_graded(samples, count_tokens)


def _check_baseline(
    evaluator: Evaluator,
    name: str,
    run: BaselineEntry,
    manifest: Manifest,
    result: TaskProof,
    key: str,
    edited: Sequence[str],
    allow_code: bool,
) -> None:
    """Grade the answers of a run of ``baseline:``, keep the verdicts, and report those that differ from the record.

    For a task without other recorded answers, this is the proof; of several runs that with the lowest agreement.
    """
    entry = result.entry
    recorded, answers = read_baseline_run(evaluator.pack, run)
    path, key = (
        find_baseline_file(evaluator.pack, name, run),
        compute_baseline_run_fingerprint(key, manifest, run),
    )
    if not answers:
        missing = "the baseline was asked in another way, so that its answers cannot be graded here"
        _write(find_verify_folder(evaluator.pack), {path: format_missing(key, missing, edited)})
        return
    responses, indices = list(answers.values()), list(answers)
    evaluated = evaluator.evaluate(
        name, task=evaluator.load(name), answers=responses, indices=indices, allow_code=allow_code, hashed=False
    )
    add_each_answer(evaluator, name, responses, evaluated, indices=indices, allow_code=allow_code)
    context = Explanations(evaluated.failures, evaluated.extract, None)
    tallies = tally_record(entry, evaluated.samples, context, {doc.doc_id: doc.recorded_metrics for doc in recorded})
    total = tallies.total
    if entry.record is not None and entry.record.model is None:
        lowest = result.tallies.total.agreement if result.of_baseline and result.tallies else None
        if lowest is None or (total.agreement is not None and total.agreement < lowest):
            result.tallies, result.scores, result.of_baseline = tallies, evaluated.scores, run
    elif total.agreed < total.compared:
        differing = total.compared - total.agreed
        log.warning(f"{name}: {differing:,} of {total.compared:,} answers of the baseline are graded differently now")
    docs, matches = read_graded(evaluated.samples), {doc.doc_id: doc.prompt_matches for doc in recorded}
    text = format_baseline(key, [replace(doc, prompt_matches=matches[doc.doc_id]) for doc in docs], edited)
    _write(find_verify_folder(evaluator.pack), {path: text})


def _judge(
    tallies: Tallies, entry: TaskEntry, required: float, *, of_baseline: BaselineEntry | None
) -> tuple[ProofStatus, str | None]:
    total = tallies.total
    if total.docs != (of_baseline.docs if of_baseline else entry.docs):
        return "unfinished", f"{total.docs:,} of the {entry.docs:,} docs that were prepared"
    if total.agreement is None and not entry.has_recorded_answers:
        return "not checked", NOTHING_RECORDED
    if total.agreement is None:
        return "not checked", f"no doc has {tallies.compared_with} to compare with"
    if total.agreement < required:
        judge_note = "; Meta's verdicts are partly a judge model's" if entry.graded_by == "judge" else ""
        return "below", (
            f"agreement {total.agreement:.4f} ({total.agreed:,} of {total.compared:,} docs) is below "
            f"{required:g}{judge_note}"
        )
    return "passed", None


def _write(folder: Path, texts: Mapping[Path, str]) -> None:
    """Write files below verify's folder, whole or not at all.

    Args:
        folder: The folder.
        texts: By file, what it holds.

    Raises:
        PackError: A file lies behind a link in verify's folder.
        OutputError: A file cannot be written, or there is one that verify did not write.
    """
    for above in {above for path in texts for above in path.parents if folder in above.parents}:
        if above.is_symlink():
            what = "is a link, and nothing is written through links"
            raise PackError(what, where=name_path(above), hint="Delete it: verify makes its folders itself")
    with replace_folder(folder, "verify", where=name_path(folder), shared=True, keep=True) as new:
        for path, text in texts.items():
            new.write(path.relative_to(folder).as_posix(), text.encode("utf-8", "surrogatepass"))
    ignore = folder / ".gitignore"
    if not os.path.lexists(ignore):  # an existing file may have been edited
        with suppress(OSError):
            ignore.write_text(_GITIGNORE, encoding="utf-8")


def _line(disagreement: dict[str, Any]) -> str:
    """Format a line of ``<task>.jsonl``; the file is empty without disagreements."""
    return format_json(disagreement, default=str) + "\n"


def refresh_baseline(pack: Path, tasks: Sequence[str], options: ScoringOptions) -> None:
    """Run verify on tasks that were never graded, or not since the pack or lm-eval changed.

    Args:
        pack: The folder that prepare wrote.
        tasks: Names of its tasks.
        options: Whether code written by a model may run, and whether the pack may be edited.

    Raises:
        UserError: The folder is not a pack, or was edited.
    """
    manifest = read_manifest(pack)
    baseline = read_baseline(pack, manifest, lm_eval=find_installed_lm_eval())
    stale = [name for name in tasks if name in baseline.stale]
    if not stale:
        return
    report_progress("grading the recorded answers, which the run is compared with")
    proof = verify(pack, tasks=stale, allow_code=options.allow_code, edited=options.edited)
    for name, task in proof.tasks.items():
        if task.status not in ("passed", "not checked"):
            log.warning(
                f"{name}: {task.status}: {task.reason}. Look closer with: meta-eval verify {pack} --tasks {name}"
            )

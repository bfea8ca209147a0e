"""verify: prove everything behind the model, before a GPU is paid for.

Meta's datasets hold what its own models answered and how Meta judged that. So a pack is run through lm-eval's own
evaluator with those answers in the place of a model, and every verdict is compared with
Meta's. What the graders said is kept beside the pack (`meta_eval.results.baseline`): report pairs runs with it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from meta_eval.boundary.contained import contained
from meta_eval.boundary.outputs import replacing
from meta_eval.errors import ConfigError, PackError, UserError, documented, suggestion
from meta_eval.notes import Progress, log, silent
from meta_eval.pack import integrity
from meta_eval.pack.manifest import Manifest, PublishedEntry, TaskEntry, read_manifest
from meta_eval.replay import has_recorded_answer
from meta_eval.results.answers import NO_SHARE
from meta_eval.results.baseline import baseline_file, baseline_text, missing_text, named_key, out_folder, pack_keys
from meta_eval.results.find import Files
from meta_eval.results.named import read_named
from meta_eval.results.recorded import SAME_VERDICT
from meta_eval.verify.evaluate import Evaluated, Evaluator
from meta_eval.verify.record import tally_record
from meta_eval.verify.saved import Saved, find_samples, read_saved
from meta_eval.verify.tally import Explanations, Tallies, Tally, macro, tally_task

__all__ = ["SAME_VERDICT", "Proof", "Status", "TaskProof", "out_folder", "verify"]

_GITIGNORE = "# These files quote evals datasets, which may be gated; `meta-eval verify` makes them anew.\n*\n"

# Below the agreement asked for; not every doc was scored; nothing was compared, for a reason; the task cannot be run.
Status = Literal["passed", "below", "unfinished", "not checked", "failed"]


@dataclass(slots=True)
class TaskProof:
    """What is known of one task.

    Attributes:
        entry: The manifest's word on it.
        status: Only ``passed`` is a pass.
        reason: Why it is none; None for a pass.
        min_agreement: What was asked for, 0 to 1.
        tallies: Counts and disagreements; None when nothing was scored.
        scores: Every score of the task, 0 to 1, by ``metric,filter``, as its own aggregations give it.
        file: Where the disagreements stand.
        of_baseline: Whether what was compared are the verdicts of the record that ``baseline:`` names.
    """

    entry: TaskEntry
    status: Status
    reason: str | None
    min_agreement: float
    tallies: Tallies | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    file: Path | None = None
    of_baseline: bool = False

    @property
    def published(self) -> PublishedEntry | None:
        """The published number to put beside our score: of the verdict, of its macro average, else the first."""
        for wanted in (self.entry.verdict, self._macro):
            for number in self.entry.published:
                if number.our_metric == wanted:
                    return number
        return next(iter(self.entry.published), None)

    @property
    def metric(self) -> str:
        """The ``metric,filter`` of our score: what the published number is of; where there is none, the verdict."""
        return self.published.our_metric if self.published else self.entry.verdict

    @property
    def averaging(self) -> str:
        """How our score is averaged: ``macro`` over subtasks, ``micro`` over docs, or as the published number is."""
        if self.metric == self._macro:
            return "macro"
        return (self.published.averaging if self.published else None) or "micro"

    @property
    def our_score(self) -> float | None:
        """Our score of the whole task, 0 to 1, as the task's own aggregation gives it; None where it is no share."""
        return None if self.metric.partition(",")[0] in NO_SHARE else self.scores.get(self.metric)

    @property
    def compares_verdicts(self) -> bool:
        """Whether what was compared are verdicts, and not readings, whose mean is no score."""
        return self.tallies is not None and self.tallies.metric == self.entry.verdict

    def mean(self, which: Callable[[Tally], float | None]) -> float | None:
        """The mean of others' verdicts, 0 to 1, averaged as our score is; None where they are none in its metric."""
        if self.tallies is None or not self.compares_verdicts:
            return None
        if self.metric == self._macro:
            return macro(self.tallies.subtasks, which) if self.tallies.subtasks else which(self.tallies.total)
        return which(self.tallies.total) if self.metric == self.entry.verdict else None

    @property
    def _macro(self) -> str:
        metric, _, filter_name = self.entry.verdict.partition(",")
        return f"{metric}_macro,{filter_name}"


@dataclass(slots=True)
class Proof:
    """What verify found out about a pack.

    Attributes:
        pack: The folder.
        regraded: The folder of the run whose answers were graded, if any.
        edited: The files of the pack that are not as prepare wrote them.
        tasks: By name.
    """

    pack: Path
    regraded: Path | None
    edited: tuple[str, ...] = ()
    tasks: dict[str, TaskProof] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Every task that was checked passed, and at least one was."""
        statuses = {report.status for report in self.tasks.values()}
        return "passed" in statuses and statuses <= {"passed", "not checked"}

    @property
    def exit_code(self) -> int:
        """0 passed; 2 a task cannot be run, which somebody must fix; 1 anything else that is no pass."""
        if any(report.status == "failed" for report in self.tasks.values()):
            return 2
        return 0 if self.passed else 1


@documented
def verify(
    pack: Path | str,
    *,
    tasks: Sequence[str] = (),
    min_agreement: float | None = None,
    regrade: Path | str | None = None,
    allow_code: bool = False,
    edited: bool = False,
    progress: Progress = silent,
) -> Proof:
    """Replay the recorded answers through a pack and compare every verdict with the recorded one.

    ::

        from meta_eval import verify

        proof = verify("work_dir")
        for name, task in proof.tasks.items():
            print(name, task.status, task.reason)

    Args:
        pack: The folder that prepare wrote.
        tasks: Tasks and groups of it; empty for all.
        min_agreement: For all tasks, 0 to 1; None for each task's own.
        regrade: A folder with the samples files of a finished run: its answers are graded again instead, and the
            verdicts are compared with those it was given then.
        allow_code: Also check the tasks whose scoring runs code that a model wrote.
        edited: Take a pack that was edited as it is; the report and the baseline that is kept say so.
        progress: Called with the task, the answers scored, and how many there are.

    Raises:
        PackError: The folder is no pack, was edited, or there is nothing to grade again.
        ResultsError: A results file of the finished run is damaged, or its runs are of several models.
        ConfigError: A name that the pack does not have, or a share that is none.
    """
    if min_agreement is not None and not 0 <= min_agreement <= 1:
        raise ConfigError(f"{min_agreement:g} is not a share from 0 to 1", where="--min-agreement")
    pack, regrade = Path(pack), None if regrade is None else Path(regrade)
    manifest = read_manifest(pack)
    chosen = choose(manifest, tasks)
    files = find_samples(regrade, chosen) if regrade is not None else None
    changed = integrity.check(pack, manifest, edited=edited)
    evaluator = Evaluator(pack)
    keys = pack_keys(pack, manifest)
    proof = Proof(pack, regrade, changed)
    folder = out_folder(pack, regraded=regrade is not None)
    for name in chosen:
        entry = manifest.tasks[name]
        wanted = entry.min_agreement if min_agreement is None else min_agreement
        result = TaskProof(entry, "failed", None, wanted)
        proof.tasks[name] = result
        progress(name, 0, 0)
        if entry.unsafe_code and not allow_code:
            result.status = "not checked"
            result.reason = "scoring it runs code that a model wrote; --allow-code does so"
            continue
        if files is not None and name not in files.tasks:
            result.status, result.reason = "not checked", f"no samples file of it in {regrade}"
            continue
        try:
            evaluated, result.tallies = _check(evaluator, name, entry, files, allow_code, progress)
            if files is None and entry.baseline is not None:
                _check_baseline(evaluator, name, manifest, result, keys[name], changed, allow_code, progress)
        except UserError as error:
            result.reason = str(error)
            if regrade is None:
                _write(baseline_file(pack, name), missing_text(keys[name], f"verify failed: {error}", changed), folder)
            continue
        result.scores = result.scores if result.of_baseline else evaluated.scores
        result.status, result.reason = _judge(result.tallies, entry, wanted, of_baseline=result.of_baseline)
        result.file = folder / f"{name}.jsonl"
        _write(result.file, "".join(map(_line, result.tallies.disagreements)), folder)
        if regrade is None:
            kept = (
                missing_text(keys[name], f"verify did not check all docs: {result.reason}", changed)
                if result.status == "unfinished"
                else baseline_text(keys[name], evaluated.samples, has_recorded_answer, changed)
            )
            _write(baseline_file(pack, name), kept, folder)
    return proof


def choose(manifest: Manifest, names: Sequence[str]) -> list[str]:
    """The tasks that names of tasks and groups mean, in the manifest's order.

    Raises:
        ConfigError: A name that the pack does not have.
    """
    wanted: set[str] = set()
    for name in names:
        if name not in manifest.tasks and name not in manifest.groups:
            known = [*manifest.groups, *manifest.tasks]
            raise ConfigError(
                f"this pack has no task or group {name!r}{suggestion(name, known)}",
                where="--tasks",
                hint=f"It has {', '.join(known)}",
            )
        wanted |= set(manifest.groups.get(name, (name,)))
    return [name for name in manifest.tasks if not names or name in wanted]


def _check(
    evaluator: Evaluator, name: str, entry: TaskEntry, files: Files | None, allow_code: bool, progress: Progress
) -> tuple[Evaluated, Tallies]:
    task = evaluator.load(name)
    docs = task.eval_docs
    if not docs:
        raise PackError("holds no docs", where=name, hint="Run `meta-eval prepare` again")
    saved: Saved | None = None
    if files is not None:
        saved = read_saved(files, name, docs, entry.verdict, log.warning)
    evaluated = evaluator.evaluate(
        name,
        task=task,
        answers=saved.answers if saved else None,
        indices=saved.indices if saved and len(saved.indices) < len(docs) else None,
        allow_code=allow_code,
        hashed=False,
        progress=lambda done, total: progress(name, done, total),
    )
    context = Explanations(evaluated.failures, evaluated.extract, saved.verdicts if saved else None)
    if entry.record is not None and saved is None:
        return evaluated, tally_record(entry, evaluated.samples, context)
    with contained(evaluator.pack):  # it asks the template what an answer's extraction is
        return evaluated, tally_task(name, entry, evaluated.samples, context)


def _check_baseline(
    evaluator: Evaluator,
    name: str,
    manifest: Manifest,
    result: TaskProof,
    key: str,
    edited: Sequence[str],
    allow_code: bool,
    progress: Progress,
) -> None:
    """Grade the answers of the record that ``baseline:`` names, keep the verdicts, and say where they are not its own.

    Of a task of which nothing else is recorded this is the proof.
    """
    entry = result.entry
    answers = [one for one in read_named(evaluator.pack, entry) if one.responses is not None]
    path, key = baseline_file(evaluator.pack, name, named=True), named_key(key, manifest, name)
    if not answers:
        missing = "the baseline was asked in another way, so that its answers cannot be graded here"
        _write(path, missing_text(key, missing, edited), out_folder(evaluator.pack))
        return
    evaluated = evaluator.evaluate(
        name,
        task=evaluator.load(name),
        answers=[dict(enumerate(one.responses or ())) for one in answers],
        indices=[one.doc for one in answers],
        allow_code=allow_code,
        hashed=False,
        progress=lambda done, total: progress(name, done, total),
    )
    context = Explanations(evaluated.failures, evaluated.extract, None)
    tallies = tally_record(entry, evaluated.samples, context, {one.doc: one.metrics for one in answers})
    total = tallies.total
    if entry.record is not None and entry.record.model is None:
        result.tallies, result.scores, result.of_baseline = tallies, evaluated.scores, True
    elif total.agreed < total.compared:
        differing = total.compared - total.agreed
        log.warning(f"{name}: {differing:,} of {total.compared:,} answers of the baseline are graded otherwise today")
    text = baseline_text(key, evaluated.samples, lambda _: True, edited, {one.doc: one.same_prompt for one in answers})
    _write(path, text, out_folder(evaluator.pack))


def _judge(tallies: Tallies, entry: TaskEntry, wanted: float, *, of_baseline: bool) -> tuple[Status, str | None]:
    total = tallies.total
    if total.docs != (entry.baseline.docs if of_baseline and entry.baseline else entry.docs):
        return "unfinished", f"{total.docs:,} of the {entry.docs:,} docs that were prepared"
    if total.agreement is None and entry.record is not None and entry.record.model is None:
        return "not checked", "nobody's answers are recorded: it is a task of lm-eval as it is"
    if total.agreement is None:
        return "not checked", f"nothing to compare our verdicts with: {tallies.against} is not there for any doc"
    if total.agreement < wanted:
        judge = "; Meta's verdicts are partly a judge model's" if entry.graded_by == "judge" else ""
        return "below", (
            f"agreement {total.agreement:.4f} ({total.agreed:,} of {total.compared:,} docs) is below {wanted:g}{judge}"
        )
    return "passed", None


def _write(path: Path, text: str, folder: Path) -> None:
    """One file below verify's folder, whole or not at all.

    Raises:
        PackError: The folder cannot be made.
        OutputError: The file cannot be written.
    """
    ignore = folder / ".gitignore"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not os.path.lexists(ignore):  # one that is there may have been edited
            ignore.write_text(_GITIGNORE, encoding="utf-8")
    except OSError as error:
        raise PackError(f"cannot be written ({error})", where=str(path)) from None
    with replacing(path) as file:
        file.write(text)


def _line(disagreement: dict[str, Any]) -> str:
    """One line of ``<task>.jsonl``, which is empty where there is no disagreement."""
    # Recorded outputs may hold half a surrogate pair, which UTF-8 cannot write; escaped it is harmless.
    text = json.dumps(disagreement, ensure_ascii=False, default=str)
    try:
        text.encode()
    except UnicodeEncodeError:
        text = json.dumps(disagreement, default=str)
    return text + "\n"

"""``meta-eval verify``: grade the recorded answers with a pack, and compare every verdict."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from meta_eval.base.display import CAUTION, name_path
from meta_eval.base.pack_names import join_names
from meta_eval.cli import options
from meta_eval.cli.console import err, make_result_console
from meta_eval.cli.steps import Steps
from meta_eval.cli.streams import print_result
from meta_eval.pack.pack_options import VerifyOptions, make_verify_command

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from meta_eval.pack.verify import Proof, TaskProof
    from meta_eval.pack.verify.tallies import Tally


# Of `verify --json`.
VERIFY_SCHEMA = 2


@options.spread_options()
def verify(
    pack: Path | None = options.PACK,
    config: Path = options.CONFIG_OF_PACK,
    *,
    chosen: VerifyOptions,
    as_json: bool = options.SHARES_AS_JSON,
) -> None:
    """Grade the recorded answers with the pack, and compare every verdict with the recorded verdict.

    This needs no model. It also writes the baseline that later reports use.

    Exit codes: 0 all checked tasks agree, 1 a task does not agree or is unfinished, 2 an error that you can fix.

    Example: meta-eval verify work_dir
    """
    folder = options.pack_folder(pack, config)
    from meta_eval.pack.verify import verify as run

    with Steps("checking"):
        proof = run(folder, options=chosen)
    _show(proof, make_result_console(as_json=as_json))
    if as_json:
        print_result(_object(proof))
    raise typer.Exit(proof.exit_code)


def _show(proof: Proof, out: Console) -> None:
    checked = {name: result for name, result in proof.tasks.items() if result.tallies is not None}
    if checked:
        out.print(_table(proof, checked))
        for line in _legend(proof):
            out.print(line, style="dim")
    for name, result in proof.tasks.items():
        if result.status != "passed":
            style = CAUTION if result.status == "not checked" else "bold red"
            out.print(f"{result.status}: {name}: {result.reason}", style=style, soft_wrap=True)
    differing = sum(len(result.tallies.disagreements) for result in checked.values() if result.tallies)
    folder = next((result.file.parent for result in checked.values() if result.file), None)
    if folder is not None:
        place = name_path(folder)
        baseline_note = "" if proof.regraded else f"; the baseline of later reports is in {place}/baseline"
        out.print(f"{differing} disagreements are in {place}{baseline_note}", soft_wrap=True)
    word = "passed" if proof.passed else "not passed"
    if proof.edited:
        out.print(f"edited after prepare: {join_names(proof.edited)}", style="bold red", soft_wrap=True)
        word += " (edited pack)"
    out.print(f"{word}: {_counts(proof)}", style="bold", soft_wrap=True)
    if any(result.status == "below" and result.entry.invented for result in proof.tasks.values()):
        again = make_verify_command(name_path(proof.pack), of_sample=True)
        err.print(
            f"some recorded verdicts of the embedded sample are wrong on purpose: `{again}` allows for them",
            soft_wrap=True,
        )
    if proof.passed and not proof.regraded:
        edited = ["--edited"] if proof.edited else []
        again = shlex.join(["meta-eval", "run", name_path(proof.pack), *edited])
        err.print(f"next: `{again}`, or the lm_eval command, if prepare printed one", soft_wrap=True)


def _counts(proof: Proof) -> str:
    """Format the counts: ``3 of 3 tasks passed``, or ``1 of 3 tasks failed, 1 below``."""
    counts = Counter[str](result.status for result in proof.tasks.values())
    statuses = ["failed", "below", "unfinished", "not checked"]
    shown = [(counts[status], status) for status in (["passed"] if proof.passed else []) + statuses if counts[status]]
    (first, status), *others = shown
    more = "".join(f", {count} {other}" for count, other in others)
    return f"{first} of {len(proof.tasks)} tasks {status}{more}"


def _table(proof: Proof, checked: dict[str, TaskProof]) -> Table:
    # The numbers take 52 of 80 columns. Names wrap in the rest.
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("task", overflow="fold", ratio=1)
    whose = _whose(proof)
    reference = "saved" if proof.regraded else whose
    meta = (whose,) if proof.regraded else ()
    numbers = _has_numbers(proof)
    for heading in (
        "docs",
        "ours",
        reference,
        *meta,
        *(["publ."] if numbers else []),
        "agree",
        "ours\nonly",
        f"{reference}\nonly",
        "none\nfound",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, result in checked.items():
        if result.tallies is None:
            continue
        number = result.published
        published = f"{number.value:.1f}" + ("" if number.same_settings else "*") if number else "-"
        published = "-" if result.entry.invented else published
        scores = [result.graded_score, result.mean(attrgetter("reference_score"))]
        scores += [result.mean(attrgetter("meta_score"))] if proof.regraded else []
        table.add_row(
            name + (" (m)" if result.averaging == "macro" else " (4)" if result.averaging == "mean of four" else ""),
            *_cells(result.tallies.total, scores, *([published] if numbers else [])),
            style=None if result.status == "passed" else CAUTION if result.status == "not checked" else "red",
        )
        subtasks = result.tallies.subtasks
        for subtask, tally in subtasks.items() if len(subtasks) > 1 else ():
            scores = [tally.graded_score, tally.reference_score, *([tally.meta_score] if proof.regraded else [])]
            scores = scores if result.compares_verdicts else [None] * len(scores)
            table.add_row(
                "  " + _short(subtask, subtasks), *_cells(tally, scores, *([""] if numbers else [])), style="dim"
            )
    return table


def _has_numbers(proof: Proof) -> bool:
    """Whether there is a column of published numbers. Invented docs have none."""
    return not all(result.entry.invented for result in proof.tasks.values() if result.tallies is not None)


def _cells(tally: Tally, scores: Sequence[float | None], *published: str) -> tuple[str, ...]:
    return (
        f"{tally.docs:,}",
        *map(_percent, scores),
        *published,
        _percent(tally.agreement, 2 if tally.compared >= 1000 else 1),
        f"{tally.graded_only:,}",
        f"{tally.reference_only:,}",
        "-" if tally.unextracted is None else f"{tally.unextracted:,}",
    )


def _percent(share: float | None, digits: int = 1) -> str:
    return "-" if share is None else f"{100 * share:.{digits}f}"


def _short(subtask: str, others: dict[str, Tally]) -> str:
    """Shorten ``mmlu_pro_chat.physics`` to ``physics`` if all subtasks have the same prefix."""
    prefix = subtask.rpartition(".")[0]
    return subtask[len(prefix) + 1 :] if prefix and all(o.rpartition(".")[0] == prefix for o in others) else subtask


def _whose(proof: Proof) -> str:
    """The heading for recorded verdicts."""
    entries = [result.entry for result in proof.tasks.values()]
    return "rec." if any(entry.record is not None or entry.model is None for entry in entries) else "Meta"


def _legend(proof: Proof) -> list[str]:
    results = [result for result in proof.tasks.values() if result.tallies is not None]
    saved = "saved: the run's own verdicts; " if proof.regraded else ""
    of_record = any(result.entry.record is not None for result in proof.tasks.values())
    is_meta = _whose(proof) == "Meta"
    reference = "Meta: mean of its recorded verdicts" if is_meta else "rec.: mean of the recorded verdicts"
    publ = "the record's score" if of_record else "published number"
    ours = f"publ.: {publ}; ours: in its metric" if _has_numbers(proof) else "ours: in the metric of the task"
    lines = [f"percent; {saved}{reference}; {ours}; none found: nothing was extracted from the answer"]
    if of_record and not proof.regraded:
        lines.append("agree: docs on which every recorded metric is the same under today's graders")
    if any(result.averaging == "macro" for result in results):
        lines.append("(m) averaged over subtasks, as the published number is")
    if any(result.averaging == "mean of four" for result in results):
        lines.append("(4) mean of four accuracies, as the published number is")
    if any(number and not number.same_settings for number in (r.published for r in results if not r.entry.invented)):
        lines.append("* measured with other settings than these rows: not comparable")
    for reading in dict.fromkeys(r.entry.is_correct_metric for r in results if r.tallies and not r.compares_verdicts):
        names = ", ".join(r.entry.subset for r in results if r.entry.is_correct_metric == reading)
        lines.append(f"{names}: Meta's is_correct is no score; the column agree compares it with our metric {reading}")
    judged = [name for name, result in proof.tasks.items() if result.tallies and result.entry.graded_by == "judge"]
    if judged:
        lines.append(f"Meta graded with a judge model too: {', '.join(judged)}")
    missing = {n: r.tallies.total.not_recorded for n, r in proof.tasks.items() if r.tallies}
    lines += [f"{n}: {count:,} docs without a verdict to compare with" for n, count in missing.items() if count]
    return lines


def _object(proof: Proof) -> dict[str, Any]:
    from meta_eval.base.thresholds import SAME_VERDICT

    return {
        "schema_version": VERIFY_SCHEMA,
        "pack": str(proof.pack),
        "regraded": None if proof.regraded is None else str(proof.regraded),
        "passed": proof.passed,
        "edited": list(proof.edited),
        "tolerance": SAME_VERDICT,
        "tasks": {name: _task_object(result) for name, result in proof.tasks.items()},
    }


def _task_object(result: TaskProof) -> dict[str, Any]:
    entry = result.entry
    payload: dict[str, Any] = {
        "status": result.status,
        "reason": result.reason,
        "subset": entry.subset,
        "primary_metric": entry.primary_metric,
        "is_correct_metric": entry.is_correct_metric,
        "graded_by": entry.graded_by,
        "min_agreement": result.min_agreement,
        "prepared_docs": entry.docs,
        "reference_scores": [number.model_dump(mode="json") for number in entry.reference_scores],
    }
    if result.tallies is not None:
        tallies = result.tallies
        payload |= {
            "compared_with": tallies.compared_with,
            "compared": tallies.metric,
            "metric": result.metric,
            "averaging": result.averaging,
            "our_score": result.graded_score,
            "their_score": result.mean(attrgetter("reference_score")),
            "meta_score": result.mean(attrgetter("meta_score")),
            "total": _tally_object(tallies.total, result.compares_verdicts),
            "subtasks": {
                name: _tally_object(tally, result.compares_verdicts) for name, tally in tallies.subtasks.items()
            },
            "disagreements": len(tallies.disagreements),
            "file": str(result.file),
        }
    return payload


def _tally_object(tally: Tally, verdicts: bool) -> dict[str, Any]:
    """A tally as JSON. ``verdicts`` tells whether its means are scores; other means are left out."""
    return {
        "docs": tally.docs,
        "compared": tally.compared,
        "our_score": tally.graded_score if verdicts else None,
        "their_score": tally.reference_score if verdicts else None,
        "meta_score": tally.meta_score if verdicts else None,
        "agreement": tally.agreement,
        "agreement_with_meta": tally.like_meta / tally.with_meta if tally.with_meta else None,
        "ours_only": tally.graded_only,
        "theirs_only": tally.reference_only,
        "unextracted": tally.unextracted,
        "ungraded": tally.ungraded,
        "not_recorded": tally.not_recorded,
    }

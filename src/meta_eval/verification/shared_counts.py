"""Counts of a verification that can be shared: they prove or refute tasks, and hold no text of a row."""

from __future__ import annotations

import datetime
import platform
import re
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from meta_eval.boundary.hashing import hash_text
from meta_eval.boundary.inputs import read_table
from meta_eval.catalog.contributed import Counts, SharedCounts, SharedTask, parse_types, shorten_name, sign_grader
from meta_eval.messages.errors import PackError
from meta_eval.pack.manifest import Manifest, read_manifest
from meta_eval.version import __version__

if TYPE_CHECKING:
    from meta_eval.verification.proof import Proof, TaskProof
    from meta_eval.verification.tallies import Tally


def make_shared_counts(proof: Proof) -> SharedCounts:
    """The counts of all tasks that were compared with Meta's verdicts.

    Raises:
        PackError: There is none, a finished run was graded, or the pack was edited.
    """
    if proof.regraded is not None or proof.edited:
        what = "a finished run was graded" if proof.regraded is not None else "files of the pack were edited"
        raise PackError(f"{what}, which proves no task", where="--share", hint="Verify a pack as prepare wrote it")
    manifest = read_manifest(proof.pack)
    tasks = {
        name: _share_task(proof.pack, manifest, result)
        for name, result in proof.tasks.items()
        if result.tallies is not None and result.entry.record is None and result.of_baseline is None
    }
    if not tasks:
        raise PackError("no verdict of Meta's was compared", where="--share", hint="Prepare one of Meta's datasets")
    return SharedCounts(
        date=datetime.datetime.now(datetime.UTC).date().isoformat(), meta_eval=__version__, lm_eval=version("lm-eval"),
        python=platform.python_version(), tasks={shorten_name(name): task for name, task in tasks.items()},
    )  # fmt: skip


def _share_task(pack: Path, manifest: Manifest, result: TaskProof) -> SharedTask:
    entry, tallies = result.entry, result.tallies
    assert tallies is not None  # noqa: S101 (the caller chose)
    columns, prompts = {}, None
    if entry.docs_file is not None:
        table = read_table(pack / entry.docs_file)
        columns = parse_types(table.schema)
        if "prompt" in table.column_names:
            hashes = sorted(hash_text(str(prompt)) for prompt in table.column("prompt").to_pylist())
            prompts = hash_text("\n".join(hashes))
    theirs = result.mean(lambda tally: tally.reference_score)
    return SharedTask(
        dataset=entry.dataset_id,
        commit=entry.dataset_revision,
        subset=shorten_name(entry.subset),
        columns=columns,
        counts=_count(tallies.total),
        subtasks={shorten_name(name): _count(tally) for name, tally in tallies.subtasks.items()},
        metric=re.sub(r"[^A-Za-z0-9_@.,-]", "-", tallies.metric),
        ours=_percent(result.graded_score),
        theirs=_percent(theirs),
        published=result.published.value if result.published else None,
        prompts_sha256=prompts,
        grader_sha256=sign_grader(entry.template, {name: file.sha256 for name, file in manifest.files.items()}),
    )


def _count(tally: Tally) -> Counts:
    return Counts(docs=tally.docs, compared=tally.compared, agreed=tally.agreed)


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 4)

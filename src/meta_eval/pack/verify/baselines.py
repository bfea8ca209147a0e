"""Makes the baseline of a pack if it is missing or stale."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from meta_eval.base.logs import log, report_progress
from meta_eval.harness.grader_facts import find_installed_lm_eval
from meta_eval.pack.baseline import VERIFY_HINT, read_baseline
from meta_eval.pack.manifest import read_manifest
from meta_eval.pack.verify.pack_verification import verify
from meta_eval.verb_options import ScoringOptions


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
    missing = read_baseline(pack, manifest, lm_eval=find_installed_lm_eval()).missing_reasons
    stale = [name for name in tasks if missing.get(name, "").endswith(VERIFY_HINT)]
    if not stale:
        return
    report_progress("grading the recorded answers, which the run is compared with")
    proof = verify(pack, tasks=stale, allow_code=options.allow_code, edited=options.edited)
    for name, task in proof.tasks.items():
        if task.status not in ("passed", "not checked"):
            log.warning(
                f"{name}: {task.status}: {task.reason}. Look closer with: meta-eval verify {pack} --tasks {name}"
            )
